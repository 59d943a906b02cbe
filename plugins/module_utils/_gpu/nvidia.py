# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""What NVIDIA's driver tells: /proc/driver/nvidia, and nvidia-smi where it is installed.

The form of the documents is that of nvidia-smi -q -x, schemas v10 (driver 450) to v13 (driver 595).
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import re
from xml.etree import ElementTree

from .bounded_command import TimeBudget, find_command, run_bounded
from .entry import add_problem, existing_files, fill
from .pci import (
    canonical_address,
    list_directory,
    read_text,
    under,
)

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
_ANY_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_LOST = re.compile(r"GPU is lost|Unknown Error|fallen off the bus", re.IGNORECASE)
_RESET = re.compile(r"GPU requires reset", re.IGNORECASE)

# What nvidia-smi writes in the place of a value that it does not have.
_NO_VALUE = re.compile(
    r"(\[?N/A\]?|None|ERR!|\[?Not Supported\]?|\[?Unknown Error\]?|GPU is lost.*|\[?GPU requires reset\]?"
    r"|Requested functionality has been deprecated|\[?Insufficient Permissions\]?)?\Z",
    re.IGNORECASE,
)

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


class Unreadable(Exception):
    """A document that is not what nvidia-smi writes."""


def read(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    """Add what NVIDIA's driver and nvidia-smi report to those of a host's entries that are NVIDIA's."""
    for entry in entries:
        if entry["driver"] == "nvidia":
            entry["_files"] = []  # jobs use the driver's own files, not those that sysfs names
    served = [entry for entry in entries if entry["vendor"] == "nvidia" and entry["driver"] in ("nvidia", None)]
    if not served or not (is_loaded(root) or any(entry["driver"] == "nvidia" for entry in served)):
        return
    version = kernel_module_version(root)
    information = proc_information(root)
    answer = query_smi(budget)
    for entry in served:
        in_proc = information.get(entry["pci_address"], {})
        fill(entry, in_proc, ("model", "uuid"))
        if entry["driver"] == "nvidia":
            entry["driver_version"] = version
        entry["library_version"] = answer["library_version"]
        _add_health(entry, answer, version)
        facts = answer["gpus"].get(entry["pci_address"])
        minor = in_proc.get("minor")
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
    """model, uuid and minor (each maybe None) of every GPU that the kernel module serves, by PCI address."""
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
            }
    return found


def is_loaded(root):
    # type: (str) -> bool
    """Whether NVIDIA's kernel module is loaded."""
    return os.path.isdir(under(root, "/sys/module/nvidia")) or os.path.isdir(under(root, "/proc/driver/nvidia"))


def query_smi(budget):
    # type: (TimeBudget) -> dict[str, Any]
    """Ask nvidia-smi, from PATH, within *budget*.

    :returns: library_version (None if not known), gpus (facts by PCI address, see :func:`parse_document`) and
        problems: a list of (problem, sentence part, address or None for all GPUs).
    """
    answer = {"library_version": None, "gpus": {}, "problems": []}  # type: dict[str, Any]
    command = find_command("nvidia-smi")
    if not command:
        return answer
    result = run_bounded([command, "-q", "-x"], budget)
    text = result.stdout.decode("utf-8", "replace")
    messages = (result.stderr.decode("utf-8", "replace") + "\n" + _outside_document(text))[:_MAXIMUM_MESSAGES]
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
        if _REPLACED in text:
            answer["problems"].append(("nvidia_smi_unreadable", "the answer of nvidia-smi is not UTF-8, wrong bytes were replaced", None))
        if any(gpu["mig_enabled"] and gpu["mig_devices"] for gpu in answer["gpus"].values()):
            _name_mig_devices(answer["gpus"], command, budget, answer["problems"])
    if result.rc != 0:
        answer["problems"].extend(_failures(result, messages))
    return answer


