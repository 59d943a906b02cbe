# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
# The role slurm_node installs it on nodes: it imports nothing of the collection, and runs nothing.
"""What makes an accelerator unusable: one table.

The module gpu_facts, the programs on nodes and docs/reference/health.md have it from here.

A *problem* is what is wrong, with its severity. A *sign* is one value by which a problem is seen.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator  # absent from Python 2.7
    from xml.etree.ElementTree import Element

# What managers do. The first two are a reason to take the device, or its host, from users.
LOST, CLOSED, REPORTED, WARNING = "lost", "closed", "reported", "warning"
SEVERITIES = {
    LOST: "jobs can't be given the device; a host that was promised to have it takes no new jobs",
    CLOSED: "the device's host takes no new jobs; jobs that run go on",
    REPORTED: "it is not known whether the devices are well: what is closed stays so. After five checks in a row its host takes no jobs",
    WARNING: "the run shows it, and nothing else happens",
}

# name: str; vendor: str, "" for all; severity: str; meaning: str
Problem = namedtuple("Problem", "name vendor severity meaning")

PROBLEMS = (
    Problem("fallen_off_bus", "", LOST, "the device does not answer any more"),
    Problem("device_file_shared", "", LOST, "another device has the same file, so a job could open the other one's device"),
    Problem("device_file_missing", "", CLOSED, "a file that the driver names is not there; without its own file the device is lost"),
    Problem("ecc_errors", "", CLOSED, "memory errors that could not be corrected, or that wait for a reset to be repaired"),
    Problem("driver_mismatch", "nvidia", CLOSED, "kernel module and user space have different versions"),
    Problem("excluded", "nvidia", LOST, "an administrator keeps the driver from the GPU"),
    Problem("nvidia_smi_unlisted", "nvidia", CLOSED, "nvidia-smi answers and does not list the GPU, though the driver is bound to it"),
    Problem("reset_required", "nvidia", CLOSED, "the GPU must be reset before it works again"),
    Problem("driver_error", "nvidia", CLOSED, "the kernel log has an error of the GPU after which NVIDIA asks for a reset or a reboot"),
    Problem("fabric_not_ready", "nvidia", CLOSED, "the GPU is not connected to the NVLink fabric of its host, so CUDA does not start"),
    Problem("compute_prohibited", "nvidia", CLOSED, "the GPU's compute mode lets no program use it"),
    Problem("compute_partitions", "amd", CLOSED, "the GPU is not in SPX: jobs could open partitions that they were not given"),
    Problem("nvidia_smi_timeout", "nvidia", REPORTED, "nvidia-smi gave no answer in time"),
    Problem("nvidia_smi_failed", "nvidia", REPORTED, "nvidia-smi failed"),
    Problem("nvidia_smi_unreadable", "nvidia", REPORTED, "nvidia-smi gave a broken answer"),
    Problem("nvidia_smi_warning", "nvidia", WARNING, "nvidia-smi has a full answer, and complains"),
    Problem("rocm_smi_timeout", "amd", WARNING, "rocm-smi gave no answer in time"),
    Problem("rocm_smi_failed", "amd", WARNING, "rocm-smi failed"),
    Problem("rocm_smi_unreadable", "amd", WARNING, "rocm-smi gave a broken answer"),
)


def names(*severities):
    # type: (*str) -> tuple[str, ...]
    """The problems of some severities, of all without one."""
    return tuple(problem.name for problem in PROBLEMS if not severities or problem.severity in severities)


# Where signs are seen.
DOCUMENT, LIST, LOG, SYSFS, DEV = "nvidia-smi -q -x", "nvidia-smi", "kernel log", "/sys", "/dev"

# source: str; element: str; bad: str, an expression for the whole value, or COUNT; problem: str; sentence: str, a part of one
Sign = namedtuple("Sign", "source element bad problem sentence")

ANY = "any element"
COUNT = "a number above 0"
_LOST = "nvidia-smi says that it is lost"
_RESET = "it requires a reset"
_RETIREMENT = "memory pages wait for retirement, which takes a reset"
_ERRORS = "%s uncorrected ECC error(s) since the driver was loaded"

# The elements of one GPU, as ElementTree finds them. The first sign of a problem says it best.
NVIDIA_SIGNS = (
    Sign(DOCUMENT, ANY, ".*(GPU is lost|fallen off the bus).*", "fallen_off_bus", _LOST),
    Sign(DOCUMENT, ".", ".*Unknown Error.*", "fallen_off_bus", _LOST),
    Sign(DOCUMENT, "uuid", ".*Unknown Error.*", "fallen_off_bus", _LOST),
    Sign(DOCUMENT, "product_name", ".*Unknown Error.*", "fallen_off_bus", _LOST),
    # Drivers before 575 have gpu_reset_status, later ones gpu_recovery_action, and 575 has the first as deprecated beside the second.
    Sign(DOCUMENT, "gpu_recovery_action", ".+", "reset_required", "the driver asks for the recovery action %s"),
    Sign(DOCUMENT, "gpu_reset_status/reset_required", "Yes", "reset_required", _RESET),
    Sign(DOCUMENT, ANY, ".*GPU requires reset.*", "reset_required", _RESET),
    Sign(DOCUMENT, "gpu_reset_status/drain_and_reset_recommended", "Yes", "reset_required", "the driver recommends to drain and reset it"),
    # Boards before Turing count by the number of wrong bits: two can't be corrected.
    Sign(DOCUMENT, "ecc_errors/volatile//*uncorrectable*", COUNT, "ecc_errors", _ERRORS),
    Sign(DOCUMENT, "ecc_errors/volatile/double_bit/total", COUNT, "ecc_errors", _ERRORS),
    Sign(DOCUMENT, "retired_pages/pending_retirement", "Yes", "ecc_errors", _RETIREMENT),
    Sign(DOCUMENT, "retired_pages/pending_blacklist", "Yes", "ecc_errors", _RETIREMENT),
    Sign(DOCUMENT, "remapped_rows/remapped_row_pending", "Yes", "ecc_errors", "memory rows wait for being remapped, which takes a reset"),
    Sign(DOCUMENT, "remapped_rows/remapped_row_failure", "Yes", "ecc_errors", "memory rows could not be remapped"),
    Sign(DOCUMENT, ".//sram_threshold_exceeded", "Yes", "ecc_errors", "it had more errors in SRAM than NVIDIA allows: have it examined"),
    Sign(DOCUMENT, ".//unrepairable_memory", "Yes", "ecc_errors", "it has memory that can't be repaired: have it examined"),
    Sign(DOCUMENT, ".//channel_repair_pending", "Yes", "ecc_errors", "a memory channel waits for a repair, which takes a reset"),
    Sign(DOCUMENT, ".//tpc_repair_pending", "Yes", "ecc_errors", "a processing cluster waits for a repair, which takes a reset"),
    Sign(DOCUMENT, "mig_devices/mig_device//*uncorrectable*", COUNT, "ecc_errors", "its MIG instance %s has " + _ERRORS),
    Sign(
        DOCUMENT,
        "fabric/state",
        "(?!Completed).+",
        "fabric_not_ready",
        "its NVLink fabric is in the state %s: look at nvidia-fabricmanager",
    ),
    Sign(
        DOCUMENT, "fabric/status", "(?!Success).+", "fabric_not_ready", "its NVLink fabric has the status %s: look at nvidia-fabricmanager"
    ),
    Sign(
        DOCUMENT, "fabric/health/summary", "Unhealthy", "fabric_not_ready", "its NVLink fabric is not healthy: look at nvidia-fabricmanager"
    ),
    Sign(DOCUMENT, "compute_mode", "Prohibited", "compute_prohibited", "its compute mode is Prohibited: set it by 'nvidia-smi -c DEFAULT'"),
)
EXCLUDED = "an administrator excluded it (the module's option NVreg_ExcludedGpus)"
UNLISTED = "nvidia-smi does not list it though the driver nvidia is bound to it"

# Not values of the document: what the readers of the devices look at by themselves.
OTHER_SIGNS = (
    Sign(SYSFS, "config", "all ones", "fallen_off_bus", "its PCI configuration space reads all ones"),
    Sign(
        DEV,
        "the file by which a device is confined",
        "that of another device, too",
        "device_file_shared",
        "its file is that of another device, too",
    ),
    Sign(DEV, "a file that the driver names", "absent", "device_file_missing", "it is missing though its driver names it"),
    Sign("/proc/driver/nvidia", "GPU Excluded", "Yes", "excluded", EXCLUDED),
    Sign(LIST, "the GPUs of an answer", "not this one, or none", "nvidia_smi_unlisted", UNLISTED),
    Sign(LIST, "a line with the GPU's address", "says that it is lost", "fallen_off_bus", "nvidia-smi says: ..."),
    Sign(LIST, "a line with the GPU's address", "says that it requires a reset", "reset_required", "nvidia-smi says: ..."),
    Sign(LIST, "a line with the GPU's address", "anything else, and it is not listed", "nvidia_smi_unlisted", "nvidia-smi says: ..."),
    Sign(
        LIST,
        "the version of its library",
        "not that of the kernel module",
        "driver_mismatch",
        "the NVML library does not fit the kernel module",
    ),
    Sign(SYSFS, "ras/umc_err_count (AMD)", COUNT, "ecc_errors", _ERRORS),
    Sign(SYSFS, "current_compute_partition (AMD)", "not SPX", "compute_partitions", "its compute partition mode is not SPX"),
)

RESET, REBOOT, CABLES = "reset the GPU", "reboot the host", "look at the power cables, then reset the GPU"
# Immediate actions of NVIDIA's catalogue of Xids (docs.nvidia.com/deploy/xid-errors, of 2026) for those that leave a GPU unusable.
# What a program causes (13, 31, 43 ...) or the driver repairs (63, 94 ...) is not here. What NVLink says by parts of a number
# (144 to 148) is in Xid 154.
XIDS = {
    46: ("GPU stopped processing", RESET),
    48: ("uncorrected memory error", RESET),
    54: ("auxiliary power is not connected", CABLES),
    62: ("internal micro-controller halt", RESET),
    64: ("memory rows could not be remapped", RESET),
    74: ("NVLink error", RESET),
    79: ("GPU has fallen off the bus", REBOOT),
    95: ("uncontained memory error", RESET),
    109: ("context switch timeout", RESET),
    110: ("security fault", RESET),
    119: ("GSP timeout", RESET),
    120: ("GSP error", RESET),
    136: ("link training failed", RESET),
    140: ("unrecovered memory error", RESET),
    143: ("GPU could not be initialized", RESET),
    149: ("NVLink is down", RESET),
    151: ("key rotation error", REBOOT),
    155: ("NVLink is down", RESET),
    156: ("memory was retired", RESET),
    158: ("GPU fatal timeout", RESET),
}
LOG_SIGNS = tuple(
    [Sign(LOG, "Xid %d" % number, word, "driver_error", action) for number, (word, action) in sorted(XIDS.items())]
    + [
        Sign(LOG, "Xid 154", "Drain P2P, Drain and Reset, GPU Reset Required", "driver_error", RESET),
        Sign(LOG, "Xid 154", "Node Reboot Required", "driver_error", REBOOT),
        Sign(LOG, "RmInitAdapter failed", "the driver could not start the GPU", "driver_error", RESET),
    ]
)

# What nvidia-smi writes in the place of a value that it does not have.
_NO_VALUE = re.compile(
    r"(\[?N/A\]?|None|ERR!|\[?Not Supported\]?|\[?Unknown Error\]?|GPU is lost.*|\[?GPU requires reset\]?"
    r"|Requested functionality has been deprecated|\[?Insufficient Permissions\]?)?\Z",
    re.IGNORECASE,
)


def value(text):
    # type: (str | None) -> str | None
    """A value of nvidia-smi's document, None where it has none."""
    text = (text or "").strip()
    return None if _NO_VALUE.match(text) else text


