# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""The accelerator model: one dict per device, the same keys for every device.

This module assembles it. An absent fact has the value None.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import re

from . import vendors as known_vendors
from .bounded_command import TimeBudget
from .entry import add_problem, existing_files
from .names import short_type
from .pci import (
    PCI_IDS_PATHS,
    list_directory,
    marketing_name,
    pci_ids_names,
    read_ids,
    read_placement,
    read_text,
    under,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7


def kind_of(ids):
    # type: (dict[str, str | None]) -> str | None
    """Return gpu, accelerator or console; None for any other device.

    A GPU's audio function is such another device.

    - gpu: a display controller (PCI class 03) that can compute by its vendor's record: graphics that is part of a CPU
      is a console. Also a processing accelerator (class 12) that is known as a GPU, such as an MI300X.
    - accelerator: any other processing accelerator (class 12), or co-processor (class 0b40) unless its vendor's do not compute.
    - console: any other display controller: ASPEED, Matrox, Cirrus, virtio, QXL, Bochs, VMware ...
    """
    class_ = ids["class"] or ""
    vendor = known_vendors.by_id(ids["vendor_id"])
    if class_.startswith(("03", "12")) and vendor and vendor.makes_gpu(ids["device_id"] or ""):
        return "gpu"
    if class_.startswith("12") or (class_.startswith("0b40") and (vendor is None or vendor.has_coprocessors)):
        return "accelerator"
    if class_.startswith("03"):
        return "console"
    return None


def compute_gpu_addresses(root):
    # type: (str) -> list[str]
    """The PCI addresses of the compute GPUs that sysfs under *root* shows."""
    return [str(ids["pci_address"]) for ids in read_ids(root) if kind_of(ids) == "gpu"]


def gather(root="/", vendors=None, timeout=10.0, pci_ids_paths=PCI_IDS_PATHS):
    # type: (str, tuple[str, ...] | None, float, tuple[str, ...]) -> list[dict[str, Any]]
    """The accelerators of a host, in the order of their PCI addresses.

    :param root: prefix of /sys, /proc and /dev.
    :param vendors: only devices of these vendors are listed; None: of all.
    :param timeout: seconds that all commands together may take.
    """
    devices = [ids for ids in read_ids(root) if kind_of(ids) and (vendors is None or known_vendors.name_of(ids["vendor_id"]) in vendors)]
    names = pci_ids_names([(ids["vendor_id"] or "", ids["device_id"] or "") for ids in devices], pci_ids_paths)
    entries = []
    for ids in devices:
        name = names.get((ids["vendor_id"] or "", ids["device_id"] or ""))
        entries.append(_entry(root, ids, marketing_name(name) if name else None))
    budget = TimeBudget(timeout)
    for vendor in known_vendors.VENDORS:
        vendor.read(root, entries, budget)
    for index, entry in enumerate(entries):
        entry["index"] = index
        entry["type"] = short_type(entry["vendor_id"], entry["device_id"], entry["model"])
        _add_device_files(root, entry)
        del entry["_files"]
    _find_shared_files(entries)
    return entries


def _find_shared_files(entries):
    # type: (list[dict[str, Any]]) -> None
    """Keep devices that have one file from jobs.

    They can't be confined. The others of the host are for jobs.
    """
    owners = {}  # type: dict[str, list[dict[str, Any]]]
    for entry in entries:
        # Devices of one IOMMU group have one file for virtual machines.
        if entry["kind"] != "console" and entry["driver"] != "vfio-pci" and entry["device_files"]:
            owners.setdefault(entry["device_files"][0], []).append(entry)
    for path, shared in owners.items():
        for entry in shared if len(shared) > 1 else []:
            others = [other["pci_address"] for other in shared if other is not entry]
            add_problem(entry, "device_file_shared", "its file %s is that of %s, too" % (path, " and ".join(others)))


def _entry(root, ids, model):
    # type: (str, dict[str, Any], str | None) -> dict[str, Any]
    """Facts that sysfs has without any vendor's program."""
    placement = read_placement(root, ids["pci_address"])
    driver = placement["driver"]
    entry = {
        "kind": kind_of(ids),
        "index": None,
        "pci_address": ids["pci_address"],
        "class": ids["class"],
        "vendor_id": ids["vendor_id"],
        "device_id": ids["device_id"],
        "subsystem_id": ids["subsystem_id"],
        "vendor": known_vendors.name_of(ids["vendor_id"]),
        "model": model,
        "type": None,
        "memory_mib": None,
        "uuid": None,
        "serial": None,
        "driver": driver,
        "driver_version": read_text(under(root, "/sys/module/%s/version" % driver.replace("-", "_"))) if driver else None,
        "library_version": None,
        "device_files": [],
        "numa_node": placement["numa_node"],
        "local_cpus": placement["local_cpus"],
        "pcie": placement["pcie"],
        "iommu_group": placement["iommu_group"],
        "iommu_group_peers": placement["iommu_group_peers"],
        "sriov": placement["sriov"],
        "mig": {"capable": None, "enabled": None, "devices": []},
        "display_active": placement["boot_vga"],
        "ecc": None,
        "health": [],
        "_files": None,  # what a vendor's reader knows better than sysfs, for _add_device_files
    }
    if placement["lost"]:
        add_problem(entry, "fallen_off_bus", "its PCI configuration space reads all ones")
    return entry


def _add_device_files(root, entry):
    # type: (str, dict[str, Any]) -> None
    """Add the files through which a process uses the device.

    The one that schedulers confine comes first.
    """
    device = under(root, "/sys/bus/pci/devices/" + entry["pci_address"])
    if entry["_files"] is not None:
        files = entry["_files"]
    elif entry["driver"] == "vfio-pci":
        files = ["/dev/vfio/%d" % entry["iommu_group"]] if entry["iommu_group"] is not None else []
    else:
        drm = list_directory(os.path.join(device, "drm"))
        files = ["/dev/dri/" + name for name in drm if name.startswith("renderD")]
        files += ["/dev/dri/" + name for name in drm if re.match(r"card\d+\Z", name)]
        files += ["/dev/accel/" + name for name in list_directory(os.path.join(device, "accel"))]
    entry["device_files"] = existing_files(root, entry, files)
