# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What sysfs and procfs look like on a host with the accelerators that a list describes.

Pure functions: a list of devices in, a mapping of paths out. The module gpu_simulator writes it below a root.
"""

from __future__ import annotations

import copy
import typing as t
import uuid

from ansible_collections.deephdc.accelerators.plugins.module_utils._pci import address_key, canonical_address

#: Path -> text of a file, Link, or None for a directory that may be empty.
Tree = t.Dict[str, t.Union[str, "Link", None]]
Device = t.Dict[str, t.Any]

DRIVER_VERSION = "550.163.01"

# What lspci, nvidia-smi and the data sheets say about the devices that can be asked for by name alone.
CATALOGUE: dict[str, Device] = {
    "p100": {"vendor_id": "10de", "device_id": "15f9", "class": "030200", "model": "Tesla P100-SXM2-16GB", "pcie_gen": 3},
    "v100": {"vendor_id": "10de", "device_id": "1db1", "class": "030200", "model": "Tesla V100-SXM2-16GB", "pcie_gen": 3},
    "t4": {"vendor_id": "10de", "device_id": "1eb8", "class": "030200", "model": "Tesla T4", "pcie_gen": 3},
    "a100": {"vendor_id": "10de", "device_id": "20b2", "class": "030200", "model": "NVIDIA A100-SXM4-80GB", "pcie_gen": 4},
    "h100": {"vendor_id": "10de", "device_id": "2330", "class": "030200", "model": "NVIDIA H100 80GB HBM3", "pcie_gen": 5},
    "h200": {"vendor_id": "10de", "device_id": "2335", "class": "030200", "model": "NVIDIA H200", "pcie_gen": 5},
    "b200": {"vendor_id": "10de", "device_id": "2901", "class": "030200", "model": "NVIDIA B200", "pcie_gen": 5},
    "l4": {"vendor_id": "10de", "device_id": "27b8", "class": "030200", "model": "NVIDIA L4", "pcie_gen": 4},
    "l40s": {"vendor_id": "10de", "device_id": "26b9", "class": "030200", "model": "NVIDIA L40S", "pcie_gen": 4},
    "rtx3090": {"vendor_id": "10de", "device_id": "2204", "class": "030000", "model": "NVIDIA GeForce RTX 3090", "pcie_gen": 4},
    "rtx4090": {"vendor_id": "10de", "device_id": "2684", "class": "030000", "model": "NVIDIA GeForce RTX 4090", "pcie_gen": 4},
    "rtx6000_ada": {"vendor_id": "10de", "device_id": "26b1", "class": "030000", "model": "NVIDIA RTX 6000 Ada Generation", "pcie_gen": 4},
    "mi100": {"vendor_id": "1002", "device_id": "738c", "class": "038000", "model": "AMD Instinct MI100", "memory_mib": 32752, "pcie_gen": 4},
    "mi210": {"vendor_id": "1002", "device_id": "740f", "class": "038000", "model": "AMD Instinct MI210", "memory_mib": 65520, "pcie_gen": 4},
    "mi250x": {"vendor_id": "1002", "device_id": "7408", "class": "038000", "model": "AMD Instinct MI250X", "memory_mib": 65520, "pcie_gen": 4},
    "mi300x": {"vendor_id": "1002", "device_id": "74a1", "class": "120000", "model": "AMD Instinct MI300X", "memory_mib": 196592, "pcie_gen": 5},
    "max1550": {"vendor_id": "8086", "device_id": "0bd5", "class": "038000", "model": "Intel Data Center GPU Max 1550", "memory_mib": 131072, "pcie_gen": 5},
    "flex170": {"vendor_id": "8086", "device_id": "56c0", "class": "038000", "model": "Intel Data Center GPU Flex 170", "memory_mib": 16384, "pcie_gen": 4},
}

_DRIVERS = {"10de": "nvidia", "1002": "amdgpu", "8086": "xe"}
_DRM_DRIVERS = ("amdgpu", "i915", "xe", "nouveau", "ast")
_RATES = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}


class Link(t.NamedTuple):
    """A symbolic link."""

    target: str


class Node(t.NamedTuple):
    """A character device: its path below /dev and its numbers."""

    name: str
    major: int
    minor: int


def expand(devices: list[Device]) -> list[Device]:
    """One complete description per device, in the order of the PCI addresses.

    Each item has a ``type`` of :data:`CATALOGUE`, or any other one together with ``vendor_id`` and ``device_id``; ``count``
    (1 if absent) and whatever else shall differ from the catalogue. Devices without ``pci_address`` get 0000:01:00.0 and on.

    :raises ValueError: one sentence that says which device cannot be simulated and why.
    """
    expanded = [_complete(item) for item in devices for _number in range(_count(item))]
    taken = {device["pci_address"] for device in expanded if device["pci_address"]}
    free = (address for bus in range(1, 256) for address in [f"0000:{bus:02x}:00.0"] if address not in taken)
    for device in expanded:
        try:
            device["pci_address"] = device["pci_address"] or next(free)
        except StopIteration:
            raise ValueError("more than 255 devices cannot be simulated on one host") from None
    addresses = [device["pci_address"] for device in expanded]
    for address in addresses:
        if addresses.count(address) > 1:
            raise ValueError(f"the PCI address {address} is given to more than one device")
    expanded.sort(key=lambda device: address_key(device["pci_address"]))
    _number_devices(expanded)
    return expanded


def simulated_tree(devices: list[Device]) -> Tree:
    """The files below /sys and /proc, by paths relative to the root, for devices as :func:`expand` takes them."""
    tree: Tree = {"sys/bus/pci/devices": None}
    expanded = expand(devices)
    for device in expanded:
        tree.update(_pci_device(device))
        if device["driver"] == "nvidia":
            tree.update(_nvidia_gpu(device))
        elif device["driver"] == "amdgpu":
            tree.update(_amdgpu(device))
        elif device["driver"] == "xe" and device["memory_mib"]:
            tree[f"{_home(device)}/tile0/physical_vram_size_bytes"] = f"{device['memory_mib'] * 1048576}\n"
    served = [device for device in expanded if device["driver"] == "nvidia"]
    if served:
        version = served[0]["driver_version"] or DRIVER_VERSION
        tree["sys/module/nvidia/version"] = f"{version}\n"
        tree["proc/driver/nvidia/version"] = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Apr  8 12:41:17 UTC 2025\n"
            "GCC version:  gcc version 14.2.0 (Debian 14.2.0-19) \n"
        )
    return tree


def device_nodes(devices: list[Device]) -> list[Node]:
    """The device nodes through which processes use the devices.

    Only those whose numbers are the same on every host (Documentation/admin-guide/devices.txt of Linux): NVIDIA's have the major
    number 195, DRM render nodes 226. A DRM card node is left out, on a host with a screen it would be the screen's.
    """
    nodes = []
    for device in expand(devices):
        if device["nvidia_minor"] is not None:
            nodes.append(Node(f"nvidia{device['nvidia_minor']}", 195, device["nvidia_minor"]))
        if device["drm_number"] is not None:
            nodes.append(Node(f"dri/renderD{128 + device['drm_number']}", 226, 128 + device["drm_number"]))
    return nodes


def _count(item: Device) -> int:
    count = item.get("count")
    if count is None:
        return 1
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"the count of {item.get('type')} is {count!r}, which is not a number of devices")
    if count > 1 and item.get("pci_address"):
        raise ValueError(f"{count} devices of type {item.get('type')} cannot all have the PCI address {item['pci_address']}")
    return count


def _complete(item: Device) -> Device:
    type_ = item.get("type")
    given = {key: value for key, value in item.items() if value is not None and key != "count"}
    if type_ not in CATALOGUE and not (given.get("vendor_id") and given.get("device_id")):
        raise ValueError(f"the type {type_} is not known: give vendor_id and device_id with it, or one of {', '.join(CATALOGUE)}")
    device: Device = {
        "pci_address": None, "class": "030200", "subsystem_id": None, "model": type_, "memory_mib": None, "driver_version": None,
        "numa_node": -1, "local_cpus": "", "pcie_gen": 4, "pcie_width": 16, "iommu_group": None, "boot_vga": None,
        "sriov_total_vfs": None, "sriov_num_vfs": 0, "physfn": None, "mig_devices": [], "uuid": None,
    }  # fmt: skip
    device.update(copy.deepcopy(CATALOGUE.get(str(type_), {})))
    device.update(copy.deepcopy(given))
    if device["pci_address"]:
        address = canonical_address(device["pci_address"])
        if address is None:
            raise ValueError(f"{device['pci_address']} is not a PCI address such as 0000:41:00.0")
        device["pci_address"] = address
    device.setdefault("driver", _DRIVERS.get(device["vendor_id"], ""))
    return device


def _number_devices(devices: list[Device]) -> None:
    """Minor numbers and IOMMU groups in the order of the addresses, as the kernel gives them."""
    minors, drm_numbers = iter(range(len(devices))), iter(range(len(devices)))
    used = {device["iommu_group"] for device in devices}
    groups = (number for number in range(10, 100000) if number not in used)
    for device in devices:
        is_function = device["physfn"] is not None
        device["nvidia_minor"] = next(minors) if device["driver"] == "nvidia" and not is_function else None
        device["drm_number"] = next(drm_numbers) if device["driver"] in _DRM_DRIVERS else None
        if device["iommu_group"] is None:
            device["iommu_group"] = next(groups)
        device["uuid"] = device["uuid"] or str(uuid.uuid5(uuid.NAMESPACE_OID, device["pci_address"]))


def _home(device: Device) -> str:
    """Where sysfs keeps the device; the other places are links to it."""
    address = device["pci_address"]
    return f"sys/devices/pci{address.rsplit(':', 1)[0]}/{address}"


def _pci_device(device: Device) -> Tree:
    address, home = device["pci_address"], _home(device)
    subsystem = (device["subsystem_id"] or f"{device['vendor_id']}:{device['device_id']}").split(":")
    width = device["pcie_width"]
    tree: Tree = {
        f"sys/bus/pci/devices/{address}": Link(f"../../../{home[len('sys/'):]}"),
        f"{home}/class": f"0x{device['class']}\n",
        f"{home}/vendor": f"0x{device['vendor_id']}\n",
        f"{home}/device": f"0x{device['device_id']}\n",
        f"{home}/subsystem_vendor": f"0x{subsystem[0]}\n",
        f"{home}/subsystem_device": f"0x{subsystem[1]}\n",
        f"{home}/numa_node": f"{device['numa_node']}\n",
        f"{home}/local_cpulist": f"{device['local_cpus']}\n",
        f"{home}/current_link_speed": f"{_RATES[device['pcie_gen']]} GT/s PCIe\n",
        f"{home}/current_link_width": f"{width}\n",
        f"{home}/max_link_speed": f"{_RATES[device['pcie_gen']]} GT/s PCIe\n",
        f"{home}/max_link_width": f"{width}\n",
        f"{home}/uevent": _uevent(device, subsystem),
        f"{home}/iommu_group": Link(f"../../../kernel/iommu_groups/{device['iommu_group']}"),
        f"sys/kernel/iommu_groups/{device['iommu_group']}/devices/{address}": Link(f"../../../../{home[len('sys/'):]}"),
    }
    if device["class"].startswith("0300"):  # the kernel has this file for VGA compatible controllers only
        tree[f"{home}/boot_vga"] = f"{int(bool(device['boot_vga']))}\n"
    if device["sriov_total_vfs"] is not None:
        tree[f"{home}/sriov_totalvfs"] = f"{device['sriov_total_vfs']}\n"
        tree[f"{home}/sriov_numvfs"] = f"{device['sriov_num_vfs']}\n"
    if device["physfn"]:
        tree[f"{home}/physfn"] = Link(f"../{device['physfn']}")
    if device["driver"]:
        tree[f"{home}/driver"] = Link(f"../../../bus/pci/drivers/{device['driver']}")
        tree[f"sys/bus/pci/drivers/{device['driver']}/{address}"] = Link(f"../../../../{home[len('sys/'):]}")
    if device["drm_number"] is not None:
        tree[f"{home}/drm/renderD{128 + device['drm_number']}/dev"] = f"226:{128 + device['drm_number']}\n"
    return tree


def _uevent(device: Device, subsystem: list[str]) -> str:
    driver = f"DRIVER={device['driver']}\n" if device["driver"] else ""
    return driver + (
        f"PCI_CLASS={int(device['class'], 16):X}\n"
        f"PCI_ID={device['vendor_id'].upper()}:{device['device_id'].upper()}\n"
        f"PCI_SUBSYS_ID={':'.join(subsystem).upper()}\n"
        f"PCI_SLOT_NAME={device['pci_address']}\n"
    )


def _nvidia_gpu(device: Device) -> Tree:
    minor = device["nvidia_minor"]
    if minor is None:
        return {}
    tree: Tree = {
        f"proc/driver/nvidia/gpus/{device['pci_address']}/information": (
            f"Model: \t\t {device['model']}\n"
            f"IRQ:   \t\t {100 + minor}\n"
            f"GPU UUID: \t GPU-{device['uuid']}\n"
            "Video BIOS: \t 92.00.45.00.03\n"
            "Bus Type: \t PCIe\n"
            "DMA Size: \t 47 bits\n"
            "DMA Mask: \t 0x7fffffffffff\n"
            f"Bus Location: \t {device['pci_address']}\n"
            f"Device Minor: \t {minor}\n"
            "GPU Excluded:\t No\n"
        )
    }
    for number, instance in enumerate(device["mig_devices"]):
        gpu_instance = f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance['gpu_instance_id']}"
        capability = 12 + 135 * minor + 9 * number
        for path, offset in ((f"{gpu_instance}/access", 0), (f"{gpu_instance}/ci{instance['compute_instance_id']}/access", 1)):
            tree[path] = f"DeviceFileMinor: {capability + offset}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
    return tree


def _amdgpu(device: Device) -> Tree:
    home = _home(device)
    tree: Tree = {
        f"{home}/product_name": f"{device['model']}\n",
        f"{home}/unique_id": f"{device['uuid'].replace('-', '')[:16]}\n",
        f"{home}/serial_number": f"{692200000000 + device['drm_number']}\n",
    }
    if device["memory_mib"]:
        tree[f"{home}/mem_info_vram_total"] = f"{device['memory_mib'] * 1048576}\n"
    return tree
