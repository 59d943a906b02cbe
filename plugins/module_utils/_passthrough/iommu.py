# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a host reports about its IOMMU and the groups of its PCI functions.

Also what the host itself does with these functions. This module only reads.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.address import canonical_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import (
    address_key,
    link_name,
    list_directory,
    read_integer,
    read_text,
    under,
)

#: Where driverctl keeps what it does at each boot; one file per device, its only content is the driver's name.
OVERRIDES = "/etc/driverctl.d"
_OVERRIDE_FILE = re.compile(r"pci-(.+)\Z")

#: By which virtual functions come back at each boot: one line for each physical function.
DIVISION_RULES = "/etc/udev/rules.d/71-deephdc-virtual-functions.rules"
_DIVISION = re.compile(
    r'(?m)^[^#\n]*KERNEL=="([^"]+)", ATTR\{vendor\}=="0x([^"]+)", ATTR\{device\}=="0x([^"]+)".*ATTR\{sriov_numvfs\}="(\d+)"'
)

# ACPI tables by which firmware reports that it has an IOMMU, and that it is on.
TABLES = ("DMAR", "IVRS")

_NO_ROUTE6 = "0" * 32


def read(root: str = "/", kernel: str | None = None) -> dict[str, t.Any]:
    """The facts as the module iommu_facts returns them.

    :param root: prefix of /sys, /proc and /etc.
    :param kernel: the running kernel's release; that of this machine if it isn't given.
    """
    release = kernel or os.uname().release
    return {
        "table": next((name for name in TABLES if name in list_directory(under(root, "/sys/firmware/acpi/tables"))), None),
        "units": list_directory(under(root, "/sys/class/iommu")),
        "kernel": release,
        "kernel_arguments": (read_text(under(root, "/proc/cmdline")) or "").split(),
        "has_vfio": has_vfio(root, release),
        "overrides": overrides(root),
        "divided": divided(root),
        "functions": functions(root),
    }


def has_vfio(root: str, release: str) -> bool:
    """Return whether the kernel has the driver vfio-pci, as a module or built in.

    Kernels made for clouds do not have it.
    """
    lists = (read_text_whole(under(root, f"/lib/modules/{release}/{name}")) for name in ("modules.dep", "modules.builtin"))
    return any(re.search(r"/vfio[-_]pci\.ko", text) for text in lists)


