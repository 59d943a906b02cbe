# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What is wrong with an inventory for Kubernetes: pure functions.

They find it before a host is contacted.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _own_variables
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import control_plane, dra, runtimes, sharing, vendor_plugins
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import settings as kubernetes_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

CONTROL_PLANE = "kubernetes_control_plane"
WORKERS = "kubernetes_workers"
ADDRESS = "kubernetes_cluster_address"
# What each host may have for itself; all else is of the cluster.
PER_HOST = frozenset((ADDRESS, sharing.VARIABLE))

Variables = t.Mapping[str, t.Any]


def members_of(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """All hosts of the cluster, each once, the control plane first.

    The inventory's order makes no difference.
    """
    return list(dict.fromkeys(host for group in (CONTROL_PLANE, WORKERS) for host in sorted(groups.get(group) or ())))


def group_errors(groups: t.Mapping[str, t.Sequence[str]]) -> list[Finding]:
    control, workers = sorted(groups.get(CONTROL_PLANE) or ()), sorted(groups.get(WORKERS) or ())
    found = []
    if not control:
        found.append(wrong(f"The inventory has no host in the group {CONTROL_PLANE}", "name the one that runs the control plane"))
    found += control_plane.count_errors(control)
    if not workers:
        found.append(wrong(f"The inventory has no host in the group {WORKERS}", "name the hosts that run pods"))
    both = set(control) & set(workers)
    found += [
        wrong(f"{host} is in {CONTROL_PLANE} and in {WORKERS}", "take it out of one of them", host) for host in workers if host in both
    ]
    return found


def short_name(host: str) -> str:
    """An inventory name without its domain; empty for an address, which has none."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.split(".", 1)[0].lower()
    return ""


def same(values: t.Mapping[str, str], what: str) -> list[Finding]:
    """One sentence for each value that several hosts share."""
    hosts_of: dict[str, list[str]] = {}
    for host, value in values.items():
        hosts_of.setdefault(value, []).append(host)
    return [
        wrong(f"The hosts {' and '.join(hosts)} have the same {what} {value}", "correct one of them")
        for value, hosts in hosts_of.items()
        if len(hosts) > 1
    ]


def name_errors(names: t.Mapping[str, str]) -> list[Finding]:
    """Names of nodes that Kubernetes does not take, or that are not unique."""
    found = [
        wrong(
            f"The name {name!r} of {host} can't be that of a node",
            "give the host a name of at most 63 small letters, digits and '-', a letter or digit at both ends",
            host,
        )
        for host, name in names.items()
        if not kubernetes_settings.LABEL.fullmatch(name)
    ]
    return found + same(names, "node name")


def address_errors(cluster: Variables, variables: t.Mapping[str, Variables]) -> list[Finding]:
    """Addresses that the inventory gives and that can't be those of the hosts."""
    given = {host: str(own[ADDRESS]) for host, own in variables.items() if own.get(ADDRESS)}
    found = same(given, ADDRESS)
    for host, own in variables.items():
        if host in given:
            try:
                ipaddress.IPv4Address(given[host])
            except ValueError:
                found.append(
                    wrong(f"{ADDRESS} of {host} is {given[host]!r}, which is no IPv4 address", "write one that the host has", host)
                )
        for name in (ADDRESS, "ansible_host"):
            inside = kubernetes_settings.network_of(cluster, own.get(name))
            if inside:
                found.append(
                    wrong(
                        f"{name} of {host} is {own[name]}, which is inside {inside} {cluster[inside[len(PREFIX) :]]}",
                        f"change {inside}",
                        host,
                    )
                )
    return found


def disagreements(first: str, others: t.Iterable[str], raw: t.Callable[[str], Variables]) -> list[Finding]:
    """Return the variables of the cluster that a host sees otherwise than the first.

    A run must compute the same cluster wherever it starts. The variables are compared as written, before templates in them
    are resolved.
    """

    def own(host: str) -> dict[str, t.Any]:
        # A playbook that came before in the same run set the roles' facts on some hosts.
        return {name: value for name, value in raw(host).items() if name.startswith(PREFIX) and name not in may_differ}

    may_differ = PER_HOST | set(_own_variables.facts())
    wanted = own(first)
    found = []
    for host in others:
        seen = own(host)
        if seen == wanted:
            continue
        found += [
            wrong(f"{name} differs between {first} and {host}", "set it once for all hosts of the cluster, in group_vars/all", host)
            for name in sorted({*wanted, *seen})
            if (name in wanted) != (name in seen) or wanted.get(name) != seen.get(name)
        ]
    return found


def errors(cluster: Variables, groups: t.Mapping[str, t.Sequence[str]], variables: t.Mapping[str, Variables]) -> list[Finding]:
    """All that groups, variables and settings say, but for the comparison of hosts.

    :param variables: of each member.
    """
    workers = dict.fromkeys(sorted(groups.get(WORKERS) or ()))
    found = group_errors(groups) + kubernetes_settings.errors(cluster, len(variables))
    found += (
        runtimes.cluster_errors(cluster) + dra.manifest_errors(cluster["dra_manifests"]) + vendor_plugins.errors(cluster["device_plugins"])
    )
    found += control_plane.endpoint_errors(cluster, {host: variables[host] for host in sorted(groups.get(CONTROL_PLANE) or ())})
    found += [
        wrong(f"{PREFIX}accept_hardware names {host}, which is not in {WORKERS}", "correct the name, or the group")
        for host in kubernetes_settings.listed(cluster["accept_hardware"])
        if host not in workers
    ]
    # With an ansible_host the inventory's name is an alias: the host's own name is known when it was read.
    own_names = {host: short_name(host) for host, own in variables.items() if not own.get("ansible_host")}
    found += name_errors({host: name for host, name in own_names.items() if name})
    found += address_errors(cluster, variables)
    for host in workers:
        found += sharing.node_errors(host, variables[host].get(sharing.VARIABLE), cluster["gpus"])
    return found
