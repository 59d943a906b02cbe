# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What an orchestrator knows of a deployment, as our inventory: pure functions.

The Infrastructure Manager calls hosts ADDRESS_NUMBER and groups them by the names of the template; xOpera knows one host at a
time. Both give the addresses of workers to the front end's operation, so addresses are what an inventory is made of.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

FRONT, WORKERS = "front", "workers"
# How Ansible reaches a host; nothing else of the orchestrator's variables comes over.
CONNECTION = (
    *("ansible_connection", "ansible_host", "ansible_port", "ansible_user", "ansible_password", "ansible_ssh_private_key_file"),
    *("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_python_interpreter"),
)
ADDRESS = re.compile(r"[0-9a-fA-F:.]{3,45}|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def flat(given: t.Any) -> list[str]:
    """Return addresses from whatever an orchestrator makes of a list of attributes.

    That may be lists in lists, None, or one text.
    """
    if isinstance(given, (list, tuple)):
        return [one for item in given for one in flat(item)]
    text = str(given).strip() if given is not None else ""
    return [text] if text else []


def _addresses(own: t.Mapping[str, t.Any]) -> set[str]:
    return {str(own[name]) for name in ("IM_NODE_PRIVATE_IP", "IM_NODE_PUBLIC_IP", "ansible_host") if own.get(name)}


def _host_name(own: t.Mapping[str, t.Any], address: str) -> str:
    name = str(own.get("IM_NODE_HOSTNAME") or "").lower()
    return name if NAME.fullmatch(name) else "wn-" + re.sub("[^a-z0-9]+", "-", address.lower())


def _is_here(address: str) -> bool:
    """Return whether an address is of the machine itself or of its link.

    In any of the forms that C(inet_aton) takes.
    """
    if re.fullmatch(r"(.*\.)?localhost(\.localdomain)?\.?|ip6-(localhost|loopback)", address, re.IGNORECASE):
        return True
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        try:
            found = ipaddress.ip_address(socket.inet_aton(address))
        except OSError:
            return False
    found = getattr(found, "ipv4_mapped", None) or found
    return found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast


def _address(variable: str, address: t.Any) -> dict[str, str]:
    """Return the variable with the address; empty for a name, or where not wanted."""
    try:
        return {variable: str(ipaddress.ip_address(str(address)))} if variable else {}
    except ValueError:
        return {}


def _connection(own: t.Mapping[str, t.Any], defaults: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    found = {**defaults, **{name: own[name] for name in CONNECTION if own.get(name) not in (None, "")}}
    # Our playbooks need root; orchestrators become it by other means than a variable.
    return found if found.get("ansible_user") == "root" else {**found, "ansible_become": True}


def inventory(
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    front: str,
    workers: t.Any,
    groups: t.Mapping[str, t.Any],
    connection: t.Mapping[str, t.Any] | None = None,
    address_variable: str = "",
) -> dict[str, t.Any]:
    """An inventory for our playbooks.

    :param hostvars: Ansible's, in the orchestrator's run.
    :param front: the host of that run that is the front end; the playbook runs on it or beside it.
    :param workers: addresses of the workers, as the template's attributes give them; or of further pools of hosts, by the pool's name.
    :param groups: our groups, each with the name of a pool, or a list of them: "front", "workers" and those of *workers*.
    :param connection: variables for a host that the orchestrator's run does not know, and defaults for all.
    :param address_variable: name of a variable of each host with its address for the others; a host that is known by a name alone has none.
    :raises ValueError: an address is not one, or two workers have one address or name.
    """
    pools = {str(name): flat(given) for name, given in (workers if isinstance(workers, t.Mapping) else {WORKERS: workers}).items()}
    strange = [one for addresses in pools.values() for one in addresses if not ADDRESS.fullmatch(one)]
    if strange:
        raise ValueError(f"The address {shown(strange[0])} of a worker is no address. See the attribute that wn_ips of the template reads.")
    known = {address: own for own in hostvars.values() for address in _addresses(own)}
    here = [one for one in flat(list(pools.values())) if one not in known and _is_here(one)]
    if here:
        raise ValueError(
            f"The address {here[0]} of a worker is the machine on which the orchestrator runs Ansible. Write one of another host."
        )
    wanted = {group: flat(who) for group, who in groups.items()}
    possible = [FRONT, *pools]
    unknown = sorted({who for names in wanted.values() for who in names} - set(possible))
    if unknown:
        raise ValueError(f"tosca_site_groups gives a group to {shown(unknown[0])}. Write {', '.join(possible[:-1])} or {possible[-1]}.")
    defaults = dict(connection or {})
    own = hostvars[front]
    name = str(own.get("IM_NODE_HOSTNAME") or "").lower()
    its_address = _address(address_variable, own.get("IM_NODE_PRIVATE_IP") or own.get("ansible_host"))
    fronts = {name if NAME.fullmatch(name) else FRONT: {**_connection(own, {}), **its_address}}
    members: dict[str, dict[str, dict[str, t.Any]]] = {FRONT: fronts}
    taken = set(fronts)
    for pool, addresses in pools.items():
        members[pool] = {}
        for address in addresses:
            its = known.get(address, {})
            called = _host_name(its, address)
            if called in taken:
                raise ValueError(
                    f"Two hosts are called {called}. Give each worker a name of its own, with #N# in dns_name of the template."
                )
            taken.add(called)
            members[pool][called] = {**_connection(its, {**defaults, "ansible_host": address}), **_address(address_variable, address)}
    return {
        "all": {
            "hosts": {host: its for pool in members.values() for host, its in pool.items()},
            "children": {group: {"hosts": {host: {} for who in names for host in members[who]}} for group, names in sorted(wanted.items())},
        }
    }
