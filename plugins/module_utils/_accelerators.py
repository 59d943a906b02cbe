# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""Assembles the accelerator model: one dict per device, the same keys for every device, None where a fact is absent."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import re

from ansible_collections.deephdc.accelerators.plugins.module_utils import _amd, _intel, _nvidia
from ansible_collections.deephdc.accelerators.plugins.module_utils._bounded_command import TimeBudget
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu_names import (
    AMD,
    INTEL,
    NVIDIA,
    TYPES_BY_ID,
    VENDORS,
    marketing_name,
    short_type,
)
from ansible_collections.deephdc.accelerators.plugins.module_utils._pci import (
    PCI_IDS_PATHS,
    list_directory,
    pci_ids_names,
    read_ids,
    read_placement,
    read_text,
    under,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7

# Intel's graphics with memory of its own: DG1, Alchemist and Flex, Ponte Vecchio (Max), Battlemage. All others are part of a CPU.
_INTEL_COMPUTE_IDS = re.compile(r"(490[5-9]|56[0-9a-f]{2}|0bd[0-9a-f]|0b69|e2[0-9a-f]{2})\Z")

# AMD's cards since GCN 2: Vega 20; Hawaii and Polaris; Vega 10; Tonga; Vega 12; Polaris 20; Fiji, Navi and all Instinct since MI100.
# What lies between is Radeon HD 5000 to 8000 and older, too old to compute with, and mostly the console of a server;
# what is named here otherwise (13xx, 15xx, 16xx, 19xx, 98xx, 99xx) is part of a CPU.
_AMD_COMPUTE_IDS = re.compile(r"(66a[0-9a-f]|67[a-f][0-9a-f]|68[67][0-9a-f]|69[23a][0-9a-f]|6fdf|7[3-7][0-9a-f]{2})\Z")

PROBLEMS = (
    "driver_mismatch",
    "fallen_off_bus",
    "nvidia_smi_timeout",
    "nvidia_smi_failed",
    "nvidia_smi_unlisted",
    "nvidia_smi_unreadable",
    "rocm_smi_timeout",
    "rocm_smi_failed",
    "rocm_smi_unreadable",
    "device_file_missing",
    "ecc_errors",
)


def kind_of(ids):
    # type: (dict[str, str | None]) -> str | None
    """gpu, accelerator or console; None for a device that is none of them, such as a GPU's audio function.

    - gpu: a display controller (PCI class 03) of NVIDIA, or of AMD or Intel if it is a card: graphics that is part of a CPU
      is a console. Also a processing accelerator (class 12) that is known as a GPU, such as an MI300X.
    - accelerator: any other processing accelerator (class 12) or co-processor (class 0b40), but Intel's, which are QuickAssist:
      they encrypt and compress.
    - console: any other display controller: ASPEED, Matrox, Cirrus, virtio, QXL, Bochs, VMware ...
    """
    class_ = ids["class"] or ""
    vendor_id, device_id = ids["vendor_id"], ids["device_id"] or ""
    if "%s:%s" % (vendor_id, device_id) in TYPES_BY_ID:
        is_compute_gpu = True
    elif vendor_id == INTEL:
        is_compute_gpu = bool(_INTEL_COMPUTE_IDS.match(device_id))
    elif vendor_id == AMD:
        is_compute_gpu = bool(_AMD_COMPUTE_IDS.match(device_id))
    else:
        is_compute_gpu = vendor_id == NVIDIA
    if class_.startswith(("03", "12")) and is_compute_gpu:
        return "gpu"
    if class_.startswith("12") or (class_.startswith("0b40") and vendor_id != INTEL):
        return "accelerator"
    if class_.startswith("03"):
        return "console"
    return None


def compute_gpu_addresses(root):
    # type: (str) -> list[str]
    """The PCI addresses of the compute GPUs that sysfs under *root* shows."""
    return [str(ids["pci_address"]) for ids in read_ids(root) if kind_of(ids) == "gpu"]


def gather(root="/", vendors=("nvidia", "amd", "intel", "other"), timeout=10.0, pci_ids_paths=PCI_IDS_PATHS):
    # type: (str, tuple[str, ...], float, tuple[str, ...]) -> list[dict[str, Any]]
    """The accelerators of a host, in the order of their PCI addresses.

    :param root: prefix of /sys, /proc and /dev.
    :param vendors: only devices of these vendors are listed.
    :param timeout: seconds that all commands together may take.
    """
    devices = [ids for ids in read_ids(root) if kind_of(ids) and VENDORS.get(ids["vendor_id"] or "", "other") in vendors]
    names = pci_ids_names([(ids["vendor_id"] or "", ids["device_id"] or "") for ids in devices], pci_ids_paths)
    entries = []
    for ids in devices:
        name = names.get((ids["vendor_id"] or "", ids["device_id"] or ""))
        entries.append(_entry(root, ids, marketing_name(name) if name else None))
    budget = TimeBudget(timeout)
    _add_nvidia(root, [entry for entry in entries if entry["vendor"] == "nvidia"], budget)
    _add_amd(root, [entry for entry in entries if entry["driver"] == "amdgpu"], budget)
    for index, entry in enumerate(entries):
        entry["index"] = index
        entry["type"] = short_type(entry["vendor_id"], entry["device_id"], entry["model"])
        _add_device_files(root, entry)
        del entry["_minor"]
    return entries


def _entry(root, ids, model):
    # type: (str, dict[str, Any], str | None) -> dict[str, Any]
    """What sysfs tells without any vendor's help."""
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
        "vendor": VENDORS.get(ids["vendor_id"], "other"),
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
        "_minor": None,
    }
    if placement["lost"]:
        _add_problem(entry, "fallen_off_bus", "its PCI configuration space reads all ones")
    if driver in ("i915", "xe"):
        entry["memory_mib"] = _intel.memory_mib(root, ids["pci_address"])
    return entry


