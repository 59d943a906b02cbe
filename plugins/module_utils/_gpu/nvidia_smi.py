# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
# The role slurm_node installs it with address.py and health.py on nodes: it imports nothing else, and runs nothing.
"""What nvidia-smi prints with -q -x and with -L.

The schemas of -q -x are v10 (driver 450) to v13 (driver 595).
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re
from xml.etree import ElementTree

from .address import canonical_address
from .health import UNLISTED, of_document
from .health import value as _cleaned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container  # absent from Python 2.7

ANY_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
SAYS_LOST = re.compile(r"GPU is lost|Unknown Error|fallen off the bus", re.IGNORECASE)
SAYS_RESET = re.compile(r"GPU requires reset", re.IGNORECASE)
_LISTS_NONE = re.compile(r"No devices were found|<attached_gpus>\s*0\s*<", re.IGNORECASE)


class Unreadable(Exception):
    """A document that is not what nvidia-smi writes."""


def parse_document(text):
    # type: (str) -> tuple[str | None, dict[str, dict[str, Any]]]
    """Read the output of nvidia-smi -q -x.

    NVML refuses to work with a kernel module of another version, so the version in an answer is also the library's.

    :returns: the version, and by PCI address: model, uuid, serial, minor, memory_mib, ecc (bool), mig_capable, mig_enabled,
        mig_devices, display_active, says_recovery (bool: whether the driver says what a GPU needs after an error) and problems (list of
        problem and sentence part, see health.py); None where it says nothing.
    :raises Unreadable: if it is not a complete document.
    """
    text = without_processes(text)
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


def without_processes(text):
    # type: (str) -> str
    """Return a document without the processes of each GPU.

    Their names are what users wrote: words of a lost GPU, bytes that are no text, or elements.
    """
    parts = re.split(r"(?=<gpu id=)", text)
    return "".join(re.sub(r"<processes>.*</processes>", "<processes></processes>", part, flags=re.DOTALL) for part in parts)


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
        "says_recovery": (gpu.findtext("gpu_recovery_action") or "").strip() == "None" or bool(_value(gpu, "gpu_recovery_action")),
        "problems": of_document(gpu),
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


def _value(element, path):
    # type: (ElementTree.Element, str) -> str | None
    return _cleaned(element.findtext(path))


def _number(element, path):
    # type: (ElementTree.Element, str) -> int | None
    match = re.match(r"\d+", _value(element, path) or "")
    return int(match.group(0)) if match else None


def _enabled(value):
    # type: (str | None) -> bool | None
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(value or "")


def lists_none(text):
    # type: (str) -> bool
    """Whether nvidia-smi works and says that the driver has no GPU."""
    return bool(_LISTS_NONE.search(text))


def named(messages, code, listed):
    # type: (str, int | None, Container[str]) -> list[tuple[str, str, str | None]]
    """What lines about single GPUs say: problem, part of a sentence, PCI address.

    :param code: nvidia-smi's return value.
    :param listed: addresses of the GPUs that the answer has.
    """
    found = []  # type: list[tuple[str, str, str | None]]
    for line in messages.splitlines():
        for text in ANY_ADDRESS.findall(line):
            address = canonical_address(text) or ""
            problem = "nvidia_smi_warning" if address in listed or code == 0 else "nvidia_smi_unlisted"
            if SAYS_RESET.search(line):
                problem = "reset_required"
            elif SAYS_LOST.search(line) or code == 15:
                problem = "fallen_off_bus"
            found.append((problem, "nvidia-smi says: " + line.strip().rstrip("."), address))
    return found


def unlisted(address, gpus, messages):
    # type: (str, Container[str], str) -> str | None
    """Why a GPU is lost to its users although nvidia-smi works.

    The driver is bound to it.

    :param messages: all that nvidia-smi printed, where it gave no document.
    """
    return UNLISTED if address not in gpus and (gpus or lists_none(messages)) else None
