# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which manager owns which device of a host that serves two: the variable accelerator_allotment, pure functions.

A host of one manager needs none. Where it is set, each manager gets only what is listed for it, before it hears of any device:
a device that stands in no list is given to no manager.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import full_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding

VARIABLE = "accelerator_allotment"
KEYS = ("devices",)
EXAMPLE = '{slurm: {devices: ["0000:17:00.0"]}, opennebula: {devices: ["0000:65:00.0"]}}'
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
    found = []
    members = {manager.name: set(groups.get(manager.host_group) or ()) for manager in managers}
    hosts = dict.fromkeys(host for manager in managers for host in groups.get(manager.host_group) or ())
    for host in hosts:
        mine = [manager for manager in managers if host in members[manager.name]]
        allotment = allotments.get(host)
        if not allotment:
            if len(mine) > 1:
                names = " and ".join(manager.host_group for manager in mine)
                remedy = f"set {VARIABLE} for it, such as {EXAMPLE}"
                found.append(_finding(host, f"{host} is in {names}, but nothing says which of them owns which device: {remedy}.", remedy))
            continue
        sentences = _shape_errors(host, allotment, mine) or _device_errors(host, allotment, mine)
        found += [_finding(host, sentence) for sentence in sentences]
    return found


def _finding(host: str, sentence: str, remedy: str = "") -> Finding:
    return Finding("inventory", sentence, host, None, remedy or sentence.rpartition(": ")[2].rstrip("."))


def _shape_errors(host: str, allotment: t.Any, managers: t.Sequence[Manager]) -> list[str]:
    names = [manager.name for manager in managers]
    if not isinstance(allotment, t.Mapping):
        return [f"{VARIABLE} of {host} is {allotment!r}: write a dictionary of managers, such as {EXAMPLE}."]
    found = []
    for name, entry in allotment.items():
        if name not in names:
            found.append(f"{VARIABLE} of {host} names {name}, but the host's managers are {', '.join(names)}: correct it, or its groups.")
        elif not isinstance(entry, t.Mapping) or set(entry) != set(KEYS) or not isinstance(entry["devices"], (list, tuple)):
            found.append(f"{VARIABLE} of {host} has {entry!r} for {name}: write {{devices: [...]}} with PCI addresses or MIG UUIDs.")
    found += [
        f"{VARIABLE} of {host} has nothing for {name}: list its devices, or write {name}: {{devices: []}} to give it none."
        for name in names
        if name not in allotment
    ]
    return found


def _device_errors(host: str, allotment: t.Mapping[str, t.Any], managers: t.Sequence[Manager]) -> list[str]:
    found = []
    owners: dict[str, str] = {}
    for manager in managers:
        for given in allotment[manager.name]["devices"]:
            if not isinstance(given, str):  # YAML takes 41:00.0 for a number of base 60
                found.append(f"{VARIABLE} of {host} has the device {given!r} for {manager.name}: write it as text, in quotes.")
                continue
            device = canonical(given)
            if INSTANCE.fullmatch(device):
                if manager.takes != "driver":
                    found.append(f"{VARIABLE} of {host} gives {device} to {manager.name}, which takes whole devices: list its PCI address.")
            elif not ADDRESS.fullmatch(device):
                found.append(
                    f"{VARIABLE} of {host} has the device {given} for {manager.name}: write a PCI address such as 0000:17:00.0, or the "
                    "UUID of a MIG instance as nvidia-smi -L prints it."
                )
            if device in owners:
                both = " and ".join(dict.fromkeys((owners[device], manager.name)))
                found.append(f"{VARIABLE} of {host} lists {device} twice, for {both}: a device has one owner, so keep one.")
            owners[device] = manager.name
    return found


def canonical(device: str) -> str:
    """A PCI address with its domain, in small letters; a MIG instance's UUID as it is."""
    return device if device.startswith("MIG-") else full_address(device.strip().lower())


def given_to(allotment: t.Any, name: str) -> list[str] | None:
    """The devices listed for a manager; None where nothing is allotted, so that all are its own."""
    return None if not allotment else [canonical(device) for device in allotment[name]["devices"]]


def owned(accelerators: t.Sequence[Accelerator], allotment: t.Any, name: str) -> list[t.Any]:
    """The accelerators of a host that a manager may hear of.

    A device of which only some MIG instances are its own comes with these alone.
    """
    mine = given_to(allotment, name)
    if mine is None:
        return list(accelerators)
    found: list[t.Any] = []
    for accelerator in accelerators:
        if canonical(str(accelerator.get("pci_address"))) in mine:
            found.append(accelerator)
            continue
        mig = accelerator.get("mig") or {}
        instances = [instance for instance in mig.get("devices") or [] if instance.get("uuid") in mine]
        if instances:
            found.append({**accelerator, "mig": {**mig, "devices": instances}})
    return found


def missing_errors(host: str, accelerators: t.Sequence[Accelerator], allotment: t.Any, name: str) -> list[str]:
    """Devices that are listed for a manager and that the host does not have, one sentence each."""
    there = {canonical(str(accelerator.get("pci_address"))) for accelerator in accelerators}
    for accelerator in accelerators:
        there.update(str(instance.get("uuid")) for instance in (accelerator.get("mig") or {}).get("devices") or [])
    return [
        f"{VARIABLE} of {host} gives {device} to {name}, but the host has no such device: correct it; "
        f"it has {', '.join(sorted(there)) or 'none'}."
        for device in given_to(allotment, name) or []
        if device not in there
    ]
