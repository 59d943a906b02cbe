# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The devices that each node of a SLURM cluster is promised to have, and which of them are lost: pure functions.

A lost device stays in the configuration, see docs/architecture.md.
"""

from __future__ import annotations

import json
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils import _slurm_conf, _slurm_gres

RECORD_HEADER = "# Made by deephdc.accelerators: the accelerators that each node had when it was configured last.\n"

# What slurmctld keeps in the record of a device, enough to configure it while it is missing.
RECORDED_KEYS = (
    *("kind", "vendor", "vendor_id", "device_id", "pci_address", "uuid", "model", "type"),  # the ids make the type of a model without one
    *("driver", "device_files", "local_cpus", "mig", "sriov"),
)

# Health entries about the tool that reads the devices: told, but no reason to take a node away from its users.
ADVISORY = {f"{tool}_{problem}" for tool in ("nvidia_smi", "rocm_smi") for problem in ("timeout", "failed", "unreadable")}


def record(nodes: t.Sequence[_slurm_conf.PlannedNode]) -> str:
    """The devices that each node was promised to have, and how it shares them: what a later run compares with.

    A comment and a line of JSON: ansible-core 2.16 takes a text that begins like JSON for data on its way through a template.
    """
    kept = {
        node["name"]: [{key: device.get(key) for key in RECORDED_KEYS} for device in _slurm_gres.schedulable(node["accelerators"])]
        for node in nodes
    }
    sharing = {node["name"]: node["sharing"] for node in nodes}
    return RECORD_HEADER + json.dumps({"nodes": kept, "sharing": sharing}, sort_keys=True, separators=(",", ":")) + "\n"


def describe(device: t.Mapping[str, t.Any]) -> str:
    files = device.get("device_files") or []
    return f"{device.get('type')} at {device.get('pci_address')}" + (f" ({files[0]})" if files else "")


def with_lost(found: list[dict[str, t.Any]], recorded: list[dict[str, t.Any]]) -> tuple[list[dict[str, t.Any]], list[str]]:
    """The devices to configure, and what is wrong with them.

    A device that was configured and can't be scheduled now stays in the configuration: a node that quietly shrinks
    is a GPU lost without a word. Drivers number device files anew at boot, so its file may be another device's by now.
    """
    before = {device["pci_address"]: device for device in recorded}
    found = [as_recorded(device, before.get(device["pci_address"])) for device in found]
    usable = {device["pci_address"]: device for device in _slurm_gres.schedulable(found)}
    reasons = {entry["pci_address"]: entry["reason"] for entry in _slurm_gres.unschedulable(found)}
    known = {device["pci_address"] for device in recorded}
    wrong = []
    devices = []
    for device in found:
        if device["pci_address"] in usable or device["pci_address"] not in known:
            devices.append(device)
        for problem in device.get("health") or []:
            if device["pci_address"] in usable and problem["problem"] not in ADVISORY:
                wrong.append(f"{describe(device)}: {problem['message']}")
    for address in [address for address in before if address in usable]:
        gone = lost_units(before[address], usable[address])
        if gone:  # a MIG instance, or what the device was before it was divided
            devices = [device for device in devices if device["pci_address"] != address]
            del usable[address]
            reasons[address] = f"it has no {', '.join(gone)} any more"
    lost = [device for device in recorded if device["pci_address"] not in usable]
    taken = {path for device in usable.values() for path in files_of(device)}
    expected = {path for device in lost for path in files_of(device)}
    for device in lost:
        renumbered = with_free_files(device, taken, expected)
        taken.update(files_of(renumbered))
        devices.append(renumbered)
        cause = reasons.get(device["pci_address"]) or ""
        wrong.append(f"{describe(device)} is missing" + (", " + cause.split("scheduled: ", 1)[-1].rstrip(".") if cause else ""))
    return sorted(devices, key=lambda device: str(device["pci_address"])), wrong


def as_recorded(device: dict[str, t.Any], before: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """A device with what was recorded in the place of what nothing told this time, as when nvidia-smi hangs."""
    if before is None or (device.get("mig") or {}).get("enabled") is not None:
        return device
    kept = {key: before.get(key) for key in ("mig", "uuid", "model") if device.get(key) is None or key == "mig"}
    return {**device, **{key: value for key, value in kept.items() if value is not None}}


def lost_units(before: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> list[str]:
    """The gres types of which a device gave more units when it was configured."""
    types = Counter(unit["gres_type"] for unit in _slurm_gres.device_index([before]))
    types.subtract(unit["gres_type"] for unit in _slurm_gres.device_index([now]))
    return sorted(gres_type for gres_type, count in types.items() if count > 0)


def files_of(device: t.Mapping[str, t.Any]) -> list[str]:
    """All device files of a device and of its MIG instances."""
    instances = (device.get("mig") or {}).get("devices") or []
    return [str(path) for part in (device, *instances) for path in part.get("device_files") or []]


def with_free_files(device: dict[str, t.Any], taken: t.AbstractSet[str], expected: t.AbstractSet[str]) -> dict[str, t.Any]:
    """A lost device with files that no other device has: the next free numbers instead of the ones taken."""
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