def read_text_whole(path: str) -> str:
    """The text of a file of any size, empty if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def overrides(root: str) -> dict[str, str]:
    """The drivers that driverctl gives at boot, by PCI address."""
    directory = under(root, OVERRIDES)
    named = ((name, _OVERRIDE_FILE.match(name)) for name in list_directory(directory))
    return {match.group(1): read_text(os.path.join(directory, name)) or "" for name, match in named if match}


def divided(root: str) -> dict[str, int]:
    """Return the number of virtual functions that our rules make at boot.

    It is given by the physical function's address.
    Another device that has the address now, after a card was put in, does not count.
    """
    found = {}
    for address, vendor, device, count in _DIVISION.findall(read_text_whole(under(root, DIVISION_RULES))):
        path = under(root, f"/sys/bus/pci/devices/{address}")
        if [_digits(path, "vendor"), _digits(path, "device")] in ([vendor, device], ["", ""]):
            found[address] = int(count)
    return found


def functions(root: str) -> list[dict[str, t.Any]]:
    """All PCI functions of the host, in order of address."""
    directory = under(root, "/sys/bus/pci/devices")
    addresses = sorted((name for name in list_directory(directory) if canonical_address(name) == name), key=address_key)
    cards = network_cards(root)
    found = [function(os.path.join(directory, address), address, cards.get(address, [])) for address in addresses]
    cards_of_interest = {slot(entry["address"]) for entry in found if _is_of_interest(entry)}
    opened = opened_devices(root) if cards_of_interest else []
    for entry in found:
        entry["users"] = users(root, entry["address"], opened) if slot(entry["address"]) in cards_of_interest else []
    return found


def _is_of_interest(entry: dict[str, t.Any]) -> bool:
    """Return whether a virtual machine may have the device.

    It may have graphics, accelerators, and virtual functions of anything.
    """
    return bool(re.match("03|12|0b40", entry["class"])) or entry["sriov"]["physical_function"] is not None


def slot(address: str) -> str:
    """The address without its function: what one card has in common."""
    return address.rsplit(".", 1)[0]


def function(device: str, address: str, interfaces: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    group = link_name(os.path.join(device, "iommu_group"))
    override = read_text(os.path.join(device, "driver_override"))
    return {
        "address": address,
        "class": _digits(device, "class")[:6],
        "vendor_id": _digits(device, "vendor"),
        "device_id": _digits(device, "device"),
        "driver": link_name(os.path.join(device, "driver")),
        "driver_override": override if override not in ("", "(null)") else None,
        "group": int(group) if group and group.isdigit() else None,
        "boot_display": read_text(os.path.join(device, "boot_vga")) == "1",
        "framebuffer": next((name for name in list_directory(os.path.join(device, "graphics")) if name.startswith("fb")), None),
        "interfaces": interfaces,
        "sriov": {
            "total_vfs": read_integer(os.path.join(device, "sriov_totalvfs")),
            "num_vfs": read_integer(os.path.join(device, "sriov_numvfs")),
            "physical_function": link_name(os.path.join(device, "physfn")),
        },
    }


def _digits(device: str, name: str) -> str:
    return (read_text(os.path.join(device, name)) or "").lower().replace("0x", "", 1)


def network_cards(root: str) -> dict[str, list[dict[str, t.Any]]]:
    """Return the network interfaces of each PCI function that has some.

    Each has its name, and whether the host's default route goes through it.
    """
    uplinks = default_interfaces(root)
    directory = under(root, "/sys/class/net")
    found: dict[str, list[dict[str, t.Any]]] = {}
    for name in list_directory(directory):
        parts = os.path.realpath(os.path.join(directory, name, "device")).split("/")
        address = next((part for part in reversed(parts) if canonical_address(part) == part), None)
        if address and os.path.lexists(os.path.join(directory, name, "device")):
            found.setdefault(address, []).append({"name": name, "is_uplink": name in uplinks})
    return found


def default_interfaces(root: str) -> set[str]:
    """Return the interfaces that the default routes go through.

    Those below a bridge, a bond or a VLAN are included.
    """
    routes = [line.split() for line in (read_text(under(root, "/proc/net/route")) or "").splitlines()[1:]]
    found = {fields[0] for fields in routes if len(fields) > 7 and fields[1] == fields[7] == "00000000"}
    routes6 = [line.split() for line in (read_text(under(root, "/proc/net/ipv6_route")) or "").splitlines()]
    found |= {fields[9] for fields in routes6 if len(fields) > 9 and fields[0] == _NO_ROUTE6 and fields[1] == "00"}
    found.discard("lo")
    waiting = sorted(found)
    while waiting:
        names = list_directory(under(root, f"/sys/class/net/{waiting.pop()}"))
        below = {name[len("lower_") :] for name in names if name.startswith("lower_")} - found
        found |= below
        waiting += sorted(below)
    return found


def device_numbers(root: str, address: str) -> set[str]:
    """Return major:minor of all device files of a function.

    Those of the devices behind a bridge are left out.
    """
    found = set()
    for directory, below, files in os.walk(os.path.realpath(under(root, f"/sys/bus/pci/devices/{address}"))):
        below[:] = [name for name in below if not canonical_address(name)]
        if "dev" in files:
            found.add(read_text(os.path.join(directory, "dev")) or "")
    return found - {""}


class Opened(t.NamedTuple):
    """A device file that a process has open."""

    process: str
    path: str
    number: str


# File systems whose server, or whose process, may not answer: stat of an open file there may never end. They hold no device files.
REMOTE = re.compile(r"(afs|beegfs|ceph|cifs|fuse|glusterfs|gpfs|lustre|ncpfs|nfs|orangefs|panfs|smb|wekafs|9p)")


def remote_mounts(root: str, pid: str) -> set[str]:
    """The ids of a process' mounts that may not answer, from proc_pid_mountinfo(5)."""
    found = set()
    for line in (read_text(under(root, f"/proc/{pid}/mountinfo")) or "").splitlines():
        fields, _dash, more = line.partition(" - ")
        if REMOTE.match(more):
            found.add(fields.split(" ", 1)[0])
    return found


def is_on(root: str, pid: str, name: str, mounts: set[str]) -> bool:
    """Return whether an open file is on one of the mounts.

    The source is proc_pid_fdinfo(5), which asks no file system.
    """
    mount = re.search(r"^mnt_id:\s*(\d+)", read_text(under(root, f"/proc/{pid}/fdinfo/{name}")) or "", re.MULTILINE)
    return mount is None or mount.group(1) in mounts


def opened_devices(root: str = "/") -> list[Opened]:
    """Every device file that any process has open. Only root sees the files of others."""
    found = []
    for pid in list_directory(under(root, "/proc")):
        if not pid.isdigit():
            continue
        directory = under(root, f"/proc/{pid}/fd")
        seen = set()
        remote = remote_mounts(root, pid)
        for name in list_directory(directory):
            try:
                path = os.readlink(os.path.join(directory, name))
                if not path.startswith("/") or (remote and is_on(root, pid, name, remote)):
                    continue
                number = os.stat(os.path.join(directory, name)).st_rdev
            except OSError:
                continue  # closed meanwhile
            if number and path not in seen:
                seen.add(path)
                command = read_text(under(root, f"/proc/{pid}/comm")) or "a process"
                found.append(Opened(f"{command} (process {pid})", path, f"{os.major(number)}:{os.minor(number)}"))
    return found


def device_files(root: str, address: str) -> list[str]:
    """Return device files of a function that sysfs doesn't name.

    These are those of its vendor's driver and of the IOMMU group.
    """
    device = under(root, f"/sys/bus/pci/devices/{address}")
    group = link_name(os.path.join(device, "iommu_group"))
    is_vfio = link_name(os.path.join(device, "driver")) == "vfio-pci"
    return [*vendors.device_files(root, address), *([f"/dev/vfio/{group}"] if group and is_vfio else [])]


def users(root: str, address: str, opened: t.Sequence[Opened]) -> list[str]:
    """Return who has a function's device files open.

    An example: 'python3 (process 4711) has /dev/nvidia0 open'.
    """
    numbers, paths = device_numbers(root, address), device_files(root, address)
    return [f"{entry.process} has {entry.path} open" for entry in opened if entry.number in numbers or entry.path in paths]