def parse_document(text):
    # type: (str) -> tuple[str | None, dict[str, dict[str, Any]]]
    """Read the output of nvidia-smi -q -x.

    NVML refuses to work with a kernel module of another version, so the version in an answer is also the library's.

    :returns: the version, and by PCI address: model, uuid, serial, minor, memory_mib, ecc (bool), mig_capable, mig_enabled,
        mig_devices, display_active, lost (bool), ecc_problems (list of sentence parts) and reset (why it needs one, a sentence part);
        None where it says nothing.
    :raises Unreadable: if it is not a complete document.
    """
    start, end = _document_bounds(text)
    if start < 0:
        raise Unreadable("it is empty" if not text.strip() else "it is not XML")
    if end < 0:
        raise Unreadable("it is truncated")
    try:
        log = ElementTree.fromstring(text[start:end].encode("utf-8"))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise Unreadable(str(error))
    gpus = {}
    for gpu in log.findall("gpu"):
        address = canonical_address(gpu.get("id") or gpu.findtext("pci/pci_bus_id") or "")
        if address:
            gpus[address] = _gpu_facts(gpu)
    return _value(log, "driver_version"), gpus


def parse_list(text):
    # type: (str) -> dict[tuple[str, int], tuple[str, str]]
    """Profile and uuid of MIG devices from nvidia-smi -L, by the uuid of their GPU and their index on it."""
    found = {}
    gpu_uuid = ""
    for line in text.splitlines():
        gpu = re.match(r"GPU \d+:.*\(UUID: (GPU-[^)]+)\)", line)
        if gpu:
            gpu_uuid = gpu.group(1)
        device = re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)", line)
        if device:
            found[(gpu_uuid, int(device.group(2)))] = (device.group(1), device.group(3))
    return found


def capability_files(root, minor, gpu_instance, compute_instance):
    # type: (str, int, int, int) -> list[str]
    """The two files under /dev/nvidia-caps that give access to a MIG device, as far as the kernel module names them."""
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
    is_missing = answer["gpus"] and entry["pci_address"] not in answer["gpus"]
    if is_missing and entry["driver"] == "nvidia" and not entry["sriov"]["is_vf"]:
        add_problem(entry, "nvidia_smi_unlisted", "nvidia-smi does not list it though the driver nvidia is bound to it")


def _add_smi_facts(root, entry, facts, minor):
    # type: (str, dict[str, Any], dict[str, Any], int | None) -> None
    fill(entry, facts, ("model", "uuid", "serial", "memory_mib", "ecc"))
    if facts["display_active"]:
        entry["display_active"] = True
    if facts["lost"]:
        add_problem(entry, "fallen_off_bus", "nvidia-smi says that it is lost")
    if facts["reset"]:
        add_problem(entry, "reset_required", facts["reset"])
    for reason in facts["ecc_problems"]:
        add_problem(entry, "ecc_errors", reason)
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


def _document_bounds(text):
    # type: (str) -> tuple[int, int]
    """Warnings may stand before and after the document: it begins at its first tag and ends after its last one."""
    start = text.find("<nvidia_smi_log")
    end = text.rfind("</nvidia_smi_log>")
    return start, end + len("</nvidia_smi_log>") if end >= 0 else -1


def _outside_document(text):
    # type: (str) -> str
    start, end = _document_bounds(text)
    if start < 0:
        return text
    return text[:start] + (text[end:] if end >= 0 else "")


def _failures(result, messages):
    # type: (CommandResult, str) -> list[tuple[str, str, str | None]]
    meaning = _RETURN_VALUES.get(result.rc)
    first_line = next((line.strip() for line in messages.splitlines() if line.strip() and not line.startswith("<?xml")), "")
    reason = ", ".join(part for part in (meaning, first_line and "it says: " + first_line.rstrip(".")) if part)
    failed = "nvidia-smi failed with return value %s%s" % (result.rc, " (%s)" % reason if reason else "")
    named = []
    for line in messages.splitlines():
        for text in _ANY_ADDRESS.findall(line):
            problem = "fallen_off_bus" if _LOST.search(line) or result.rc == 15 else "nvidia_smi_failed"
            problem = "reset_required" if _RESET.search(line) else problem
            named.append((problem, "nvidia-smi says: " + line.strip().rstrip("."), canonical_address(text)))
    # A warning about one GPU (return value 14) comes with a full answer about all of them.
    return named if named and result.rc == 14 else named + [("nvidia_smi_failed", failed, None)]


