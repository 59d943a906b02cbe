# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What operators do with the compute hosts of a cloud: pure functions.

They say which hosts operators mean, and what keeps a host away.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import manager
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.hosts import COMPUTE, control_hosts

Names = t.Sequence[str]


def listed(value: t.Any) -> list[str] | None:
    """Names as a list, also from text with commas; None where it is something else."""
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        return None
    return [entry.strip() for entry in entries if entry.strip()]


def selection(
    wanted: t.Any, variable: str, groups: t.Mapping[str, Names], in_play: Names, limited: bool = False, leaves: bool = False
) -> dict[str, list[str]]:
    """The compute hosts that an operator means, and what is wrong with the request.

    :param wanted: names of hosts or groups, as list or text; empty means the hosts of --limit.
    :param leaves: whether they leave the cloud, which a host of the control plane can't.
    """
    names = listed(wanted)
    if names is None:
        return {"hosts": [], "errors": [f"{variable} must be a list of hosts or groups."]}
    compute = list(groups.get(COMPUTE, []))
    if not names and not limited:
        return {"hosts": [], "errors": [f"{variable} is not set: name hosts or groups of {COMPUTE}, or give --limit."]}
    hosts = [host for name in names for host in groups.get(name, [name])] if names else [host for host in compute if host in in_play]
    errors = []
    for host in dict.fromkeys(hosts):
        if host not in compute:
            errors.append(f"{variable} names {host}, which is not in {COMPUTE}: use the names of the inventory.")
        elif leaves and host in control_hosts(groups):
            errors.append(f"{variable} names {host}, which is of the control plane, too: it needs what would be removed. Name other hosts.")
        elif host not in in_play:
            errors.append(f"{variable} names {host}, which --limit leaves out: name it in one of them only.")
    return {"hosts": [] if errors else sorted(set(hosts)), "errors": errors}


def not_leaving(wanted: t.Any, variable: str, hosts: Names) -> list[str]:
    """Return a sentence for each mistake in a variable that names hosts that leave."""
    names = listed(wanted)
    if names is None:
        return [f"{variable} must be a list of hosts."]
    return [f"{variable} names {name}, which openstack_remove_hosts does not." for name in names if name not in hosts]


def unfit(hosts: Names, hostvars: t.Any, result: str, recorded: str, controller: str) -> dict[str, str]:
    """What keeps compute hosts from being given back, by inventory name.

    :param result: the variable with what gpu_facts returned for each. recorded: the text of the record of promises.
    :raises ValueError: the record is damaged.
    """
    before = manager.PROMISES.read(recorded, controller)["nodes"]
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
        lost = promises.with_lost(list(mine), list(promised), host)[1]
        if lost:
            answer[host] = "; ".join(map(str, lost))
    return answer


def record_without(recorded: str, hosts: Names, controller: str) -> str:
    """The record of promises without some hosts; empty where there is no record.

    :param hosts: their names in the inventory and in Nova, as a host may have another name in the inventory now.
    :raises ValueError: it is damaged.
    """
    if not recorded:
        return ""
    before = manager.PROMISES.read(recorded, controller)
    names = dict(before.pop("names", None) or {})
    kept = {host: devices for host, devices in before.pop("nodes").items() if host not in hosts and names.get(host) not in hosts}
    return manager.PROMISES.text(kept, **before, names={host: name for host, name in names.items() if host in kept})
