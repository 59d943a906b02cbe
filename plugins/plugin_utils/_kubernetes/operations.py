# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What operators do with the nodes of a Kubernetes cluster: pure functions.

They say which nodes operators mean, and what keeps a node away.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import pods
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manager, manifests
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.inventory import CONTROL_PLANE, WORKERS

Names = t.Sequence[str]

# Their pods serve the cluster and no user.
SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system", "kueue-system", manifests.NAMESPACE)


def selection(wanted: t.Any, variable: str, groups: t.Mapping[str, Names], in_play: Names, limited: bool = False) -> dict[str, list[str]]:
    """The workers that an operator means, and what is wrong with the request.

    :param wanted: names of hosts or groups, as list or text; empty means the hosts of --limit.
    """
    entries = wanted.split(",") if isinstance(wanted, str) else wanted
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        return {"hosts": [], "errors": [f"{variable} must be a list of hosts or groups."]}
    names = [entry.strip() for entry in entries if entry.strip()]
    workers = list(groups.get(WORKERS, []))
    if not names and not limited:
        return {"hosts": [], "errors": [f"{variable} is not set: name hosts or groups of {WORKERS}, or give --limit."]}
    hosts = [host for name in names for host in groups.get(name, [name])] if names else [host for host in workers if host in in_play]
    errors = []
    for host in dict.fromkeys(hosts):
        if host in groups.get(CONTROL_PLANE, []):
            errors.append(
                f"{variable} names {host}, which is in {CONTROL_PLANE}: a host with a member of etcd is left alone. Name workers."
            )
        elif host not in workers:
            errors.append(f"{variable} names {host}, which is not in {WORKERS}: use the names of the inventory.")
        elif host not in in_play:
            errors.append(f"{variable} names {host}, which --limit leaves out: name it in one of them only.")
    return {"hosts": [] if errors else sorted(set(hosts)), "errors": errors}


def unfit(hosts: Names, hostvars: t.Any, result: str, recorded: str, control: str) -> dict[str, str]:
    """What keeps workers from being given back, by inventory name.

    :param result: the variable with what gpu_facts returned for each. recorded: the text of the record of promises.
    :raises ValueError: the record is damaged.
    """
    before = manager.PROMISES.read(recorded, control)["nodes"]
    answer = {}
    for host in hosts:
        variables = hostvars[host]
        seen = variables.get(result) or {}
        if seen.get("unreachable") or seen.get("failed"):
            answer[host] = f"its accelerators can't be read ({' '.join(str(seen.get('msg') or 'no answer').split())})"
            continue
        allotment = variables.get(_allotment.VARIABLE)
        there = (variables.get("ansible_facts") or {}).get("accelerators") or []
        mine, promised = (_allotment.owned(devices, allotment, manager.NAME) for devices in (there, before.get(host, [])))
        vendors = {device.get("vendor") for device in promised}
        lost = promises.with_lost([device for device in mine if device.get("vendor") in vendors], list(promised), host)[1]
        if lost:
            answer[host] = "; ".join(map(str, lost))
    return answer


def record_without(recorded: str, hosts: Names, control: str) -> str:
    """The record of promises without some hosts; empty where there is no record.

    :raises ValueError: it is damaged.
    """
    if not recorded:
        return ""
    before = manager.PROMISES.read(recorded, control)
    kept = {host: devices for host, devices in before.pop("nodes").items() if host not in hosts}
    return manager.PROMISES.text(kept, **before)


def users_pods(listed: t.Any) -> list[str]:
    """Return a sentence for each user's pod in a list: it would end with the cluster.

    :raises ValueError: *listed* is no list of pods.
    """
    items = listed.get("items") if isinstance(listed, t.Mapping) else listed
    if not isinstance(items, (list, tuple)) or not all(isinstance(pod, t.Mapping) and "metadata" in pod and "spec" in pod for pod in items):
        raise ValueError("The pods must be a list of objects with metadata and spec, as 'kubectl get pods --output=json' prints it.")
    return [
        pods.sentence(pod) + (f" on {pod['spec']['nodeName']}" if pod["spec"].get("nodeName") else "")
        for pod in items
        if pods.is_users(pod) and pod["metadata"]["namespace"] not in SYSTEM_NAMESPACES
    ]
