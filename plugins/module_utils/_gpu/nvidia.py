# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""What NVIDIA's driver reports in /proc/driver/nvidia, and nvidia-smi if present."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import re

from . import kernel_log
from .address import canonical_address
from .bounded_command import TimeBudget, find_command, run_bounded
from .entry import add_problem, existing_files, fill
from .health import EXCLUDED
from .nvidia_smi import Unreadable, named, outside_document, parse_document, parse_list, unlisted, without_processes
from .pci import list_directory, read_text, under

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7

    from .bounded_command import CommandResult

# Processes that serve the GPUs and let go of them when nvidia-smi asks them to. The kernel keeps 15 letters of a name.
SERVANTS = ("nvidia-persiste", "nv-fabricmanage")
# And those that watch them. They have the GPUs open for good, and do not compute.
WATCHERS = SERVANTS + ("nv-hostengine", "dcgm-exporter")

# What the decoder put in the place of bytes that are not UTF-8; written so that Python 2 takes it for text too.
_REPLACED = b"\xef\xbf\xbd".decode("utf-8")
_VERSION = r"(\d+(?:\.\d+)+)"
# No failing command needs more characters to say why.
_MAXIMUM_MESSAGES = 20000

# Return values as in the manual page of nvidia-smi.
_RETURN_VALUES = {
    4: "no permission",
    6: "a query was not successful",
    8: "external power cables are not attached",
    9: "the driver is not loaded",
    10: "the kernel found an interrupt problem with a GPU",
    12: "the NVML library was not found",
    14: "the infoROM is corrupted",
    15: "the GPU has fallen off the bus",
}


