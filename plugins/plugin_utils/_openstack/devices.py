# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""PCI entries of nova.conf and LXD's gpu devices, from the accelerator model.

Sources: nova/conf/pci.py of OpenStack Nova (options ``device_spec`` and ``alias``), the reference of LXD 5.0 on
devices of type gpu.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import (
    Accelerator,
    Unit,
    assignable,
    by_address,
    is_mig,
    schedulable,
    type_of,
    units,
    usable_instances,
)


def pci_entries(accelerators: Sequence[Accelerator]) -> dict[str, list[dict[str, str]]]:
    """Return the values of ``device_spec`` and ``alias`` in section ``[pci]``.

    Each entry is one line, as JSON. An alias has the short type of its model (C(a100), of a virtual function C(a100-vf)) and
    is the name a flavor asks for. The accelerators of several hosts, taken together, give the aliases of the API hosts.

    :raises ValueError: the input is not a list of accelerators, or a device is in a PCI domain that Nova ignores. Also if
        equal devices differ in SR-IOV, for which Nova refuses a common alias.
    """
    specs = []
    aliases: dict[tuple[str, str, str], dict[str, str]] = {}
    device_types: dict[str, str] = {}
    for device in assignable(accelerators):
        if len(device["pci_address"].split(":")[0]) > 4:
            raise ValueError("Nova ignores the accelerator at {}: its PCI domain has more than 16 bits.".format(device["pci_address"]))
        ids = {"vendor_id": device["vendor_id"], "product_id": device["device_id"]}
        specs.append(dict(ids, address=device["pci_address"]))
        device_type = _device_type(device)
        name = type_of(device) + ("-vf" if device_type == "type-VF" else "")
        if device_types.setdefault(name, device_type) != device_type:
            raise ValueError(f"The accelerators of type {name} need one alias, but only some of them support SR-IOV.")
        aliases[(name, ids["vendor_id"], ids["product_id"])] = dict(ids, name=name, device_type=device_type)
    return {"device_spec": specs, "alias": [alias for _key, alias in sorted(aliases.items())]}


def gpu_devices(accelerators: Sequence[Accelerator]) -> dict[str, dict[str, str]]:
    """Return LXD's gpu devices for a container, by name of the device.

    The container gets all usable accelerators of the host. Each device or MIG instance is an entry of its own, so a profile
    or an instance can take some of them. The host's driver stays in charge: a device that is bound to vfio-pci has none.

    :raises ValueError: the input is not a list of accelerators.
    """
    entries: list[dict[str, str]] = []
    for accelerator in sorted(schedulable(accelerators), key=by_address):
        address = str(accelerator.get("pci_address"))
        if is_mig(accelerator):
            entries.extend(dict(_mig_name(instance), type="gpu", gputype="mig", pci=address) for instance in usable_instances(accelerator))
        else:
            entries.append({"type": "gpu", "gputype": "physical", "pci": address})
    return {f"gpu{number}": entry for number, entry in enumerate(entries)}


def gpu_inventory(accelerators: Sequence[Accelerator], nvidia_runtime: bool = False) -> dict[str, Any]:
    """Return the content of /etc/nova/gpus.json: the GPUs of one compute host.

    The driver of the role nova_lxd reads it. Each device or MIG instance that jobs may have is one GPU. It has the resource
    class that a flavor asks for, such as CUSTOM_GPU_A100 or CUSTOM_GPU_A100_1G_10GB. Its memory is a trait:
    CUSTOM_GPU_MEMORY_80GB.

    :arg nvidia_runtime: whether libnvidia-container is on the host, so that LXD can give instances NVIDIA's libraries.
    :raises ValueError: the input is not a list of accelerators, or two units have one device file.
    """
    by_pci = {str(accelerator.get("pci_address")): accelerator for accelerator in schedulable(accelerators)}
    return {"version": 1, "devices": [_inventory_entry(unit, by_pci[unit.pci_address], nvidia_runtime) for unit in units(accelerators)]}


def _inventory_entry(unit: Unit, accelerator: Accelerator, nvidia_runtime: bool) -> dict[str, Any]:
    part: Mapping[str, Any] = accelerator
    device = {"type": "gpu", "gputype": "physical", "pci": unit.pci_address}
    if unit.is_mig:
        part = next(instance for instance in usable_instances(accelerator) if instance.get("uuid") == unit.uuid)
        device = {"type": "gpu", "gputype": "mig", "pci": unit.pci_address, **_mig_name(part)}
    memory = part.get("memory_mib")
    return {
        "id": str(unit.uuid) if unit.is_mig else unit.pci_address,
        "resource_class": resource_class(unit.type),
        # Drivers keep some of the memory for themselves: 81559 MiB are an 80GB device.
        "traits": [_custom(f"GPU_MEMORY_{round(int(memory) / 1024)}GB")] if memory else [],
        "lxd": device,
        "paths": list(unit.files),
        "nvidia_runtime": nvidia_runtime and unit.vendor == NVIDIA.name,
    }


def resource_class(gpu_type: str) -> str:
    """The class in Placement of a type of GPU, or of a MIG instance."""
    return _custom(f"GPU_{gpu_type}")


def _custom(name: str) -> str:
    """A name as Placement takes it."""
    return "CUSTOM_" + re.sub("[^A-Z0-9_]", "_", name.upper())


def _device_type(accelerator: Accelerator) -> str:
    sriov = accelerator.get("sriov") or {}
    if sriov.get("is_vf"):
        return "type-VF"
    return "type-PF" if sriov.get("total_vfs") else "type-PCI"


def _mig_name(instance: Mapping[str, Any]) -> dict[str, str]:
    # Drivers before 470 name an instance by the GPU's UUID and two numbers, which LXD takes as numbers only.
    if "/" in str(instance.get("uuid") or "/"):
        return {"mig.gi": str(instance.get("gpu_instance_id")), "mig.ci": str(instance.get("compute_instance_id"))}
    return {"mig.uuid": str(instance["uuid"])}
