# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What sysfs and procfs look like on a host with the accelerators of a list.

Pure functions: a list of devices in, a mapping of paths out. The module gpu_simulator writes it below a root.
"""

from __future__ import annotations

import copy
import re
import typing as t
import uuid

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.address import canonical_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import address_key

#: Path -> text of a file, Link, or None for a directory that may be empty.
Tree = t.Dict[str, t.Union[str, "Link", None]]
Device = t.Dict[str, t.Any]

DRIVER_VERSION = "550.163.01"

# Kept for local and experimental use by Documentation/admin-guide/devices.txt of Linux: no driver answers there.
NVIDIA_MAJOR = 120
DRM_MAJOR = 121


def _row(ids: str, class_: str, model: str, gen: int, memory_mib: int | None = None) -> Device:
    vendor_id, device_id = ids.split(":")
    return {"vendor_id": vendor_id, "device_id": device_id, "class": class_, "model": model, "pcie_gen": gen, "memory_mib": memory_mib}


# What lspci, nvidia-smi and the data sheets say about the devices that can be asked for by name alone.
CATALOGUE: dict[str, Device] = {
    "p100": _row("10de:15f9", "030200", "Tesla P100-SXM2-16GB", gen=3),
    "v100": _row("10de:1db1", "030200", "Tesla V100-SXM2-16GB", gen=3),
    "t4": _row("10de:1eb8", "030200", "Tesla T4", gen=3),
    "a100": _row("10de:20b2", "030200", "NVIDIA A100-SXM4-80GB", gen=4),
    "h100": _row("10de:2330", "030200", "NVIDIA H100 80GB HBM3", gen=5),
    "h200": _row("10de:2335", "030200", "NVIDIA H200", gen=5),
    "b200": _row("10de:2901", "030200", "NVIDIA B200", gen=5),
    "l4": _row("10de:27b8", "030200", "NVIDIA L4", gen=4),
    "l40s": _row("10de:26b9", "030200", "NVIDIA L40S", gen=4),
    "rtx3090": _row("10de:2204", "030000", "NVIDIA GeForce RTX 3090", gen=4),
    "rtx4090": _row("10de:2684", "030000", "NVIDIA GeForce RTX 4090", gen=4),
    "rtx6000_ada": _row("10de:26b1", "030000", "NVIDIA RTX 6000 Ada Generation", gen=4),
    "mi100": _row("1002:738c", "038000", "AMD Instinct MI100", gen=4, memory_mib=32752),
    "mi210": _row("1002:740f", "038000", "AMD Instinct MI210", gen=4, memory_mib=65520),
    "mi250x": _row("1002:7408", "038000", "AMD Instinct MI250X", gen=4, memory_mib=65520),
    "mi300x": _row("1002:74a1", "120000", "AMD Instinct MI300X", gen=5, memory_mib=196592),
    "max1550": _row("8086:0bd5", "038000", "Intel Data Center GPU Max 1550", gen=5, memory_mib=131072),
    "flex170": _row("8086:56c0", "038000", "Intel Data Center GPU Flex 170", gen=4, memory_mib=16384),
}

# Of no vendor's jobs, but they have files of the kernel's DRM too.
_DISPLAY_DRIVERS = ("nouveau", "ast")
_RATES = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}

_FORMS = (
    ("vendor_id", r"[0-9a-f]{4}", "4 hexadecimal digits"),
    ("device_id", r"[0-9a-f]{4}", "4 hexadecimal digits"),
    ("class", r"[0-9a-f]{6}", "6 hexadecimal digits"),
    ("subsystem_id", r"[0-9a-f]{4}:[0-9a-f]{4}", "of the form 10de:147f"),
    ("driver", r"[a-zA-Z0-9_-]*", "the name of a kernel driver"),
    ("driver_version", r"[0-9.]+", "a version"),
    ("local_cpus", r"[0-9,-]*", "a list of CPUs such as 0-3"),
)


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
    (1 if absent) and whatever else must differ from the catalogue. Devices without ``pci_address`` get 0000:01:00.0 and on.

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
    """Return the files below /sys and /proc, by paths relative to the root.

    They are for devices as :func:`expand` takes them.
    """
    tree: Tree = {"sys/bus/pci/devices": None}
    expanded = expand(devices)
    for device in expanded:
        tree.update(_pci_device(device))
        if device["driver"] in _FILES_OF_DRIVERS:
            tree.update(_FILES_OF_DRIVERS[device["driver"]](device))
    served = [device for device in expanded if device["driver"] in vendors.NVIDIA.drivers]
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

    Their names are those of the drivers, their numbers are not: 195:0 and 226:128 would open the machine's real GPU from inside
    a container. A DRM card node is left out, on a host with a screen it would be the screen's.
    """
    nodes = []
    for device in expand(devices):
        if device["nvidia_minor"] is not None:
            nodes.append(Node(f"nvidia{device['nvidia_minor']}", NVIDIA_MAJOR, device["nvidia_minor"]))
        if device["drm_number"] is not None:
            nodes.append(Node(f"dri/renderD{128 + device['drm_number']}", DRM_MAJOR, 128 + device["drm_number"]))
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
    for key in ("vendor_id", "device_id", "subsystem_id", "class"):
        device[key] = device[key].lower() if isinstance(device[key], str) else device[key]
    _check_form(device)
    if device["pci_address"]:
        address = canonical_address(device["pci_address"])
        if address is None:
            raise ValueError(f"{device['pci_address']} is not a PCI address such as 0000:41:00.0")
        device["pci_address"] = address
    vendor = vendors.by_id(device["vendor_id"])
    device.setdefault("driver", vendor.drivers[0] if vendor else "")
    return device


