# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""What AMD's driver amdgpu reports in sysfs, and rocm-smi where sysfs lacks it."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import errno
import json
import os
import re

from .address import canonical_address
from .bounded_command import TimeBudget, find_command, run_bounded
from .entry import add_problem, fill
from .pci import marketing_name, read_integer, read_text, under

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7

_ROCM_SMI = ["--showbus", "--showproductname", "--showserial", "--showuniqueid", "--showmeminfo", "vram", "--json"]
# Each partition beside the first is a platform device of its own, with a render node that is not below the GPU in sysfs.
PARTITIONED = (
    "its compute partition mode is %s, and anybody could open the device files of its partitions: set it to SPX by "
    "'rocm-smi --setcomputepartition SPX'"
)
ROCM_VERSION_PATH = "/opt/rocm/.info/version"


def read(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    """Add what amdgpu and rocm-smi report to a host's entries that amdgpu drives."""
    keys = ("model", "uuid", "serial", "memory_mib")
    gpus = [entry for entry in entries if entry["driver"] == "amdgpu" and entry["kind"] == "gpu"]
    in_sysfs = {entry["pci_address"]: read_sysfs(root, entry["pci_address"]) for entry in gpus}
    # rocm-smi takes a second and reads the same sysfs: it is only asked for what is not found there.
    is_incomplete = any(in_sysfs[entry["pci_address"]][key] is None for entry in gpus for key in keys)
    answer = query_smi(budget) if is_incomplete else {"gpus": {}, "problems": []}
    for entry in gpus:
        entry["library_version"] = rocm_version()
        entry["mig"].update(capable=False, enabled=False)
        fill(entry, answer["gpus"].get(entry["pci_address"], {}), keys)
        fill(entry, in_sysfs[entry["pci_address"]], keys)
        for problem, reason in answer["problems"]:
            add_problem(entry, problem, reason)
        for reason in in_sysfs[entry["pci_address"]]["ecc_problems"]:
            add_problem(entry, "ecc_errors", reason)
        mode = in_sysfs[entry["pci_address"]]["partition_mode"]
        if mode not in (None, "", "SPX"):
            add_problem(entry, "compute_partitions", PARTITIONED % mode)


def read_sysfs(root, address):
    # type: (str, str) -> dict[str, Any]
    """Return what sysfs reports of a GPU that amdgpu drives.

    The keys are model, uuid (as ROCR_VISIBLE_DEVICES takes it), serial, memory_mib, ecc_problems and partition_mode (such as SPX or
    CPX; None where the GPU has none).
    """
    device = under(root, "/sys/bus/pci/devices/" + address)
    memory_bytes = read_integer(os.path.join(device, "mem_info_vram_total"))
    errors = re.search(r"ue: (\d+)", read_text(os.path.join(device, "ras", "umc_err_count")) or "")
    uncorrected = int(errors.group(1)) if errors else 0
    return {
        "model": read_text(os.path.join(device, "product_name")) or None,
        "uuid": _uuid(read_text(os.path.join(device, "unique_id"))),
        "serial": _serial(read_text(os.path.join(device, "serial_number")) or None),
        "memory_mib": memory_bytes // 1048576 if memory_bytes else None,
        "ecc_problems": ["%d uncorrected ECC error(s) since the driver was loaded" % uncorrected] if uncorrected else [],
        "partition_mode": _mode(os.path.join(device, "current_compute_partition")),
    }


def _mode(path):
    # type: (str) -> str | None
    """The compute partition mode; None where the GPU has no such modes."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
    mode = read_text(path)
    return "unknown, as it can't be read" if mode is None else mode


def rocm_version(path=ROCM_VERSION_PATH):
    # type: (str) -> str | None
    """The version of the installed ROCm user space, such as '6.3.1-48'."""
    return read_text(path) or None


def query_smi(budget):
    # type: (TimeBudget) -> dict[str, Any]
    """Ask rocm-smi, from PATH, within *budget*.

    :returns: gpus (model, uuid, serial, memory_mib by PCI address) and problems: a list of (problem, sentence part).
    """
    answer = {"gpus": {}, "problems": []}  # type: dict[str, Any]
    command = find_command("rocm-smi")
    if not command:
        return answer
    result = run_bounded([command] + _ROCM_SMI, budget)
    if result.timed_out:
        answer["problems"].append(("rocm_smi_timeout", "rocm-smi gave no answer within %g seconds" % budget.seconds))
    elif result.rc != 0:
        answer["problems"].append(("rocm_smi_failed", "rocm-smi failed with return value %s" % result.rc))
    else:
        try:
            answer["gpus"] = parse_document(result.stdout.decode("utf-8", "replace"))
        except ValueError as error:
            answer["problems"].append(("rocm_smi_unreadable", "the answer of rocm-smi is unreadable: %s" % error))
    return answer


def parse_document(text):
    # type: (str) -> dict[str, dict[str, Any]]
    """Read the JSON of rocm-smi.

    The words of its keys are those of ROCm 4.3 to 6.x, which differ in case.

    :raises ValueError: if it is not a JSON object.
    """
    start = text.find("{")  # warnings may stand before it
    document = json.loads(text[start:])
    gpus = {}
    for card in document.values():
        values = {key.lower(): value for key, value in card.items()} if isinstance(card, dict) else {}
        address = canonical_address(str(values.get("pci bus", "")))
        if address:
            memory = str(values.get("vram total memory (b)", ""))
            gpus[address] = {
                "model": marketing_name(_name(values.get("card series")) or "") or None,
                "uuid": _uuid(_told(values.get("unique id"))),
                "serial": _serial(_told(values.get("serial number"))),
                "memory_mib": int(memory) // 1048576 if memory.isdigit() else None,
            }
    return gpus


def _uuid(unique_id):
    # type: (str | None) -> str | None
    match = re.match(r"(?:0x)?([0-9a-fA-F]{1,16})\Z", unique_id or "")
    return "GPU-" + match.group(1).lower().zfill(16) if match and int(match.group(1), 16) else None


def _name(value):
    # type: (Any) -> str | None
    """A model's name.

    A tool that does not know it writes the device id, such as 0x1002.
    """
    text = _told(value)
    return None if text and re.match(r"0x[0-9a-fA-F]+\Z", text) else text


def _serial(text):
    # type: (str | None) -> str | None
    """A serial number; boards without one say 0."""
    return text if text and text.strip("0x") else None


def _told(value):
    # type: (Any) -> str | None
    text = str(value or "").strip()
    return text if text and text.upper() != "N/A" else None
