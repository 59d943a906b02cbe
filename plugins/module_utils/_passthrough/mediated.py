# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Mediated devices: what a host offers and has of them.

Also what must be made and removed. This module only reads.
"""

from __future__ import annotations

import json
import os
import re
import typing as t
import uuid

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import link_name, list_directory, read_integer, read_text, under
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough.iommu import Opened, read_text_whole

#: Where mdevctl keeps what it makes at boot: a directory for each parent, in it a file for each device.
DEFINITIONS = "/etc/mdevctl.d"

PARENTS = "/sys/class/mdev_bus"
DEVICES = "/sys/bus/mdev/devices"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

State = t.Dict[str, t.Any]
Device = t.Dict[str, t.Any]


def read(root: str = "/") -> State:
    """What the host has.

    :returns: machine, its id; parents: types by id, each with its name and how many more can be made; active: devices by UUID;
        defined: what mdevctl knows, by parent and UUID.
    """
    parents = {name: types(under(root, f"{PARENTS}/{name}/mdev_supported_types")) for name in list_directory(under(root, PARENTS))}
    uuids = [name for name in list_directory(under(root, DEVICES)) if _UUID.match(name)]
    return {
        "machine": read_text(under(root, "/etc/machine-id")) or "",
        "parents": parents,
        "active": {name: active(under(root, f"{DEVICES}/{name}")) for name in uuids},
        "defined": defined(root),
    }


def types(directory: str) -> dict[str, dict[str, t.Any]]:
    return {
        name: {
            "name": read_text(os.path.join(directory, name, "name")) or "",
            "free": read_integer(os.path.join(directory, name, "available_instances")) or 0,
        }
        for name in list_directory(directory)
    }


def active(device: str) -> Device:
    group = link_name(os.path.join(device, "iommu_group"))
    numbered = [name for name in list_directory(os.path.join(device, "vfio-dev")) if name.startswith("vfio")]
    return {
        "parent": os.path.basename(os.path.dirname(os.path.realpath(device))),
        "type": link_name(os.path.join(device, "mdev_type")),
        "device_file": f"/dev/vfio/{group}" if group else None,
        # Of newer kernels; a device is open by one or the other.
        "device_files": [*([f"/dev/vfio/{group}"] if group else []), *(f"/dev/vfio/devices/{name}" for name in numbered)],
    }


def defined(root: str) -> dict[tuple[str, str], Device]:
    """By parent and UUID, as mdevctl does it: several parents may have the same UUID."""
    found = {}
    for parent in list_directory(under(root, DEFINITIONS)):
        for name in list_directory(under(root, f"{DEFINITIONS}/{parent}")):
            if _UUID.match(name):
                found[parent, name] = _definition(read_text_whole(under(root, f"{DEFINITIONS}/{parent}/{name}")))
    return found


def _definition(text: str) -> Device:
    try:
        content = json.loads(text)
        return {"type": content["mdev_type"], "is_automatic": content.get("start") == "auto"}
    except (ValueError, KeyError, TypeError):
        return {"type": None, "is_automatic": False}


def definition(device: Device) -> str:
    """The text of mdevctl's file."""
    return json.dumps({"mdev_type": device["type"], "start": "auto", "attrs": []}, indent=2) + "\n"


