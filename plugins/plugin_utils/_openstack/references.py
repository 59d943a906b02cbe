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

# Those that Keystone and the collection make.
ROLES = ("admin", "manager", "member", "reader", "service")


def errors(cloud: t.Mapping[str, t.Any]) -> list[Finding]:
    """Return what is named and is nowhere, and addresses that can't be.

    :param cloud: the data of settings.DEFAULTS, of the right shapes.
    """
    names = {kind: [str(entry["name"]) for entry in cloud[kind]] for kind in ("projects", "users", "networks")}
    projects = [*names["projects"], *OURS]
    found: list[Finding] = []
    for project in cloud["projects"]:
        where = f"{PREFIX}projects: {project['name']}"
        found += _unknown(f"{where} has the user", project.get("users") or {}, [*names["users"], *OUR_USERS], f"{PREFIX}users")
        for roles in (project.get("users") or {}).values():
            found += _unknown(f"{where} gives the role", roles, ROLES, "")
    for kind in ("flavors", "networks", "routers"):
        for entry in cloud[kind]:
            named = entry.get("projects") or [] if kind == "flavors" else [entry["project"]] if entry.get("project") else []
            found += _unknown(f"{PREFIX}{kind}: {entry['name']} is for the project", named, projects, f"{PREFIX}projects")
    for network in cloud["networks"]:
        found += _network_errors(network, cloud["physical_networks"])
    outside = [str(entry["name"]) for entry in cloud["networks"] if entry.get("external")]
    for router in cloud["routers"]:
        where = f"{PREFIX}routers: {router['name']}"
        found += _unknown(f"{where} joins the network", router.get("networks") or [], names["networks"], f"{PREFIX}networks")
        if router.get("external"):
            found += _unknown(f"{where} leads to the external network", [router["external"]], outside, f"{PREFIX}networks, as external")
    return found


def _unknown(begin: str, named: t.Iterable[t.Any], known: t.Sequence[str], where: str) -> list[Finding]:
    """Names that are not among the known ones; Keystone's have no case."""
    lower = {one.lower(): one for one in known}
    found = []
    for name in named:
        if str(name).lower() not in lower:
            near = difflib.get_close_matches(str(name).lower(), lower, n=1)
            remedy = f"did you mean {lower[near[0]]}? Correct it" if near else "correct it"
            remedy += f", or add it to {where}" if where else f"; there are {', '.join(known)}"
            found.append(wrong(f"{begin} {shown(name)}, which is not there", remedy))
    return found


def _network_errors(network: t.Mapping[str, t.Any], physical: t.Mapping[str, t.Any]) -> list[Finding]:
    where = f"{PREFIX}networks: {network['name']}"
    found = []
    if network.get("physical_network"):
        cable = [network["physical_network"]]
        found += _unknown(f"{where} is in the physical network", cable, list(physical), f"{PREFIX}physical_networks")
    try:
        cidr = ipaddress.ip_network(str(network["cidr"]), strict=False)
    except ValueError:
        return [*found, wrong(f"{where} has {shown(network['cidr'])} as cidr", "write a network such as 10.10.1.0/24")]
    if str(cidr) != str(network["cidr"]):
        return [*found, wrong(f"{where} has {shown(network['cidr'])} as cidr, which is an address in a network", f"write {cidr}")]
    pool = network.get("pool") or []
    if pool and (not isinstance(pool, (list, tuple)) or len(pool) != 2):
        remedy = "write the first and the last address, such as [10.10.1.10, 10.10.1.50]"
        return [*found, wrong(f"{where} has {shown(pool)} as pool", remedy)]
    dns = network.get("dns") or []
    for key, values in (("gateway", [network["gateway"]] if network.get("gateway") else []), ("pool", list(pool)), ("dns", dns)):
        for value in [values] if isinstance(values, str) else values:
            try:
                address = ipaddress.ip_address(str(value))
            except ValueError:
                found.append(wrong(f"{where} has {shown(value)} as {key}", "write an IP address"))
                continue
            if key != "dns" and address not in cidr:
                found.append(wrong(f"{where} has {address} as {key}, which is not in {cidr}", "write an address of the network"))
    if not found and pool and int(ipaddress.ip_address(str(pool[0]))) > int(ipaddress.ip_address(str(pool[1]))):
        found.append(wrong(f"{where} has a pool that ends before it begins", "write the lower address first"))
    return found
