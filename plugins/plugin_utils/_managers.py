# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The managers that this collection knows.

Each is registered by a file in its host role: roles/HOST_ROLE/meta/manager.yml.

Every playbook reads this file. A manager that comes changes nothing here, so it concerns no host of another one.
"""

from __future__ import annotations

import pathlib
import typing as t

import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment

ROLES = pathlib.Path(__file__).resolve().parents[2] / "roles"


class Manager(t.NamedTuple):
    """A manager of GPUs, as its host role's meta/manager.yml has it.

    :param name: what accelerator_allotment calls it; its code is in plugin_utils/_NAME/manager.py.
    :param host_group: the group of the inventory with its hosts.
    :param host_role: the role for each of them, with the entry points hold and release.
    :param site_role: the role for what concerns the site as a whole, with the entry points check, plan, deliver and validate.
    :param takes: which devices it can give to its users: "driver", those of the vendor's driver, or "vfio", those of vfio-pci.
    :param holds: its place among the managers that hold a host, the lowest first; they release it in the reverse order.
    :param prefixes: beginnings of its variables that no other collection or role uses.
    """

    name: str
    host_group: str
    host_role: str
    site_role: str
    takes: str
    holds: int
    prefixes: tuple[str, ...]


def registered(roles: pathlib.Path) -> tuple[Manager, ...]:
    """The managers of a folder of roles, in the order in which they hold a host."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = []
    for path in roles.glob("*/meta/manager.yml"):
        own = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        found.append(Manager(**{**own, "host_role": path.parts[-3], "prefixes": tuple(own["prefixes"])}))
    return tuple(sorted(found, key=lambda manager: (manager.holds, manager.name)))


MANAGERS = registered(ROLES)
NAMES = " or ".join(manager.name for manager in MANAGERS)
BY_NAME = {manager.name: manager for manager in MANAGERS}


def owned_by_machines(accelerators: t.Sequence[t.Mapping[str, t.Any]], allotment: t.Any, host: str) -> tuple[list[str] | None, list[str]]:
    """Return devices that a host's allotment gives to managers of virtual machines.

    Also return what is wrong with the allotment, one sentence each. The devices are None if nothing is allotted. A GPU with
    an instance that is also listed belongs to no manager until that is corrected.
    """
    wrong = _allotment.host_errors(host, allotment, MANAGERS)
    if wrong:
        return [], [str(found) for found in wrong]
    if not allotment:
        return None, []
    twice = _allotment.divided_twice(host, accelerators, allotment)
    names = [manager.name for manager in MANAGERS if manager.takes == "vfio" and manager.name in allotment]
    owned = [device for name in names for device in _allotment.given_to(allotment, name) or []]
    return [device for device in owned if device not in {found.device for found in twice}], [str(found) for found in twice]


def managers_of(host: str, groups: t.Mapping[str, t.Sequence[str]]) -> list[dict[str, str]]:
    """List the managers that have a host, by the groups of the inventory."""
    return [
        {"name": manager.name, "host_group": manager.host_group, "host_role": manager.host_role}
        for manager in MANAGERS
        if host in (groups.get(manager.host_group) or [])
    ]
