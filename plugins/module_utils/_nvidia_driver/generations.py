# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Generations of NVIDIA's GPUs, and what of the driver supports each.

These are branches and kernel modules of the driver. The functions are pure.

A branch is the first number of a driver's version, 550 of 550.163.01. A GPU that is newer than this table is not judged.
"""

from __future__ import annotations

import bisect
import typing as t


class Generation(t.NamedTuple):
    """What drives a generation."""

    name: str
    # The first and the last branch that support it; 0: it is still supported.
    first_branch: int
    last_branch: int
    # NVIDIA's open kernel modules: never, either (open or proprietary), only.
    open_modules: str


# First branches of the data-centre cards, from NVIDIA's release notes; last ones from its list of legacy GPUs.
GENERATIONS = {
    generation.name: generation
    for generation in (
        Generation("fermi", 260, 390, "never"),
        Generation("kepler", 304, 470, "never"),
        Generation("maxwell", 340, 580, "never"),
        Generation("pascal", 361, 580, "never"),
        Generation("volta", 384, 580, "never"),
        Generation("turing", 410, 0, "either"),
        Generation("ampere", 450, 0, "either"),
        Generation("hopper", 520, 0, "either"),
        Generation("ada", 520, 0, "either"),
        Generation("blackwell", 570, 0, "only"),
    )
}

# The first branch with open kernel modules, and the first for which NVIDIA suggests them.
OPEN_SINCE = 515
OPEN_SUGGESTED_SINCE = 560

# From each of these PCI device ids on, up to the next: as pci.ids names the chips. What lies between is no GPU, or not known.
_STARTS = (
    (0x06C0, "fermi"),
    (0x06E0, ""),
    (0x0DC0, "fermi"),
    (0x0FA0, "kepler"),
    (0x1040, "fermi"),
    (0x10A0, ""),
    (0x1140, "fermi"),
    (0x1180, "kepler"),
    (0x1200, "fermi"),
    (0x1280, "kepler"),
    (0x1340, "maxwell"),
    (0x15C0, "pascal"),
    (0x1600, "maxwell"),
    (0x1700, "pascal"),
    (0x1740, "maxwell"),
    (0x1A00, ""),
    (0x1B00, "pascal"),
    (0x1D80, "volta"),
    (0x1E00, "turing"),
    (0x2000, ""),
    (0x2080, "ampere"),
    (0x2180, "turing"),
    (0x2200, "ampere"),
    (0x2280, ""),
    (0x2300, "hopper"),
    (0x2400, "ampere"),
    (0x2600, "ada"),
    (0x2900, "blackwell"),
    (0x3400, ""),
)
# Grace Hopper: its GPU is driven by the open modules alone.
_ONLY_OPEN = range(0x2340, 0x2350)


def generation_of(device_id: str) -> Generation | None:
    """Return the generation of a PCI device id of four hexadecimal digits.

    None means that the table does not have it.

    >>> generation_of("20b2").name, generation_of("2342").open_modules, generation_of("ffff")
    ('ampere', 'only', None)
    """
    number = int(device_id, 16)
    place = bisect.bisect_right(_STARTS, (number, "~")) - 1
    name = _STARTS[place][1] if place >= 0 else ""
    found = GENERATIONS.get(name)
    if found and number in _ONLY_OPEN:
        return found._replace(open_modules="only")
    return found


def branch_of(version: str) -> int:
    """550 of 550.163.01 or of 1:550.163.01-2; 0 where it has none."""
    digits = version.rpartition(":")[2].split(".")[0].split("-")[0]
    return int(digits) if digits.isdigit() else 0


def branch_error(generation: Generation, branch: int) -> str:
    """Why a branch does not drive a generation, as the end of a sentence.

    Empty where it does.
    """
    if branch < generation.first_branch:
        return f"is of the generation {generation.name}, which branch {generation.first_branch} and newer ones drive"
    if generation.last_branch and branch > generation.last_branch:
        return f"is of the generation {generation.name}, which branch {generation.last_branch} was the last to drive"
    return ""


def suggested_modules(generations: t.Iterable[Generation], branch: int) -> str:
    """Open or proprietary, for GPUs of these generations."""
    kinds = {generation.open_modules for generation in generations}
    if "never" in kinds or branch < OPEN_SINCE:
        return "proprietary"
    return "open" if "only" in kinds or branch >= OPEN_SUGGESTED_SINCE else "proprietary"
