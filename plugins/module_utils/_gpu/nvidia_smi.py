# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
# The role slurm_node installs it with address.py on nodes: it imports nothing else, and runs nothing.
"""What nvidia-smi prints with -q -x and with -L.

The schemas of -q -x are v10 (driver 450) to v13 (driver 595).
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re
from xml.etree import ElementTree

from .address import canonical_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7

ANY_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
SAYS_LOST = re.compile(r"GPU is lost|Unknown Error|fallen off the bus", re.IGNORECASE)
SAYS_RESET = re.compile(r"GPU requires reset", re.IGNORECASE)

# What nvidia-smi writes in the place of a value that it does not have.
_NO_VALUE = re.compile(
    r"(\[?N/A\]?|None|ERR!|\[?Not Supported\]?|\[?Unknown Error\]?|GPU is lost.*|\[?GPU requires reset\]?"
    r"|Requested functionality has been deprecated|\[?Insufficient Permissions\]?)?\Z",
    re.IGNORECASE,
)


class Unreadable(Exception):
    """A document that is not what nvidia-smi writes."""


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
    """Return profile and uuid of the MIG devices in the answer of nvidia-smi -L.

    The keys are the uuid of their GPU and their index on it.
    """
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


def _document_bounds(text):
    # type: (str) -> tuple[int, int]
    """Return where the document begins and ends.

    Warnings may stand before and after it: it begins at its first tag and ends after its last one.
    """
    start = text.find("<nvidia_smi_log")
    end = text.rfind("</nvidia_smi_log>")
    return start, end + len("</nvidia_smi_log>") if end >= 0 else -1


def outside_document(text):
    # type: (str) -> str
    """Messages that stand around the document, about GPUs that do not answer."""
    start, end = _document_bounds(text)
    if start < 0:
        return text
    return text[:start] + (text[end:] if end >= 0 else "")


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
        "lost": any(SAYS_LOST.search(text or "") for text in (gpu.findtext("uuid"), gpu.findtext("product_name"), gpu.text)),
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
    if _value(gpu, "gpu_reset_status/reset_required") == "Yes" or any(SAYS_RESET.search(element.text or "") for element in gpu.iter()):
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