def _add_problem(entry, problem, reason):
    # type: (dict[str, Any], str, str) -> None
    """One entry per problem of a device: the first that is found says it best."""
    if problem not in [known["problem"] for known in entry["health"]]:
        entry["health"].append({"problem": problem, "message": "%s: %s." % (entry["pci_address"], reason)})


def _fill(entry, facts, keys):
    # type: (dict[str, Any], dict[str, Any], tuple[str, ...]) -> None
    for key in keys:
        if facts.get(key) is not None:
            entry[key] = facts[key]


def _add_nvidia(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    served = [entry for entry in entries if entry["driver"] in ("nvidia", None)]
    if not served or not (_nvidia.is_loaded(root) or any(entry["driver"] == "nvidia" for entry in served)):
        return
    version = _nvidia.kernel_module_version(root)
    information = _nvidia.proc_information(root)
    answer = _nvidia.query_smi(budget)
    for entry in served:
        told = information.get(entry["pci_address"], {})
        entry["_minor"] = told.get("minor")
        _fill(entry, told, ("model", "uuid"))
        if entry["driver"] == "nvidia":
            entry["driver_version"] = version
        entry["library_version"] = answer["library_version"]
        _add_nvidia_health(entry, answer, version)
        facts = answer["gpus"].get(entry["pci_address"])
        if facts:
            _add_smi_facts(root, entry, facts)


def _add_nvidia_health(entry, answer, version):
    # type: (dict[str, Any], dict[str, Any], str | None) -> None
    for problem, reason, address in answer["problems"]:
        if address in (None, entry["pci_address"]):
            if problem == "driver_mismatch" and version:
                reason += " " + version
            _add_problem(entry, problem, reason)
    library = answer["library_version"]
    if version and library and version != library and not answer["problems"]:
        _add_problem(entry, "driver_mismatch", "the NVML library %s does not fit the loaded kernel module %s" % (library, version))
    is_missing = answer["gpus"] and entry["pci_address"] not in answer["gpus"]
    if is_missing and entry["driver"] == "nvidia" and not entry["sriov"]["is_vf"]:
        _add_problem(entry, "nvidia_smi_unlisted", "nvidia-smi does not list it though the driver nvidia is bound to it")


def _add_smi_facts(root, entry, facts):
    # type: (str, dict[str, Any], dict[str, Any]) -> None
    _fill(entry, facts, ("model", "uuid", "serial", "memory_mib", "ecc"))
    if entry["_minor"] is None:
        entry["_minor"] = facts["minor"]
    if facts["display_active"]:
        entry["display_active"] = True
    if facts["lost"]:
        _add_problem(entry, "fallen_off_bus", "nvidia-smi says that it is lost")
    if facts["reset"]:
        _add_problem(entry, "reset_required", facts["reset"])
    for reason in facts["ecc_problems"]:
        _add_problem(entry, "ecc_errors", reason)
    entry["mig"]["capable"] = facts["mig_capable"]
    entry["mig"]["enabled"] = facts["mig_enabled"]
    for device in facts["mig_devices"] if facts["mig_enabled"] else []:
        entry["mig"]["devices"].append(_mig_device(root, entry, device))


def _mig_device(root, entry, device):
    # type: (str, dict[str, Any], dict[str, Any]) -> dict[str, Any]
    files = []  # type: list[str]
    minor, instance, compute_instance = entry["_minor"], device["gpu_instance_id"], device["compute_instance_id"]
    if minor is not None and instance is not None and compute_instance is not None:
        files = ["/dev/nvidia%d" % minor] + _nvidia.capability_files(root, minor, instance, compute_instance)
    keys = ("uuid", "profile", "gpu_instance_id", "compute_instance_id", "memory_mib")
    return dict([(key, device[key]) for key in keys], device_files=_existing(root, entry, files))


def _add_amd(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    keys = ("model", "uuid", "serial", "memory_mib")
    told = {entry["pci_address"]: _amd.read_sysfs(root, entry["pci_address"]) for entry in entries}
    gpus = [entry for entry in entries if entry["kind"] == "gpu"]
    # rocm-smi takes a second and reads the same sysfs: it is only asked for what is not found there.
    is_incomplete = any(told[entry["pci_address"]][key] is None for entry in gpus for key in keys)
    answer = _amd.query_smi(budget) if is_incomplete else {"gpus": {}, "problems": []}
    for entry in gpus:
        entry["library_version"] = _amd.rocm_version()
        entry["mig"].update(capable=False, enabled=False)
        _fill(entry, answer["gpus"].get(entry["pci_address"], {}), keys)
        _fill(entry, told[entry["pci_address"]], keys)
        for problem, reason in answer["problems"]:
            _add_problem(entry, problem, reason)
        for reason in told[entry["pci_address"]]["ecc_problems"]:
            _add_problem(entry, "ecc_errors", reason)


def _add_device_files(root, entry):
    # type: (str, dict[str, Any]) -> None
    """The files through which a process uses the device, the one that schedulers confine first."""
    device = under(root, "/sys/bus/pci/devices/" + entry["pci_address"])
    if entry["driver"] == "nvidia":
        files = ["/dev/nvidia%d" % entry["_minor"]] if entry["_minor"] is not None else []
    elif entry["driver"] == "vfio-pci":
        files = ["/dev/vfio/%d" % entry["iommu_group"]] if entry["iommu_group"] is not None else []
    else:
        drm = list_directory(os.path.join(device, "drm"))
        files = ["/dev/dri/" + name for name in drm if name.startswith("renderD")]
        files += ["/dev/dri/" + name for name in drm if re.match(r"card\d+\Z", name)]
        files += ["/dev/accel/" + name for name in list_directory(os.path.join(device, "accel"))]
    entry["device_files"] = _existing(root, entry, files)


def _existing(root, entry, files):
    # type: (str, dict[str, Any], list[str]) -> list[str]
    missing = [path for path in files if not os.path.exists(under(root, path))]
    if missing and entry["kind"] != "console":
        verb = "is missing" if len(missing) == 1 else "are missing"
        _add_problem(entry, "device_file_missing", "%s %s though its driver names it" % (" and ".join(missing), verb))
    return [path for path in files if path not in missing]