def read(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    """Add what NVIDIA's driver and nvidia-smi report to a host's NVIDIA entries."""
    for entry in entries:
        if entry["driver"] == "nvidia":
            entry["_files"] = []  # jobs use the driver's own files, not those that sysfs names
    served = [entry for entry in entries if entry["vendor"] == "nvidia" and entry["driver"] in ("nvidia", None)]
    if not served or not (is_loaded(root) or any(entry["driver"] == "nvidia" for entry in served)):
        return
    version = kernel_module_version(root)
    information = proc_information(root)
    answer = query_smi(budget)
    logged = {}  # type: dict[str, str]
    if answer["gpus"] or kernel_log.counts_alone(version):
        logged = kernel_log.problems(kernel_log.read(under(root, kernel_log.PATH)) or [], answer["gpus"])
    for entry in served:
        in_proc = information.get(entry["pci_address"], {})
        fill(entry, in_proc, ("model", "uuid"))
        if entry["driver"] == "nvidia":
            entry["driver_version"] = version
        entry["library_version"] = answer["library_version"]
        if in_proc.get("excluded"):
            add_problem(entry, "excluded", EXCLUDED)
        else:
            _add_health(entry, answer, version)
        facts = answer["gpus"].get(entry["pci_address"])
        minor = in_proc.get("minor")
        # What a driver that knows it says counts more: the log still has what a reset has mended.
        if entry["pci_address"] in logged and not (facts and facts["says_recovery"]):
            add_problem(entry, "driver_error", logged[entry["pci_address"]])
        if facts:
            minor = facts["minor"] if minor is None else minor
            _add_smi_facts(root, entry, facts, minor)
        if entry["driver"] == "nvidia" and minor is not None:
            entry["_files"] = ["/dev/nvidia%d" % minor]


def kernel_module_version(root):
    # type: (str) -> str | None
    """The version of the loaded kernel module, such as '535.183.01'."""
    match = re.search(r"NVRM version:.*?\s" + _VERSION + r"\s", (read_text(under(root, "/proc/driver/nvidia/version")) or "") + "\n")
    return match.group(1) if match else read_text(under(root, "/sys/module/nvidia/version"))


def proc_information(root):
    # type: (str) -> dict[str, dict[str, Any]]
    """Return what the kernel module reports of each GPU it serves, by PCI address.

    The keys are model, uuid and minor, each maybe None, and excluded (bool).
    """
    directory = under(root, "/proc/driver/nvidia/gpus")
    found = {}
    for name in list_directory(directory):
        address = canonical_address(name)
        if address:
            lines = (read_text(os.path.join(directory, name, "information")) or "").splitlines()
            values = {key.strip(): value.strip() for key, _colon, value in (line.partition(":") for line in lines)}
            minor = values.get("Device Minor", "")
            uuid = values.get("GPU UUID", "")
            found[address] = {
                "model": values.get("Model") or None,
                "uuid": uuid if re.match(r"GPU-[0-9a-f-]+\Z", uuid) else None,  # question marks until it is first used
                "minor": int(minor) if minor.isdigit() else None,
                "excluded": values.get("GPU Excluded") == "Yes",
            }
    return found


def is_loaded(root):
    # type: (str) -> bool
    """Whether NVIDIA's kernel module is loaded."""
    return os.path.isdir(under(root, "/sys/module/nvidia")) or os.path.isdir(under(root, "/proc/driver/nvidia"))


def query_smi(budget):
    # type: (TimeBudget) -> dict[str, Any]
    """Ask nvidia-smi, from PATH, within *budget*.

    :returns: library_version (None if not known), gpus (facts by PCI address, see :func:`parse_document`), text (what it printed) and
        problems: a list of (problem, sentence part, address or None for all GPUs).
    """
    answer = {"library_version": None, "gpus": {}, "problems": [], "text": ""}  # type: dict[str, Any]
    command = find_command("nvidia-smi")
    if not command:
        return answer
    result = run_bounded([command, "-q", "-x"], budget)
    text, said = result.stdout.decode("utf-8", "replace"), result.stderr.decode("utf-8", "replace")
    answer["text"] = text + said
    messages = (said + "\n" + outside_document(text))[:_MAXIMUM_MESSAGES]
    if result.timed_out:
        answer["problems"].append(("nvidia_smi_timeout", "nvidia-smi gave no answer within %g seconds" % budget.seconds, None))
        return answer
    mismatch = re.search(r"library version mismatch", messages, re.IGNORECASE)
    if mismatch:
        version = re.search(r"NVML library version:\s*" + _VERSION, messages)
        answer["library_version"] = version.group(1) if version else None
        library = "the NVML library " + version.group(1) if version else "the NVML library"
        answer["problems"].append(("driver_mismatch", library + " does not fit the loaded kernel module", None))
        return answer
    try:
        answer["library_version"], answer["gpus"] = parse_document(text)
    except Unreadable as error:
        if result.rc == 0:
            answer["problems"].append(("nvidia_smi_unreadable", "the answer of nvidia-smi is unreadable: %s" % error, None))
    else:
        if _REPLACED in without_processes(text):
            answer["problems"].append(("nvidia_smi_warning", "the answer of nvidia-smi is not UTF-8, wrong bytes were replaced", None))
        if any(gpu["mig_enabled"] and gpu["mig_devices"] for gpu in answer["gpus"].values()):
            _name_mig_devices(answer["gpus"], command, budget, answer["problems"])
    if result.rc != 0:
        answer["problems"].extend(_failures(result, messages, answer["gpus"]))
    return answer


def capability_files(root, minor, gpu_instance, compute_instance):
    # type: (str, int, int, int) -> list[str]
    """Return the two files under /dev/nvidia-caps that give access to a MIG device.

    A file that the kernel module does not name is left out.
    """
    instance = "/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d" % (minor, gpu_instance)
    files = []
    for access in (instance + "/access", "%s/ci%d/access" % (instance, compute_instance)):
        match = re.search(r"DeviceFileMinor:\s*(\d+)", read_text(under(root, access)) or "")
        if match:
            files.append("/dev/nvidia-caps/nvidia-cap" + match.group(1))
    return files


def device_files(root, address):
    # type: (str, str) -> list[str]
    """The file of a GPU that the kernel module serves, which sysfs does not name."""
    minor = proc_information(root).get(address, {}).get("minor")
    return ["/dev/nvidia%d" % minor] if minor is not None else []


def _add_health(entry, answer, version):
    # type: (dict[str, Any], dict[str, Any], str | None) -> None
    for problem, reason, address in answer["problems"]:
        if address in (None, entry["pci_address"]):
            if problem == "driver_mismatch" and version:
                reason += " " + version
            add_problem(entry, problem, reason)
    library = answer["library_version"]
    if version and library and version != library and not answer["problems"]:
        add_problem(entry, "driver_mismatch", "the NVML library %s does not fit the loaded kernel module %s" % (library, version))
    missing = unlisted(entry["pci_address"], answer["gpus"], answer["text"])
    if missing and entry["driver"] == "nvidia" and not entry["sriov"]["is_vf"]:
        add_problem(entry, "nvidia_smi_unlisted", missing)


def _add_smi_facts(root, entry, facts, minor):
    # type: (str, dict[str, Any], dict[str, Any], int | None) -> None
    fill(entry, facts, ("model", "uuid", "serial", "memory_mib", "ecc"))
    if facts["display_active"]:
        entry["display_active"] = True
    for problem, reason in facts["problems"]:
        add_problem(entry, problem, reason)
    entry["mig"]["capable"] = facts["mig_capable"]
    entry["mig"]["enabled"] = facts["mig_enabled"]
    for device in facts["mig_devices"] if facts["mig_enabled"] else []:
        entry["mig"]["devices"].append(_mig_entry(root, entry, device, minor))


def _mig_entry(root, entry, device, minor):
    # type: (str, dict[str, Any], dict[str, Any], int | None) -> dict[str, Any]
    files = []  # type: list[str]
    instance, compute_instance = device["gpu_instance_id"], device["compute_instance_id"]
    if minor is not None and instance is not None and compute_instance is not None:
        files = ["/dev/nvidia%d" % minor] + capability_files(root, minor, instance, compute_instance)
    keys = ("uuid", "profile", "gpu_instance_id", "compute_instance_id", "memory_mib")
    return dict([(key, device[key]) for key in keys], device_files=existing_files(root, entry, files))


def _failures(result, messages, listed):
    # type: (CommandResult, str, dict[str, Any]) -> list[tuple[str, str, str | None]]
    meaning = _RETURN_VALUES.get(result.rc)
    lines = [line.strip() for line in messages.splitlines()]
    first_line = next((line for line in lines if line and not line.startswith("<")), "")
    reason = ", ".join(part for part in (meaning, first_line and "it says: " + first_line.rstrip(".")) if part)
    failed = "nvidia-smi failed with return value %s%s" % (result.rc, " (%s)" % reason if reason else "")
    about = named(messages, result.rc, listed)
    # A warning about one GPU (return value 14) comes with a full answer about all of them.
    if about and result.rc == 14:
        return about
    return about + [("nvidia_smi_warning" if listed else "nvidia_smi_failed", failed, None)]


def _name_mig_devices(gpus, command, budget, problems):
    # type: (dict[str, dict[str, Any]], str, TimeBudget, list[tuple[str, str, str | None]]) -> None
    """Profile and uuid are not in the XML document, only in the list."""
    result = run_bounded([command, "-L"], budget)
    if result.timed_out:
        problems.append(("nvidia_smi_warning", "nvidia-smi -L gave no answer within %g seconds for all" % budget.seconds, None))
    elif result.rc != 0:
        problems.append(("nvidia_smi_warning", "nvidia-smi -L failed with return value %s" % result.rc, None))
    names = parse_list(result.stdout.decode("utf-8", "replace"))
    for gpu in gpus.values():
        for device in gpu["mig_devices"]:
            device["profile"], device["uuid"] = names.get((gpu["uuid"], device["index"]), (None, None))
