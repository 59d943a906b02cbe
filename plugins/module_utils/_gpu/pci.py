# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""What the kernel reports about PCI devices in sysfs.

Any user can read it, before any driver is installed.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import io
import os
import re

from .address import canonical_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7

PCI_IDS_PATHS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")

# sysfs files hold one page; what is longer than this is not what we look for.
_MAXIMUM_TEXT_BYTES = 65536

# Transfer rate in GT/s -> PCI Express generation (PCI Express Base Specification 6.0).
_GENERATION_BY_RATE = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16": 4, "16.0": 4, "32": 5, "32.0": 5, "64": 6, "64.0": 6}


def under(root, path):
    # type: (str, str) -> str
    """The place of the absolute *path* below the prefix *root*."""
    return os.path.join(root, path.lstrip("/"))


def full_address(text):
    # type: (str) -> str
    """Return the canonical address of one that lspci printed; other text as it is.

    lspci leaves the domain out where there is only one.
    """
    short = re.match(r"[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\Z", text)
    return canonical_address("0000:" + text if short else text) or text


def address_key(address):
    # type: (str) -> tuple[int, ...]
    """Orders addresses by number: 'ffff:..' comes before '10000:..'."""
    return tuple(int(part, 16) for part in re.split(r"[:.]", address))


def read_text(path):
    # type: (str) -> str | None
    """Return the text of a small file without the white space around it.

    None means that the file is absent, unreadable or binary.
    """
    try:
        with io.open(path, "rb") as stream:
            content = stream.read(_MAXIMUM_TEXT_BYTES)
        return content.decode("utf-8").strip()
    except (EnvironmentError, UnicodeDecodeError):
        return None


def read_integer(path, base=10):
    # type: (str, int) -> int | None
    """The number in a file, or None."""
    try:
        return int(read_text(path) or "", base)
    except ValueError:
        return None


def list_directory(path):
    # type: (str) -> list[str]
    """The sorted names in a directory, none if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except EnvironmentError:
        return []


def link_name(path):
    # type: (str) -> str | None
    """The last component of a symbolic link's target, or None."""
    try:
        return os.path.basename(os.readlink(path)) or None
    except EnvironmentError:
        return None


def read_ids(root):
    # type: (str) -> list[dict[str, str | None]]
    """Return the ids of every PCI device under *root*, in order of address.

    The keys are pci_address, class, vendor_id, device_id and subsystem_id.
    The hexadecimal digits are in lower case, without '0x'. A device whose class cannot be found out is left out.
    """
    directory = under(root, "/sys/bus/pci/devices")
    addresses = [name for name in list_directory(directory) if canonical_address(name) == name]
    found = []
    for address in sorted(addresses, key=address_key):
        ids = _ids(os.path.join(directory, address))
        if ids["class"]:
            found.append(dict(ids, pci_address=address))
    return found


def read_placement(root, address):
    # type: (str, str) -> dict[str, Any]
    """Return the facts of one device that need no driver.

    They are driver, numa_node, local_cpus, pcie, iommu_group, iommu_group_peers, sriov, boot_vga (bool or None)
    and lost (config space reads all ones).
    """
    device = under(root, "/sys/bus/pci/devices/" + address)
    numa_node = read_integer(os.path.join(device, "numa_node"))
    group = link_name(os.path.join(device, "iommu_group"))
    boot_vga = read_text(os.path.join(device, "boot_vga"))
    return {
        "driver": link_name(os.path.join(device, "driver")),
        "numa_node": numa_node if numa_node is not None and numa_node >= 0 else None,  # -1: the firmware does not say
        "local_cpus": _cpu_list(read_text(os.path.join(device, "local_cpulist"))),
        "pcie": {
            "gen": _generation(read_text(os.path.join(device, "current_link_speed"))),
            "width": read_integer(os.path.join(device, "current_link_width")) or None,  # 0: no link
        },
        "iommu_group": int(group) if group and group.isdigit() else None,
        "iommu_group_peers": _group_peers(device, address) if group else None,
        "sriov": {
            "total_vfs": read_integer(os.path.join(device, "sriov_totalvfs")),
            "num_vfs": read_integer(os.path.join(device, "sriov_numvfs")),
            "is_vf": os.path.lexists(os.path.join(device, "physfn")),
        },
        "boot_vga": {"0": False, "1": True}.get(boot_vga or ""),
        "lost": _reads_all_ones(os.path.join(device, "config")),
    }


