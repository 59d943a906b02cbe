# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The variable accelerator_allotment: which manager owns which device of a host.

It is for a host that serves two managers; a host of one manager needs none. Where it is set, each manager gets only what is
listed for it, before it hears of any device. A device that stands in no list is given to no manager. Pure functions.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import full_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

VARIABLE = "accelerator_allotment"
KEYS = ("devices",)
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
INSTANCE = re.compile(r"MIG-[0-9A-Za-z/-]+")

Accelerator = t.Mapping[str, t.Any]


class Manager(t.Protocol):
    """What is needed here of an entry of _managers.MANAGERS."""

    @property
    def name(self) -> str:
        """What the allotment calls it."""

    @property
    def host_group(self) -> str:
        """The group of its hosts."""

    @property
    def takes(self) -> str:
        """Which driver must have its devices: "driver" or "vfio"."""


def errors(allotments: t.Mapping[str, t.Any], managers: t.Sequence[Manager], groups: t.Mapping[str, t.Sequence[str]]) -> list[Finding]:
    """What is wrong with the allotments, from the inventory alone.

    :param allotments: the variable by host; hosts without it are left out, or have nothing.
    """
    members = {manager.name: set(groups.get(manager.host_group) or ()) for manager in managers}
    hosts = dict.fromkeys([*(host for manager in managers for host in groups.get(manager.host_group) or ()), *allotments])
    return [
        found
        for host in hosts
        for found in host_errors(host, allotments.get(host), managers, [one.name for one in managers if host in members[one.name]])
    ]


def host_errors(host: str, allotment: t.Any, managers: t.Sequence[Manager], owners: t.Collection[str] = ()) -> list[Finding]:
    """What is wrong with the allotment of one host.

    :param owners: the names of the host's managers. One that has none, such as a front end that gets the variable as all hosts do, may
        name any, and need not name all.
    """
    mine = [manager for manager in managers if manager.name in owners]
    if _is_nothing(allotment):
        if len(mine) < 2:
            return []
        both = " and ".join(manager.host_group for manager in mine)
        remedy = f"set {VARIABLE} for it, such as {_example(mine)}"
        return [
            Finding("inventory", f"{host} is in {both}, but nothing says which of them owns which device: {remedy}.", host, None, remedy)
        ]
    if not isinstance(allotment, t.Mapping):
        return [_finding(host, f"is {shown(allotment)}", f"write a dictionary of managers, such as {_example(mine or managers)}")]
    return _shape_errors(host, allotment, mine or managers, bool(mine)) or _device_errors(host, allotment, mine or managers)


def _is_nothing(allotment: t.Any) -> bool:
    return allotment is None or (isinstance(allotment, t.Mapping) and not allotment)


def _example(managers: t.Sequence[Manager]) -> str:
    parts = (f'{manager.name}: {{devices: ["0000:{17 + number}:00.0"]}}' for number, manager in enumerate(managers))
    return "{" + ", ".join(parts) + "}"


def _finding(host: str, wrong: str, remedy: str, device: str | None = None) -> Finding:
    return Finding("inventory", f"{VARIABLE} of {host} {wrong}: {remedy}.", host, device, remedy)


def _shape_errors(host: str, allotment: t.Mapping[t.Any, t.Any], managers: t.Sequence[Manager], is_managed: bool) -> list[Finding]:
    names = [manager.name for manager in managers]
    whose = "the host's managers" if is_managed else "the managers"
    found = []
    for name, entry in allotment.items():
        if name not in names:
            found.append(_finding(host, f"names {shown(name)}, but {whose} are {', '.join(names)}", "correct it, or the host's groups"))
        elif not isinstance(entry, t.Mapping) or set(entry) != set(KEYS) or not isinstance(entry["devices"], (list, tuple)):
            found.append(_finding(host, f"has {_short(entry)} for {name}", "write {devices: [...]} with PCI addresses or MIG UUIDs"))
    found += [
        _finding(host, f"has nothing for {name}", f"list its devices, or write {name}: {{devices: []}} to give it none")
        for name in names
        if is_managed and name not in allotment
    ]
    return found


def _short(entry: t.Any) -> str:
    """An entry in a sentence, a dictionary by its keys: one of them may be misspelt."""
    return f"a dictionary with {', '.join(map(shown, entry)) or 'nothing'}" if isinstance(entry, t.Mapping) else shown(entry)


