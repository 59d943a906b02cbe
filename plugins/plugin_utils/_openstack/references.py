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
ROLES = ("admin", "member", "reader", "service")
# Keys whose value is a list.
LISTS = (("flavors", "projects"), ("routers", "networks"), ("networks", "dns"), ("networks", "pool"))


def errors(cloud: Cloud) -> list[Finding]:
    """Return lists that are none, and networks that can't be read.

    :param cloud: the data of settings.DEFAULTS, of the right shapes.
    """
    found = [
        wrong(f"{PREFIX}{kind}: {entry['name']} has {shown(entry[key])} as {key}", f"write a list, such as [{entry[key]}]")
        for kind, key in LISTS
        for entry in cloud[kind]
        if entry.get(key) and not isinstance(entry[key], (list, tuple))
    ]
    for network in cloud["networks"]:
        where = f"{PREFIX}networks: {network['name']} has {shown(network['cidr'])} as cidr"
        try:
            cidr = ipaddress.ip_network(str(network["cidr"]), strict=False)
        except ValueError:
            found.append(wrong(where, "write a network such as 10.10.1.0/24"))
            continue
        if str(cidr) != str(network["cidr"]):
            found.append(wrong(f"{where}, which is not a network in its usual form", f"write {cidr}"))
    return found


def new_errors(cloud: Cloud) -> list[Finding]:
    """Return what a new cloud can't be made of.

    These are names that the inventory lacks, and addresses that Neutron would refuse.

    Where there is a cloud already, it may have these names from a former inventory or by hand, and nothing reads the addresses of its
    networks again.

    :param cloud: as errors() takes it, without errors.
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
        begin = f"{PREFIX}flavors: {flavor['name']} is for the project"
        found += _unknown(begin, flavor.get("projects") or [], projects, f"{PREFIX}projects")
    for kind in ("networks", "routers"):
        for entry in (one for one in cloud[kind] if one.get("project")):
            begin = f"{PREFIX}{kind}: {entry['name']} is for the project"
            found += _unknown(begin, [entry["project"]], projects, f"{PREFIX}projects")
    for network in cloud["networks"]:
        if network.get("physical_network"):
            begin = f"{PREFIX}networks: {network['name']} is in the physical network"
            found += _unknown(begin, [network["physical_network"]], list(cloud["physical_networks"]), f"{PREFIX}physical_networks")
        found += _address_errors(network)
    outside = [str(entry["name"]) for entry in cloud["networks"] if entry.get("external")]
    for router in cloud["routers"]:
        where = f"{PREFIX}routers: {router['name']}"
        found += _unknown(f"{where} joins the network", router.get("networks") or [], names["networks"], f"{PREFIX}networks")
        if router.get("external"):
            found += _unknown(f"{where} leads to the external network", [router["external"]], outside, f"{PREFIX}networks, as external")
    return found


def _unknown(begin: str, named: t.Iterable[t.Any], known: t.Iterable[t.Any], where: str) -> list[Finding]:
    """Name what is not among the known ones, and what it may be meant for.

    :param where: the variable in which it may be added; empty where it can't.
    """
    there = [str(one) for one in known]
    lower = {one.lower(): one for one in there}
    found = []
    for name in (str(one) for one in named):
        if name not in there:
            near = difflib.get_close_matches(name.lower(), lower, n=1)
            remedy = f"did you mean {lower[near[0]]}? Correct it" if near else "correct it"
            remedy += f", or add it to {where}" if where else f"; there are {', '.join(there)}"
            found.append(wrong(f"{begin} {shown(name)}, which is not there", remedy))
    return found


def _address_errors(network: t.Mapping[str, t.Any]) -> list[Finding]:
    """Return what is wrong with the addresses of a network of IPv4."""
    where = f"{PREFIX}networks: {network['name']} has"
    if ":" in str(network["cidr"]):
        return [wrong(f"{where} {shown(network['cidr'])} as cidr", "write a network of IPv4, such as 10.10.1.0/24")]
    cidr = ipaddress.IPv4Network(str(network["cidr"]))
    given = {
        "pool": network.get("pool") or [],
        "dns": network.get("dns") or [],
        "gateway": [network["gateway"]] if network.get("gateway") else [],
    }
    found = []
    read: dict[str, list[ipaddress.IPv4Address]] = {key: [] for key in given}
    for key, values in given.items():
        for value in values:
            try:
                read[key].append(ipaddress.IPv4Address(str(value)))
            except ValueError:
                found.append(wrong(f"{where} {shown(value)} as {key}", "write an address of IPv4"))
    if found or not read["pool"]:
        return found
    if len(read["pool"]) != 2:
        return [
            wrong(f"{where} {len(read['pool'])} addresses as pool", "write the first and the last one, such as [10.10.1.10, 10.10.1.50]")
        ]
    first, last = read["pool"]
    if first > last:
        return [wrong(f"{where} a pool that ends before it begins", "write the lower address first")]
    if first <= cidr[0] or last >= cidr[-1]:
        return [wrong(f"{where} a pool that is not within {cidr}", f"take addresses between {cidr[0]} and {cidr[-1]}")]
    # Neutron's gateway is the first address if none is given.
    gateway = read["gateway"][0] if read["gateway"] else cidr[1]
    if first <= gateway <= last:
        return [wrong(f"{where} its gateway {gateway} in its pool", "leave the gateway out of the pool")]
    return []