def _check_form(device: Device) -> None:
    """What is written here becomes names and contents of files."""
    for key, pattern, form in _FORMS:
        value = device.get(key)
        if value is not None and not re.fullmatch(pattern, str(value)):
            raise ValueError(f"the {key} of {device['type']} is {value!r}, which is not {form}")


def _number_devices(devices: list[Device]) -> None:
    """Give minor numbers and IOMMU groups in the order of the addresses.

    The kernel does so, too.
    """
    minors, drm_numbers = iter(range(len(devices))), iter(range(len(devices)))
    used = {device["iommu_group"] for device in devices}
    groups = (number for number in range(10, 100000) if number not in used)
    for device in devices:
        is_function = device["physfn"] is not None
        device["nvidia_minor"] = next(minors) if device["driver"] in vendors.NVIDIA.drivers and not is_function else None
        device["drm_number"] = next(drm_numbers) if _has_drm_files(device["driver"]) else None
        if device["iommu_group"] is None:
            device["iommu_group"] = next(groups)
        device["uuid"] = device["uuid"] or str(uuid.uuid5(uuid.NAMESPACE_OID, device["pci_address"]))


def _has_drm_files(driver: str) -> bool:
    """Only NVIDIA's driver has its jobs use other files."""
    return driver in _DISPLAY_DRIVERS or (driver in vendors.drivers() and driver not in vendors.NVIDIA.drivers)


def _home(device: Device) -> str:
    """Where sysfs keeps the device; the other places are links to it."""
    address = device["pci_address"]
    return f"sys/devices/pci{address.rsplit(':', 1)[0]}/{address}"


def _pci_device(device: Device) -> Tree:
    address, home = device["pci_address"], _home(device)
    subsystem = (device["subsystem_id"] or f"{device['vendor_id']}:{device['device_id']}").split(":")
    width = device["pcie_width"]
    tree: Tree = {
        f"sys/bus/pci/devices/{address}": Link(f"../../../{home[len('sys/') :]}"),
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
        f"sys/kernel/iommu_groups/{device['iommu_group']}/devices/{address}": Link(f"../../../../{home[len('sys/') :]}"),
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
        tree[f"sys/bus/pci/drivers/{device['driver']}/{address}"] = Link(f"../../../../{home[len('sys/') :]}")
    if device["drm_number"] is not None:
        tree[f"{home}/drm/renderD{128 + device['drm_number']}/dev"] = f"{DRM_MAJOR}:{128 + device['drm_number']}\n"
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


def _xe(device: Device) -> Tree:
    return {f"{_home(device)}/tile0/physical_vram_size_bytes": f"{device['memory_mib'] * 1048576}\n"} if device["memory_mib"] else {}


# What only these drivers write. A device of another one has what the kernel writes for all.
_FILES_OF_DRIVERS: dict[str, t.Callable[[Device], Tree]] = {"nvidia": _nvidia_gpu, "amdgpu": _amdgpu, "xe": _xe}