def of_document(gpu):
    # type: (Element) -> list[tuple[str, str]]
    """What nvidia-smi's document says is wrong with one GPU.

    :returns: problems, each with a part of a sentence.
    """
    found = []  # type: list[tuple[str, str]]
    for sign in NVIDIA_SIGNS:
        for sentence in _seen(gpu, sign):
            if (sign.problem, sentence) not in found:
                found.append((sign.problem, sentence))
    return found


def _seen(gpu, sign):
    # type: (Element, Sign) -> Iterator[str]
    if sign.bad == COUNT:
        for of_whom, number in _counts(gpu, sign.element):
            if number:
                yield sign.sentence % ((of_whom, number) if of_whom else number)
        return
    bad = re.compile("(%s)\\Z" % sign.bad, re.IGNORECASE | re.DOTALL)
    if sign.element == ANY:
        if any(bad.match((element.text or "").strip()) for element in gpu.iter()):
            yield sign.sentence
        return
    for element in [gpu] if sign.element == "." else gpu.findall(sign.element):
        text = (element.text or "").strip()
        # Words in the place of a value are signs of their own.
        if bad.match(text) and (value(text) is not None or "Unknown Error" in sign.bad):
            yield sign.sentence % text if "%s" in sign.sentence else sign.sentence


def _counts(gpu, path):
    # type: (Element, str) -> Iterator[tuple[str, int]]
    """Sums below each element of a path.

    Each comes with the name of the MIG instance that it is of.
    """
    above, _below, tag = path.partition("//*")
    tag = tag.rstrip("*")
    for element in gpu.findall(above):
        counters = [one for one in element.iter() if tag in one.tag] if tag else [element]
        texts = [(one.text or "").strip() for one in counters if not list(one)]
        name = "/".join(element.findtext(key) or "?" for key in ("gpu_instance_id", "compute_instance_id")) if "mig" in path else ""
        yield name, sum(int(re.split(r"\D", text)[0]) for text in texts if text[:1].isdigit())
