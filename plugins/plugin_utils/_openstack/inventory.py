# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What the inventory and the facts say of a cloud's hosts: pure functions."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.hosts import (
    COMPUTE,
    CONTROLLERS,
    GROUPS,
    NAME,
    control_hosts,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.settings import PREFIX, listed, wrong

HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
CERTIFICATE, KEY = "openstack_control_plane_certificate", "openstack_control_plane_key"
# The tests ran on it. Debian 13 has no linuxbridge agent.
CONTROL_RELEASES = {"Debian": ("12",)}


def errors(cloud: t.Mapping[str, t.Any], site: Site) -> list[Finding]:
    """What is wrong with groups, names and certificates."""
    found = []
    for group in GROUPS:
        members = list(site.groups.get(group) or [])
        if group == CONTROLLERS and not members:
            found.append(wrong(f"The group {group} has no host", "name the host of the control plane there"))
        elif len(members) > 1:
            found.append(
                wrong(f"The group {group} has the hosts {', '.join(members)}", "leave one: each part of the control plane is on one host")
            )
    for host in control_hosts(site.groups):
        found += _host_errors(host, site.hostvars[host])
    strange = [name for name in listed(cloud["accept_hardware"]) if name not in (site.groups.get(COMPUTE) or [])]
    if strange:
        found.append(
            wrong(
                f"{PREFIX}accept_hardware names {', '.join(strange)}, which is not in {COMPUTE}", "name compute hosts as the inventory does"
            )
        )
    return [*found, *_without_cable(cloud, site)]


def _without_cable(cloud: t.Mapping[str, t.Any], site: Site) -> t.Iterator[Finding]:
    """Networks that servers are directly in, on compute hosts that are not."""
    for network in cloud["networks"] if isinstance(cloud["networks"], list) else []:
        network = network if isinstance(network, t.Mapping) else {}
        name = network.get("physical_network")
        if name and not network.get("external"):
            for host in site.groups.get(COMPUTE) or []:
                own = site.hostvars[host].get("nova_lxd_physical_networks")
                if name not in (own if isinstance(own, t.Mapping) else {}):
                    yield wrong(
                        f"{PREFIX}networks: servers are in the physical network {shown(name)} by {shown(network.get('name'))},"
                        f" and {host} is not",
                        "name its interface in nova_lxd_physical_networks, or make the network external",
                        host,
                    )


def _host_errors(host: str, own: t.Mapping[str, t.Any]) -> list[Finding]:
    found = []
    name = own.get(NAME) or host
    if not HOST_NAME.fullmatch(str(name)):
        found.append(wrong(f"{NAME} of {host} is {shown(name)}", "write the name that its certificate has", host))
    for variable, begin in ((CERTIFICATE, "CERTIFICATE"), (KEY, "PRIVATE KEY")):
        given = str(own.get(variable) or "")
        if f"{begin}-----" not in given:
            what = f"{variable} of {host} is {'missing' if not given else 'no text in PEM'}"
            found.append(wrong(what, "give the text, not the path of its file: docs/openstack.md says how one is made", host))
    return found


def unread(host: str, facts: t.Mapping[str, t.Any], computes: bool) -> list[Finding]:
    """What is missing of the facts of a host, or makes it unfit."""
    wanted = ["distribution", "default_ipv4", *(["accelerators"] if computes else [])]
    missing = [name for name in wanted if name not in facts]
    if missing:
        return [wrong(f"The facts of {host} lack {', '.join(missing)}", "run without --limit, or once over all hosts", host)]
    release = str(facts.get("distribution_major_version") or "")
    if not computes and release not in CONTROL_RELEASES.get(str(facts["distribution"]), ()):
        return [wrong(f"{host} has {facts['distribution']} {release}, on which no test made a control plane", "use Debian 12", host)]
    return []


def name_of(site: Site, host: str) -> str:
    """Return what others and its certificate call a host of the control plane."""
    return str(site.hostvars[host].get(NAME) or host)


def hostname_of(facts: t.Mapping[str, t.Any]) -> str:
    """What Nova calls a compute host."""
    return str(facts.get("nodename") or facts.get("hostname") or "")


def address_of(facts: t.Mapping[str, t.Any]) -> str:
    return str((facts.get("default_ipv4") or {}).get("address") or "")


def name_errors(names: t.Mapping[str, str]) -> list[Finding]:
    """Compute hosts that Nova can't distinguish."""
    found = []
    for host, name in names.items():
        first = next(other for other, called in names.items() if called == name)
        if first != host:
            found.append(wrong(f"{first} and {host} both have the host name {name}", "give each a name of its own", host))
    return found
