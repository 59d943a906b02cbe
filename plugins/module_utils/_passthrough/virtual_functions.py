# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which devices are divided into SR-IOV virtual functions, and why one can't be.

Pure functions.

A physical function stays with the host, by its own driver; its virtual functions are for virtual machines.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import full_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Accelerator, as_number, type_of

Function = t.Mapping[str, t.Any]


class Division(t.NamedTuple):
    """Physical functions with the wanted number of virtual functions of each.

    There is one sentence for each that can't have it.
    """

    functions: list[dict[str, t.Any]]
    errors: list[str]


def divide(accelerators: t.Sequence[Accelerator], iommu: t.Mapping[str, t.Any], wanted: t.Any, host: str) -> Division:
    """What pci_passthrough_virtual_functions asks for.

    :param wanted: dicts of device, the type of an accelerator or the PCI address of anything with SR-IOV, and count.
    """
    name = f"pci_passthrough_virtual_functions of {host}"
    functions = {entry["address"]: entry for entry in iommu["functions"]}
    types = {entry["pci_address"]: type_of(entry) for entry in accelerators if entry.get("kind") != "console"}
    counts: dict[str, int] = {}
    errors = []
    for entry in wanted:
        asked, count = str(entry.get("device")), as_number(entry.get("count"))
        if count is None:
            errors.append(f"{name} has the count {entry.get('count')} for {asked}; it must be a number, 1 or more.")
            continue
        address = full_address(asked)
        found = [address] if address in functions else [own for own in types if types[own] == asked and not _owner(functions.get(own))]
        if not found:
            able = ", ".join(own for own, function in functions.items() if function["sriov"]["total_vfs"]) or "none"
            errors.append(f"{name} asks for {asked}, which the host does not have; what can be divided: {able}.")
        for own in found:
            if counts.get(own, count) != count:
                errors.append(f"{name} asks for {counts[own]} virtual functions of {own} and for {count}.")
            counts[own] = count
    for own, count in counts.items():
        obstacle = _obstacle(functions, own, count, iommu["divided"]) if own in functions else "it is gone since it was read; run again"
        if obstacle:
            errors.append(f"{own} of {host} can't have {count} virtual functions: {obstacle}.")
    chosen = [
        {**{key: functions[own][key] for key in ("address", "vendor_id", "device_id")}, "count": counts[own]} for own in sorted(counts)
    ]
    return Division([] if errors else chosen, errors)


def _owner(function: Function | None) -> str | None:
    return function["sriov"]["physical_function"] if function else None


def virtual_functions(functions: t.Iterable[Function], physical: str) -> list[Function]:
    """The virtual functions that a physical one has now."""
    return [entry for entry in functions if _owner(entry) == physical]


def _obstacle(functions: t.Mapping[str, Function], own: str, count: int, divided: t.Mapping[str, int]) -> str | None:
    function = functions[own]
    able, present = function["sriov"]["total_vfs"], function["sriov"]["num_vfs"] or 0
    if count < 1:
        return "the number must be 1 or more; leave the device out to have none"
    if not able:
        return "it has no SR-IOV, or the firmware does not show it (look for SR-IOV, ARI and Above 4G Decoding in its set-up)"
    if count > able:
        return f"it can have {able}"
    if function["vendor_id"] == NVIDIA.pci_id:
        return (
            "NVIDIA's are made by the host driver of its vGPU software (/usr/lib/nvidia/sriov-manage) and nothing else; make them with it"
        )
    if function["driver"] in (None, "vfio-pci", "pci-stub"):
        return f"only its own driver can make them, and it has {function['driver'] or 'none'}"
    if any(interface["is_uplink"] for interface in function["interfaces"]):
        return "the host's default route goes through it, and dividing it may take the network away"
    if present and own not in divided:
        return f"{present} are there already, made by other means; remove them first (0 into its sriov_numvfs), and what makes them at boot"
    return None if present in (0, count) else in_use(virtual_functions(functions.values(), own))


def in_use(made: t.Iterable[Function]) -> str | None:
    """Return why virtual functions can't go.

    The kernel changes their number only by way of zero.
    """
    for entry in made:
        if entry["users"]:
            return f"{entry['address']} is one of those that it has, and {entry['users'][0]}; end that process first"
        if entry["driver"] not in (None, "vfio-pci"):
            return f"{entry['address']} is one of those that it has, and the host uses it with the driver {entry['driver']}"
    return None


def faults(planned: t.Iterable[Function], functions: t.Sequence[Function], host: str) -> list[str]:
    """The devices that don't have the virtual functions that were asked for."""
    found = []
    for entry in planned:
        made = len(virtual_functions(functions, entry["address"]))
        if made != entry["count"]:
            found.append(
                f"{entry['address']} of {host} has {made} virtual functions instead of {entry['count']}: "
                "its driver did not make them (dmesg), or was loaded again since."
            )
    return found
