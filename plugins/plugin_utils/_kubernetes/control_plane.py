# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A control plane of one or three hosts, and where it is reached: pure functions.

The module also has what its hosts report at the beginning of a run.
"""

from __future__ import annotations

import base64
import json
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import kubeadm
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

GROUP = "kubernetes_control_plane"
ADDRESS = f"{PREFIX}address"
# A fact of a host that does not answer: what the hosts of the control plane keep of each other.
REMEMBERED = "kubernetes_cluster_remembered"
HEAD = "# Made by deephdc.accelerators: the hosts of the control plane, for the time when one of them does not answer.\n"
LOOPBACK = "127.0.0.1"
COUNTS = (1, 3)


def count_errors(control: t.Sequence[str]) -> list[Finding]:
    """A number of hosts that makes no sense, or that no test ran with."""
    if not control or len(control) in COUNTS:
        return []
    why = (
        "of two hosts etcd needs both, so the loss of either stops the cluster"
        if len(control) == 2
        else "only control planes of one and of three were tried"
    )
    return [wrong(f"The group {GROUP} has {len(control)} hosts ({', '.join(control)}), and {why}", "leave one or three hosts in it")]


def endpoint_errors(cluster: t.Mapping[str, t.Any], control: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Finding]:
    """What is wrong with where the API is reached.

    :param control: variables of the hosts of the control plane.
    """
    given, is_local = str(cluster["endpoint"] or ""), cluster["balancer"] == "local"
    port = as_number(cluster["balancer_port"])
    found = []
    if port is None or not 1 <= port <= 65535 or port == kubeadm.PORT:
        found.append(
            wrong(
                f"{PREFIX}balancer_port is {shown(cluster['balancer_port'])}",
                f"write the number of a port that is free on all hosts, other than {kubeadm.PORT}",
            )
        )
    if is_local and given:
        found.append(
            wrong(
                f"{PREFIX}balancer is local, and {PREFIX}endpoint is {shown(given)}",
                f"leave {PREFIX}endpoint empty, as each host has its own balancer, or set {PREFIX}balancer to none",
            )
        )
    if len(control) == 3 and not given and not is_local:
        found.append(
            wrong(
                f"The group {GROUP} has {len(control)} hosts, but {PREFIX}endpoint is empty",
                f"write the address of a balancer in front of them there, or set {PREFIX}balancer to local",
            )
        )
    alone = given.rpartition(":")[0]
    found += [
        wrong(
            f"{PREFIX}endpoint is {given}, the address of {host} alone, so the API is lost with that host",
            "write a name or address that goes to all hosts of the control plane",
            host,
        )
        for host, own in control.items()
        if len(control) > 1 and alone and alone in (host, str(own.get(ADDRESS) or ""), str(own.get("ansible_host") or ""))
    ]
    return found


def endpoint(cluster: t.Mapping[str, t.Any], control: t.Sequence[kubeadm.Host]) -> str:
    """Where all hosts reach the API."""
    if cluster["balancer"] == "local":
        return f"{LOOPBACK}:{cluster['balancer_port']}"
    return str(cluster["endpoint"] or f"{control[0].address}:{kubeadm.PORT}")


def balancer(cluster: t.Mapping[str, t.Any], control: t.Sequence[kubeadm.Host]) -> dict[str, t.Any]:
    """What the balancer of each host has; empty where there is none."""
    if cluster["balancer"] != "local":
        return {}
    return {
        "listen": endpoint(cluster, control),
        "servers": [{"name": host.name, "address": f"{host.address}:{kubeadm.PORT}"} for host in control],
    }


def written(control: t.Sequence[kubeadm.Host]) -> str:
    """What each host of the control plane keeps of all of them."""
    return HEAD + json.dumps({host.host: {"name": host.name, "address": host.address, "cgroup": host.cgroup} for host in control}) + "\n"


def remembered(variables: t.Mapping[str, t.Any]) -> list[tuple[dict[str, t.Any], dict[str, t.Any]]]:
    """Facts and state of a host that does not answer, from what the others keep of it.

    None where they keep nothing.
    """
    kept = variables.get(REMEMBERED)
    if not isinstance(kept, t.Mapping) or not kept.get("name") or not kept.get("address"):
        return []
    facts = {"hostname": kept["name"], "distribution": "", "distribution_major_version": "", "default_ipv4": {"address": kept["address"]}}
    return [(facts, {"cgroup": kept.get("cgroup"), "containerd": ""})]


class Host:
    """What a host of the control plane printed, one line for each thing that it has."""

    def __init__(self, result: t.Mapping[str, t.Any]) -> None:
        self.name = str(result["item"])
        self.is_up = not result.get("unreachable") and not result.get("failed")
        self.why = " ".join(str(result.get("msg") or "").split())
        self.made = self.restoring = self.serves = False
        self.endpoint = self.said = ""
        self.kept: dict[str, tuple[int, str]] = {}  # name of a record to its time and its text in base64
        for line in str(result.get("stdout") or "").splitlines() if self.is_up else ():
            word, _space, rest = line.partition(" ")
            if word in ("made", "restoring"):
                setattr(self, word, True)
            elif word == "endpoint":
                self.endpoint = rest.strip()
            elif word == "serves":
                self.said = rest.strip()
                self.serves = self.said == "ok"
            elif word == "record":
                name, moment, text = (rest.split(" ", 2) + ["", "", ""])[:3]
                self.kept[name] = (int(moment or 0), text.strip())


def summary(results: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """What the hosts of the control plane report, in their order.

    :raises ValueError: they are no results of a loop.
    """
    if not isinstance(results, (list, tuple)) or not all(isinstance(one, t.Mapping) and "item" in one for one in results):
        raise ValueError("The control plane's hosts must be the results of a loop over them.")
    hosts = [Host(result) for result in results]
    made = [host for host in hosts if host.made]
    return {
        "answering": [host.name for host in hosts if host.serves],
        "made": [host.name for host in made],
        "silent": {host.name: _silence(host) for host in hosts if not host.is_up or (host.made and not host.serves)},
        "restoring": [host.name for host in hosts if host.restoring],
        "endpoints": sorted({host.endpoint for host in made if host.endpoint}),
        "accelerators": _newest(hosts, "accelerators"),
        "members": members_of(_newest(hosts, "control_plane")),
        "errors": _errors(hosts),
    }


def _silence(host: Host) -> str:
    if not host.is_up:
        return f"can't be reached ({host.why[:120]})" if host.why else "can't be reached"
    return f"is up, but its API server does not answer ({host.said[:120] or 'no answer'})"


def _newest(hosts: t.Sequence[Host], name: str) -> str:
    kept = [host.kept[name] for host in hosts if name in host.kept]
    return max(kept, key=lambda one: one[0])[1] if kept else ""


def _errors(hosts: t.Sequence[Host]) -> list[str]:
    made, down = [host for host in hosts if host.made], [host for host in hosts if not host.is_up]
    if len(hosts) == 1:
        return []  # the plan names a host that was not read, and the role kubernetes_control_plane waits for its API
    if not made:
        return [
            f"{host.name} {_silence(host)}: bring it up, as a new control plane is made of all of its hosts, or take it out of {GROUP}."
            for host in down
        ]
    if any(host.serves for host in hosts):
        return []
    needed = len(hosts) // 2 + 1
    states = "; ".join(f"{host.name} {_silence(host)}" for host in hosts if host.made or not host.is_up)
    return [
        f"No API server of the cluster answers, as etcd has lost its quorum: it needs {needed} of its {len(hosts)} hosts. {states}. "
        f"Pods that run go on. Bring hosts up until {needed} are there; if they are lost for good, use the playbook kubernetes_restore "
        "with the newest backup."
    ]


def endpoint_change(there: t.Sequence[str], wanted: str) -> list[str]:
    """Return a sentence where the cluster is reached elsewhere than the plan has it.

    All certificates and nodes have the former endpoint.

    :param there: the endpoints that the hosts of the control plane have.
    :raises ValueError: they are no list.
    """
    if not isinstance(there, (list, tuple)) or not all(isinstance(one, str) for one in there):
        raise ValueError("The endpoints must be a list of texts, such as [192.0.2.10:6443].")
    return [
        f"The cluster was made with the endpoint {former}, and it would be {wanted} now, but it can't change: set {PREFIX}endpoint to "
        f"{former}. Where that is the address of its only host, the cluster can't get more of them: make a new one with {PREFIX}balancer "
        f"or {PREFIX}endpoint."
        for former in there
        if former != wanted
    ]


def members_of(kept: str) -> dict[str, t.Any]:
    """What written() wrote, from base64; empty where it can't be read."""
    try:
        text = base64.b64decode(kept).decode()
        found = json.loads(text[len(HEAD) :]) if text.startswith(HEAD) else {}
    except ValueError:
        return {}
    return dict(found) if isinstance(found, dict) else {}
