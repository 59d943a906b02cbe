# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The devices that a manager promised its users, and which are lost.

A manager promises the devices of each host. The functions are pure.

A lost device stays in the manager's configuration, see docs/architecture.md. Each manager keeps its own record.
"""

from __future__ import annotations

import json
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import health
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding

# What is kept in the record of a device, enough to configure it while it is missing.
RECORDED_KEYS = (
    *("kind", "vendor", "vendor_id", "device_id", "pci_address", "uuid", "model", "type"),  # the ids make the type of a model without one
    *("driver", "device_files", "local_cpus", "mig", "sriov"),
)

# Health entries about the tool that reads the devices: reported, but no reason to take a host away from its users.
ADVISORY = frozenset(health.names(health.REPORTED, health.WARNING))
SILENCE = frozenset(health.names(health.REPORTED))

Device = t.Dict[str, t.Any]


class Promises(t.NamedTuple):
    """Where a manager's record is, and what begins it.

    :param path: on the host that runs the manager.
    :param header: a comment before the line of JSON: ansible-core 2.16 takes a text that begins like JSON for data on its way through a
        template.
    :param keys: what the record keeps of a device.
    """

    path: str
    header: str
    keys: t.Tuple[str, ...] = RECORDED_KEYS

    def text(self, devices: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]], **more: t.Any) -> str:
        """Write the record: the devices of each host, and what else the manager remembers."""
        kept = {name: [{key: device.get(key) for key in self.keys} for device in listed] for name, listed in devices.items()}
        return self.header + json.dumps({"nodes": kept, **more}, sort_keys=True, separators=(",", ":")) + "\n"

    def read(self, text: str, where: str) -> dict[str, t.Any]:
        """Read a record; without one, no host has devices.

        :raises ValueError: it is damaged, one sentence that names the host.
        """
        if not text:
            return {"nodes": {}}
        try:
            found = json.loads(text[len(self.header) :] if text.startswith(self.header) else text)
            if all("pci_address" in device for devices in found["nodes"].values() for device in devices):
                return dict(found)
        except (AttributeError, KeyError, TypeError, ValueError):
            pass
        raise ValueError(f"The record of accelerators on {where} is damaged: restore or remove it, then run again.")


def describe(device: t.Mapping[str, t.Any]) -> str:
    files = device.get("device_files") or []
    return f"{device.get('type')} at {device.get('pci_address')}" + (f" ({files[0]})" if files else "")


def with_lost(found: list[Device], recorded: list[Device], host: t.Optional[str] = None) -> tuple[list[Device], list[Finding]]:
    """The devices of a host to configure for jobs, and what is wrong with them.

    A device that was configured and can't be scheduled now stays in the configuration. If it left, a GPU would be lost without a
    message. Drivers number device files again at each boot, so its file may be another device's by now.
    """
    before = {device["pci_address"]: device for device in recorded}
    found = all_as_recorded(found, recorded)
    usable = {device["pci_address"]: device for device in units.schedulable(found)}
    reasons = {device["pci_address"]: problem for device in found for problem in units.problems(device, host)}
    known = {device["pci_address"] for device in recorded}
    wrong = []
    devices = []
    for device in found:
        if device["pci_address"] in usable or device["pci_address"] not in known:
            devices.append(device)
        for problem in device.get("health") or []:
            if device["pci_address"] in usable and problem["problem"] not in ADVISORY:
                wrong.append(Finding("hardware", f"{describe(device)}: {problem['message']}", host, device["pci_address"]))
    for address in [address for address in before if address in usable]:
        gone = lost_units(before[address], usable[address])
        if gone:  # a MIG instance, or what the device was before it was divided
            devices = [device for device in devices if device["pci_address"] != address]
            del usable[address]
            reasons[address] = Finding("division", f"it has no {', '.join(gone)} any more", host, address)
    lost = [device for device in recorded if device["pci_address"] not in usable]
    taken = {path for device in usable.values() for path in files_of(device)}
    expected = {path for device in lost for path in files_of(device)}
    for device in lost:
        renumbered = with_free_files(device, taken, expected)
        taken.update(files_of(renumbered))
        devices.append(renumbered)
        cause = reasons.get(device["pci_address"])
        why = " for jobs: " + cause.sentence.split("scheduled: ", 1)[-1].rstrip(".") if cause else ""
        layer = cause.layer if cause else "hardware"
        wrong.append(Finding(layer, f"{describe(device)} is missing{why}", host, device["pci_address"]))
    return sorted(devices, key=lambda device: str(device["pci_address"])), wrong


def silent(devices: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """Why it is not known whether the devices are well.

    It is the problem of their tool, empty if that answered.
    """
    messages = {str(found["message"]) for device in devices for found in device.get("health") or [] if found["problem"] in SILENCE}
    return " ".join(sorted(messages))


def as_recorded(device: dict[str, t.Any], before: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """Return a device with what was recorded for what nothing reports this time.

    This happens when nvidia-smi hangs, for example.
    """
    if before is None:
        return device
    if (device.get("mig") or {}).get("enabled") is not None:
        return with_names(device, before)
    kept = {key: before.get(key) for key in ("mig", "uuid", "model") if device.get(key) is None or key == "mig"}
    return {**device, **{key: value for key, value in kept.items() if value is not None}}


def with_names(device: dict[str, t.Any], before: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a device whose MIG instances have their recorded names.

    These are used where nvidia-smi -L, which alone has the names, gave no answer.
    """
    instances = device["mig"].get("devices") or []
    if all(instance.get("uuid") for instance in instances):
        return device
    ids = ("gpu_instance_id", "compute_instance_id")
    named = {tuple(one.get(key) for key in ids): one for one in (before.get("mig") or {}).get("devices") or []}
    filled = []
    for instance in instances:
        known = {} if instance.get("uuid") else named.get(tuple(instance.get(key) for key in ids), {})
        filled.append({**instance, **{key: known[key] for key in ("uuid", "profile") if key in known}})
    return {**device, "mig": {**device["mig"], "devices": filled}}