def plan(
    wanted: t.Sequence[Device],
    state: State,
    ours: t.Mapping[str, Device],
    assigned: t.Sequence[str] = (),
    drivers: t.Mapping[str, str | None] | None = None,
    opened: t.Sequence[Opened] = (),
) -> dict[str, t.Any]:
    """What must be done, or why not.

    :param wanted: parent, type (id or name) and count each.
    :param ours: parent and type by UUID of the devices that the module has made.
    :param assigned: PCI addresses that virtual machines get as a whole.
    :param drivers: the driver by PCI address, for the sentences; the addresses are all that the host has.
    :returns: errors (one sentence each); devices with uuid, parent and type, in the order wanted; leaving: UUIDs to be removed;
        define, start: UUIDs that lack it; stop: UUIDs that must be removed from the kernel.
    """
    errors: list[str] = []
    counts: dict[tuple[str, str], int] = {}
    for item in wanted:
        parent = _parent(item["parent"], state)
        found = _parent_errors(parent, item["parent"], state, assigned, drivers or {})
        kind = None if found else _type(item["type"], state["parents"][parent])
        if not found and kind is None:
            found = [f"{parent} of this host has no mediated devices of type {item['type']}; it has {_offer(state['parents'][parent])}."]
        if item["count"] < 1:
            found.append(f"The count of {item['type']} of {item['parent']} is {item['count']}; it must be 1 or more.")
        if kind is not None and (parent, kind) in counts:
            found.append(f"Mediated devices of {parent} of type {kind} are asked for twice; give one count.")
        errors += found
        if kind is not None:
            counts[parent, kind] = item["count"]
    users = {name: user for name, user in ((name, _user(entry, opened)) for name, entry in state["active"].items()) if user}
    devices = [
        device for (parent, kind), count in counts.items() for device in _devices(parent, kind, count, state["machine"], ours, users)
    ]
    wanted_uuids = [device["uuid"] for device in devices]
    leaving = [name for name in ours if name not in wanted_uuids]
    stop = [name for name in leaving if name in state["active"]]
    for (parent, kind), count in counts.items():
        errors += _shortage(parent, kind, count, devices, state, stop)
    errors += [
        f"Mediated device {name} of {state['active'][name]['parent']} can't be removed: {users[name]}; "
        "end the virtual machine that has it first."
        for name in stop
        if name in users
    ]
    return {
        "errors": errors,
        "devices": devices,
        "leaving": leaving,
        "stop": stop,
        "start": [name for name in wanted_uuids if name not in state["active"]],
        "define": [
            device["uuid"]
            for device in devices
            if state["defined"].get((device["parent"], device["uuid"])) != {"type": device["type"], "is_automatic": True}
        ],
    }


def _parent(name: str, state: State) -> str:
    """lspci leaves the domain out where there is only one."""
    return next((full for full in (name, name.lower(), f"0000:{name.lower()}") if full in state["parents"]), name)


def _parent_errors(parent: str, given: str, state: State, assigned: t.Sequence[str], drivers: t.Mapping[str, str | None]) -> list[str]:
    if parent in assigned:
        return [f"{parent} of this host is given to virtual machines as a whole, so it can't have mediated devices; choose one of both."]
    if parent in state["parents"]:
        return []
    address = next((full for full in (given.lower(), f"0000:{given.lower()}") if full in drivers), None)
    has = f"the host has {', '.join(state['parents']) if state['parents'] else 'no device that has some'}"
    if address:
        reason = f"its driver is {drivers[address]}, which offers none" if drivers[address] else "no driver is bound to it"
        return [f"{address} of this host has no mediated devices: {reason}, a vendor's vGPU host driver is needed; {has}."]
    quotes = " (an address must stand in quotes)" if re.match(r"[0-9.]+\Z", given) else ""
    return [f"This host has no device {given} for mediated devices{quotes}; {has}."]


def _type(given: str, offered: t.Mapping[str, Device]) -> str | None:
    if given in offered:
        return given
    return next((kind for kind, entry in offered.items() if entry["name"] == given), None)


def _offer(offered: t.Mapping[str, Device]) -> str:
    return ", ".join(f"{kind} ({entry['name']}, {entry['free']} free)" for kind, entry in offered.items()) or "none at all"


def _user(device: Device, opened: t.Sequence[Opened]) -> str | None:
    return next((f"{entry.process} has {entry.path} open" for entry in opened if entry.path in device["device_files"]), None)


def _devices(parent: str, kind: str, count: int, machine: str, ours: t.Mapping[str, Device], users: t.Mapping[str, str]) -> list[Device]:
    """What was made earlier is kept, first what is in use.

    What is new gets a UUID that only this host makes, and makes again.
    """
    kept = sorted((name for name, device in ours.items() if device == {"parent": parent, "type": kind}), key=lambda name: name not in users)
    names = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{machine}/{parent}/{kind}/{number}")) for number in range(count))
    new = [name for name in names if name not in kept]
    return [{"uuid": name, "parent": parent, "type": kind} for name in sorted([*kept, *new][:count])]


def _shortage(parent: str, kind: str, count: int, devices: t.Sequence[Device], state: State, stop: t.Sequence[str]) -> list[str]:
    if any(state["active"][name]["parent"] == parent for name in stop):
        return []  # only the driver knows how many are free without those
    there = [device for device in devices if (device["parent"], device["type"]) == (parent, kind) and device["uuid"] in state["active"]]
    free = state["parents"][parent][kind]["free"]
    if count - len(there) <= free:
        return []
    return [
        f"{parent} of this host can't have {count} mediated devices of type {kind}: "
        f"{free} are free and {len(there)} of them are there; it has {_offer(state['parents'][parent])}."
    ]