def pci_ids_names(wanted, paths=PCI_IDS_PATHS):
    # type: (list[tuple[str, str]], tuple[str, ...]) -> dict[tuple[str, str], str]
    """Return the names that pci.ids has for the (vendor_id, device_id) pairs *wanted*.

    The first readable file of *paths* counts.
    The file has 40,000 lines: searching its bytes takes 2 ms, reading it line by line 30 ms.
    """
    content = b""
    for path in paths if wanted else ():
        try:
            with io.open(path, "rb") as stream:
                content = b"\n" + stream.read()
            break
        except EnvironmentError:
            continue
    names = {}  # type: dict[tuple[str, str], str]
    for vendor_id, device_id in set(wanted):
        start = content.find(("\n%s  " % vendor_id).encode("ascii"))
        if start < 0:
            continue
        next_vendor = re.compile(b"\n[0-9A-Za-z]").search(content, start + 1)
        end = next_vendor.start() if next_vendor else len(content)
        match = re.compile(("\n\t%s  ([^\n]+)" % device_id).encode("ascii")).search(content, start, end)
        if match:
            names[(vendor_id, device_id)] = match.group(1).decode("utf-8", "replace").strip()
    return names


def marketing_name(pci_ids_name):
    # type: (str) -> str
    """'GA100 [A100 SXM4 80GB]', as pci.ids has it, is sold as 'A100 SXM4 80GB'."""
    match = re.search(r"\[([^\]]+)\]", pci_ids_name)
    return match.group(1) if match else pci_ids_name


def _ids(device):
    # type: (str) -> dict[str, str | None]
    class_ = _hexadecimal(read_text(os.path.join(device, "class")), 6)
    if class_ and class_[:2] not in ("03", "0b", "12"):
        # Most devices of a server are not accelerators: one file read is enough for them.
        return {"class": class_, "vendor_id": None, "device_id": None, "subsystem_id": None}
    vendor = _hexadecimal(read_text(os.path.join(device, "vendor")), 4)
    device_id = _hexadecimal(read_text(os.path.join(device, "device")), 4)
    subsystem_vendor = _hexadecimal(read_text(os.path.join(device, "subsystem_vendor")), 4)
    subsystem_device = _hexadecimal(read_text(os.path.join(device, "subsystem_device")), 4)
    subsystem = "%s:%s" % (subsystem_vendor, subsystem_device) if subsystem_vendor and subsystem_device else None
    if not (class_ and vendor and device_id):
        uevent = dict(line.split("=", 1) for line in (read_text(os.path.join(device, "uevent")) or "").splitlines() if "=" in line)
        pair = uevent.get("PCI_ID", "").split(":")
        class_ = class_ or _hexadecimal(uevent.get("PCI_CLASS"), 6)
        if len(pair) == 2:
            vendor = vendor or _hexadecimal(pair[0], 4)
            device_id = device_id or _hexadecimal(pair[1], 4)
    return {"class": class_, "vendor_id": vendor, "device_id": device_id, "subsystem_id": subsystem}


def _hexadecimal(text, digits):
    # type: (str | None, int) -> str | None
    match = re.match(r"(?:0x)?([0-9a-fA-F]{1,8})\Z", text or "")
    return match.group(1).lower().zfill(digits)[-digits:] if match else None


def _cpu_list(text):
    # type: (str | None) -> str | None
    return text if text and re.match(r"[0-9,-]+\Z", text) else None


def _generation(speed):
    # type: (str | None) -> int | None
    # "16.0 GT/s PCIe", "8 GT/s" with an older kernel, "Unknown" without a link
    return _GENERATION_BY_RATE.get((speed or "").split(" ")[0])


def _group_peers(device, address):
    # type: (str, str) -> list[str]
    names = list_directory(os.path.join(device, "iommu_group", "devices"))
    return sorted((name for name in names if canonical_address(name) == name and name != address), key=address_key)


def _reads_all_ones(config):
    # type: (str) -> bool
    """A device that no longer answers on the bus reads as ones.

    The id files of sysfs keep what was true at boot.
    """
    try:
        with io.open(config, "rb") as stream:
            return stream.read(4) == b"\xff\xff\xff\xff"
    except EnvironmentError:
        return False