def all_as_recorded(found: t.Sequence[Device], recorded: t.Sequence[t.Mapping[str, t.Any]]) -> list[Device]:
    """The devices of a host, each as as_recorded gives it."""
    before = {device["pci_address"]: device for device in recorded}
    return [as_recorded(device, before.get(device["pci_address"])) for device in found]


def lost_units(before: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> list[str]:
    """The types of which a device gave more units when it was configured."""
    types = Counter(unit.type for unit in units.units([before]))
    types.subtract(unit.type for unit in units.units([now]))
    return sorted(name for name, count in types.items() if count > 0)


def files_of(device: t.Mapping[str, t.Any]) -> list[str]:
    """All device files of a device and of its MIG instances."""
    instances = (device.get("mig") or {}).get("devices") or []
    return [str(path) for part in (device, *instances) for path in part.get("device_files") or []]


def with_free_files(device: dict[str, t.Any], taken: t.AbstractSet[str], expected: t.AbstractSet[str]) -> dict[str, t.Any]:
    """Return a lost device with files that no other device has.

    The next free numbers take the place of the ones taken.
    """
    names: dict[str, str] = {}
    for path in files_of(device):
        name = path
        stem = path.rstrip("0123456789")
        number = 0
        while path in taken and (name in taken or name in expected or name in names.values()):
            name = f"{stem}{number}"
            number += 1
        names[path] = name
    if all(old == new for old, new in names.items()):
        return device

    def renamed(part: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {**part, "device_files": [names[str(path)] for path in part.get("device_files") or []]}

    moved = renamed(device)
    if (device.get("mig") or {}).get("devices"):
        moved["mig"] = {**device["mig"], "devices": [renamed(instance) for instance in device["mig"]["devices"]]}
    return moved
