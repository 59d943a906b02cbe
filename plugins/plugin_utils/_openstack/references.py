# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a cloud's objects say of each other, and their addresses: pure functions.

OpenStack would refuse it after the control plane was made.
"""

from __future__ import annotations

import difflib
import ipaddress
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.objects import OUR_USERS, OURS
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.settings import PREFIX, wrong

Cloud = t.Mapping[str, t.Any]
# Those that Keystone and the collection make.
ROLES = ("admin", "manager", "member", "reader", "service")
# Keys whose value is a list of names.
LISTS = {"flavors": "projects", "routers": "networks"}


def errors(cloud: Cloud) -> list[Finding]:
    """Return lists that are none, physical networks that are nowhere, and addresses that can't be.

    :param cloud: the data of settings.DEFAULTS, of the right shapes.
    """
    found = [
        wrong(f"{PREFIX}{kind}: {entry['name']} has {shown(entry[key])} as {key}", f"write a list, such as [{entry[key]}]")
        for kind, key in LISTS.items()
        for entry in cloud[kind]
        if entry.get(key) and not isinstance(entry[key], (list, tuple))
    ]
    for network in cloud["networks"]:
        if network.get("physical_network"):
            begin = f"{PREFIX}networks: {network['name']} is in the physical network"
            found += _unknown(begin, [network["physical_network"]], list(cloud["physical_networks"]), f"{PREFIX}physical_networks")
        found += _address_errors(network)
    return found


def unknown(cloud: Cloud) -> list[Finding]:
    """Return names that the inventory lacks.

    Where there is a cloud already, it may have them from a former inventory or by hand. So these are mistakes for a new cloud alone.

    :param cloud: as errors() takes it.
    """
    names = {kind: [str(entry["name"]) for entry in cloud[kind]] for kind in ("projects", "users", "networks")}
    projects = [*names["projects"], *OURS]
    found: list[Finding] = []
    for project in cloud["projects"]:
        where = f"{PREFIX}projects: {project['name']}"
        found += _unknown(f"{where} has the user", project.get("users") or {}, [*names["users"], *OUR_USERS], f"{PREFIX}users")
        for roles in (project.get("users") or {}).values():
            found += _unknown(f"{where} gives the role", roles, ROLES, "")
    for flavor in cloud["flavors"]:
        found += _unknown(
            f"{PREFIX}flavors: {flavor['name']} is for the project", flavor.get("projects") or [], projects, f"{PREFIX}projects"
        )
    for kind in ("networks", "routers"):
        for entry in cloud[kind]:
            if entry.get("project"):
                found += _unknown(f"{PREFIX}{kind}: {entry['name']} is for the project", [entry["project"]], projects, f"{PREFIX}projects")
    outside = [str(entry["name"]) for entry in cloud["networks"] if entry.get("external")]
    for router in cloud["routers"]:
        where = f"{PREFIX}routers: {router['name']}"
        found += _unknown(f"{where} joins the network", router.get("networks") or [], names["networks"], f"{PREFIX}networks")
        if router.get("external"):
            found += _unknown(f"{where} leads to the external network", [router["external"]], outside, f"{PREFIX}networks, as external")
    return found


def _unknown(begin: str, named: t.Iterable[t.Any], known: t.Sequence[str], where: str) -> list[Finding]:
    """Name what is not among the known ones, and what it may be meant for.

    :param where: the variable in which it may be added; empty where it can't.
    """
    found = []
    for name in (str(one) for one in named):
        if name not in known:
            lower = {one.lower(): one for one in known}
            near = difflib.get_close_matches(name.lower(), lower, n=1)
            remedy = f"did you mean {lower[near[0]]}? Correct it" if near else "correct it"
            remedy += f", or add it to {where}" if where else f"; there are {', '.join(known)}"
            found.append(wrong(f"{begin} {shown(name)}, which is not there", remedy))
    return found


def _address_errors(network: t.Mapping[str, t.Any]) -> list[Finding]:
    """Return what is wrong with the addresses of a network, whose subnet has version 4 of IP."""
    where = f"{PREFIX}networks: {network['name']} has"
    try:
        cidr = ipaddress.IPv4Network(str(network["cidr"]), strict=False)
    except ValueError:
        return [wrong(f"{where} {shown(network['cidr'])} as cidr", "write a network of IPv4, such as 10.10.1.0/24")]
    if str(cidr) != str(network["cidr"]):
        return [wrong(f"{where} {shown(network['cidr'])} as cidr, which is not a network in its usual form", f"write {cidr}")]
    pool = network.get("pool") or []
    if pool and (not isinstance(pool, (list, tuple)) or len(pool) != 2):
        return [wrong(f"{where} {shown(pool)} as pool", "write the first and the last address, such as [10.10.1.10, 10.10.1.50]")]
    dns = network.get("dns") or []
    if not isinstance(dns, (list, tuple)):
        return [wrong(f"{where} {shown(dns)} as dns", f"write a list, such as [{dns}]")]
    found = []
    addresses: list[ipaddress.IPv4Address] = []
    # A gateway may be outside of the network's own addresses.
    for key, value in (*(("pool", one) for one in pool), *(("dns", one) for one in dns), ("gateway", network.get("gateway"))):
        try:
            address = ipaddress.IPv4Address(str(value)) if value else None
        except ValueError:
            found.append(wrong(f"{where} {shown(value)} as {key}", "write an address of IPv4"))
            continue
        if key == "pool" and address:
            addresses.append(address)
            if address not in cidr:
                found.append(wrong(f"{where} {address} in its pool, which is not in {cidr}", "write an address of the network"))
    if not found and addresses and addresses[0] > addresses[-1]:
        found.append(wrong(f"{where} a pool that ends before it begins", "write the lower address first"))
    return found