def _name_mig_devices(gpus, command, budget, problems):
    # type: (dict[str, dict[str, Any]], str, TimeBudget, list[tuple[str, str, str | None]]) -> None
    """Profile and uuid are not in the XML document, only in the list."""
    result = run_bounded([command, "-L"], budget)
    if result.timed_out:
        problems.append(("nvidia_smi_timeout", "nvidia-smi -L gave no answer within %g seconds for all" % budget.seconds, None))
    elif result.rc != 0:
        problems.append(("nvidia_smi_failed", "nvidia-smi -L failed with return value %s" % result.rc, None))
    names = parse_list(result.stdout.decode("utf-8", "replace"))
    for gpu in gpus.values():
        for device in gpu["mig_devices"]:
            device["profile"], device["uuid"] = names.get((gpu["uuid"], device["index"]), (None, None))


def _gpu_facts(gpu):
    # type: (ElementTree.Element) -> dict[str, Any]
    mig_mode = _value(gpu, "mig_mode/current_mig")
    told_mig = gpu.find("mig_mode/current_mig") is not None
    return {
        "model": _value(gpu, "product_name"),
        "uuid": _value(gpu, "uuid"),
        "serial": _value(gpu, "serial"),
        "minor": _number(gpu, "minor_number"),
        "memory_mib": _number(gpu, "fb_memory_usage/total"),
        "ecc": _enabled(_value(gpu, "ecc_mode/current_ecc")),
        "mig_capable": mig_mode is not None if told_mig else None,  # N/A: it has no such mode
        "mig_enabled": mig_mode == "Enabled" if told_mig else None,
        "mig_devices": [_mig_device(device) for device in gpu.findall("mig_devices/mig_device")],
        "display_active": _enabled(_value(gpu, "display_active")),
        "lost": any(_LOST.search(text or "") for text in (gpu.findtext("uuid"), gpu.findtext("product_name"), gpu.text)),
        "ecc_problems": _ecc_problems(gpu),
        "reset": _reset(gpu),
    }


def _mig_device(device):
    # type: (ElementTree.Element) -> dict[str, Any]
    return {
        "index": _number(device, "index"),
        "gpu_instance_id": _number(device, "gpu_instance_id"),
        "compute_instance_id": _number(device, "compute_instance_id"),
        "memory_mib": _number(device, "fb_memory_usage/total"),
        "profile": None,
        "uuid": None,
    }


def _ecc_problems(gpu):
    # type: (ElementTree.Element) -> list[str]
    problems = []
    volatile = gpu.find("ecc_errors/volatile")
    uncorrected = 0
    for counter in volatile.iter() if volatile is not None else ():
        if "uncorrectable" in counter.tag and (counter.text or "").strip().isdigit():
            uncorrected += int((counter.text or "").strip())
    # Boards before Turing count by the number of wrong bits: two cannot be corrected.
    uncorrected += _number(gpu, "ecc_errors/volatile/double_bit/total") or 0
    if uncorrected:
        problems.append("%d uncorrected ECC error(s) since the driver was loaded" % uncorrected)
    for path, problem in (
        ("retired_pages/pending_retirement", "memory pages wait for retirement, which takes a reset"),
        ("retired_pages/pending_blacklist", "memory pages wait for retirement, which takes a reset"),
        ("remapped_rows/remapped_row_pending", "memory rows wait for being remapped, which takes a reset"),
        ("remapped_rows/remapped_row_failure", "memory rows could not be remapped"),
    ):
        if _value(gpu, path) == "Yes" and problem not in problems:
            problems.append(problem)
    return problems


def _reset(gpu):
    # type: (ElementTree.Element) -> str | None
    """Why the GPU must be reset before it works again, None where it need not.

    Drivers before 575 have gpu_reset_status, later ones gpu_recovery_action, and 575 has the first as deprecated beside the second.
    """
    action = _value(gpu, "gpu_recovery_action")
    if action:
        return "the driver asks for the recovery action " + action
    if _value(gpu, "gpu_reset_status/reset_required") == "Yes" or any(_RESET.search(element.text or "") for element in gpu.iter()):
        return "it requires a reset"
    if _value(gpu, "gpu_reset_status/drain_and_reset_recommended") == "Yes":
        return "the driver recommends to drain and reset it"
    return None


def _value(element, path):
    # type: (ElementTree.Element, str) -> str | None
    text = (element.findtext(path) or "").strip()
    return None if _NO_VALUE.match(text) else text


def _number(element, path):
    # type: (ElementTree.Element, str) -> int | None
    match = re.match(r"\d+", _value(element, path) or "")
    return int(match.group(0)) if match else None


def _enabled(value):
    # type: (str | None) -> bool | None
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(value or "")