def _device_errors(host: str, allotment: t.Mapping[str, t.Any], managers: t.Sequence[Manager]) -> list[Finding]:
    found = []
    owners: dict[str, str] = {}
    for manager in [manager for manager in managers if manager.name in allotment]:
        for given in allotment[manager.name]["devices"]:
            if not isinstance(given, str):  # YAML takes 41:00.0 for a number of base 60
                found.append(_finding(host, f"has the device {shown(given)} for {manager.name}", "write it as text, in quotes"))
                continue
            device = canonical(given)
            if INSTANCE.fullmatch(device):
                if manager.takes != "driver":
                    wrong = f"gives {device} to {manager.name}, which takes whole devices"
                    found.append(_finding(host, wrong, "list the PCI address of a whole device", device))
            elif not ADDRESS.fullmatch(device):
                remedy = "write a PCI address such as 0000:17:00.0, or the UUID of a MIG instance as nvidia-smi -L prints it"
                found.append(_finding(host, f"has the device {shown(given)} for {manager.name}", remedy))
            if device in owners:
                both = " and ".join(dict.fromkeys((owners[device], manager.name)))
                found.append(_finding(host, f"lists {device} twice, for {both}, but a device has one owner", "keep one entry", device))
            owners[device] = manager.name
    return found


def canonical(device: str) -> str:
    """A PCI address with its domain, in small letters; a MIG instance's UUID as it is."""
    return device if device.startswith("MIG-") else full_address(device.strip().lower())


def given_to(allotment: t.Any, name: str) -> list[str] | None:
    """Return the devices listed for a manager; None where nothing is allotted.

    None means that all devices are its own.

    :raises ValueError: the allotment has no list for it. site_check refuses that, but a role may be used without it.
    """
    if _is_nothing(allotment):
        return None
    entry = allotment.get(name) if isinstance(allotment, t.Mapping) else None
    devices = entry.get("devices") if isinstance(entry, t.Mapping) else None
    if not isinstance(devices, (list, tuple)) or not all(isinstance(device, str) for device in devices):
        raise ValueError(f"{VARIABLE} has no list of devices for {name}: write {name}: {{devices: [...]}}, with each device in quotes.")
    return [canonical(device) for device in devices]


def owned(accelerators: t.Sequence[Accelerator], allotment: t.Any, name: str) -> list[t.Any]:
    """The accelerators of a host that a manager may hear of.

    A device of which only some MIG instances are its own comes with these alone.
    """
    mine = given_to(allotment, name)
    if mine is None:
        return list(accelerators)
    found: list[t.Any] = []
    for accelerator in accelerators:
        if _address(accelerator) in mine:
            found.append(accelerator)
            continue
        instances = [instance for instance in _instances(accelerator) if instance.get("uuid") in mine]
        if instances:
            found.append({**accelerator, "mig": {**accelerator["mig"], "devices": instances}})
    return found


def device_errors(host: str, accelerators: t.Sequence[Accelerator], allotment: t.Any, name: str) -> list[Finding]:
    """What is wrong with a host's allotment, now that its devices are known.

    A device that is listed for the manager and is not there, and a GPU in one list with a MIG instance of it in another.
    """
    try:
        mine = given_to(allotment, name) or []
        divided = divided_twice(host, accelerators, allotment)
    except ValueError as error:
        return [Finding("inventory", f"{host}: {error}", host)]
    there = {_address(accelerator) for accelerator in accelerators}
    there.update(str(instance["uuid"]) for accelerator in accelerators for instance in _instances(accelerator) if instance.get("uuid"))
    found = []
    for device in mine:
        if device not in there:
            wrong = f"gives {device} to {name}, but the host has no such device; it has {', '.join(sorted(there)) or 'none'}"
            found.append(_finding(host, wrong, f"correct it, or remove it from {VARIABLE} of {host}", device))
    return found + divided


def divided_twice(host: str, accelerators: t.Sequence[Accelerator], allotment: t.Any) -> list[Finding]:
    """Report each GPU that is listed and has a MIG instance that is listed, too.

    Whoever gets the GPU gets the instance with it.

    :raises ValueError: as given_to does.
    """
    if _is_nothing(allotment):
        return []
    owners = {device: str(name) for name in allotment for device in given_to(allotment, name) or []}
    found = []
    for accelerator in accelerators:
        address = _address(accelerator)
        for uuid in [str(instance.get("uuid")) for instance in _instances(accelerator)]:
            if address in owners and uuid in owners:
                wrong = f"gives {address} to {owners[address]} and {uuid}, a MIG instance of that GPU, to {owners[uuid]}"
                found.append(_finding(host, wrong, "list the GPU or its instances, not both", address))
    return list(dict.fromkeys(found))


def _address(accelerator: Accelerator) -> str:
    return canonical(str(accelerator.get("pci_address")))


def _instances(accelerator: Accelerator) -> list[t.Mapping[str, t.Any]]:
    return (accelerator.get("mig") or {}).get("devices") or []
