# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Layouts of MIG instances: pure functions.

They find what is wanted of which GPU, what nvidia-smi says is there, and why the two do not fit together.

The forms of nvidia-smi's answers are those of NVIDIA's MIG User Guide, chapter "Getting Started with MIG".
They are also those of drivers 450 to 580 as people have posted them.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.address import canonical_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Accelerator, as_number, assignable, type_of

_PROFILE = re.compile(r"\|\s*\d+\s+MIG\s+(\S+)\s+(\d+)\s+\d+/(\d+)\s+([\d.]+)\s")
_PLACES = re.compile(r"GPU\s+\d+\s+Profile ID\s+(\d+)\s+Placements?\s*:\s*\{([\d,]+)\}:(\d+)")
_INSTANCE = re.compile(r"\|\s*\d+\s+MIG\s+(\S+)\s+\d+\s+(\d+)\s+\d+:\d+\s")
_COMPUTE_INSTANCE = re.compile(r"\|\s*\d+\s+(\d+)\s+MIG\s+(\S+)\s+\d+\s+\d+\s+\d+:\d+\s")
_NAME = re.compile(r"[0-9]+g\.[0-9]+gb[a-z0-9.+-]*\Z")


class Layout(t.NamedTuple):
    """What is wanted of a GPU: MIG on or off, and how many instances of each profile."""

    enabled: bool
    instances: dict[str, int]


class Mode(t.NamedTuple):
    """MIG mode as nvidia-smi says it.

    It is Enabled, Disabled, or [N/A] where a GPU has none. bus_id is nvidia-smi's way to write the address.
    """

    bus_id: str
    current: str
    pending: str


class Profile(t.NamedTuple):
    """A kind of instance.

    starts: where it may begin on the GPU's memory slices, of which it takes size; empty if that is not known.
    """

    name: str
    total: int
    memory: float
    starts: tuple[int, ...]
    size: int


class Gpu(t.NamedTuple):
    """What is there."""

    mode: Mode
    profiles: list[Profile]
    instances: list[str]


def named(accelerator: Accelerator) -> str:
    return f"{accelerator['pci_address']} ({type_of(accelerator)})"


def choose(layouts: t.Sequence[t.Mapping[str, t.Any]], accelerators: t.Sequence[Accelerator]) -> tuple[dict[str, Layout], list[str]]:
    """Return the layout of each GPU by PCI address, and a list of errors.

    Each error is one sentence and says what is wrong with nvidia_driver_mig.
    """
    if not layouts:
        return {}, []
    gpus = [entry for entry in assignable(accelerators) if entry.get("vendor") == NVIDIA.name and entry.get("kind") == "gpu"]
    chosen: dict[str, Layout] = {}
    errors = []
    for given in layouts:
        instances = {name: as_number(count) or count for name, count in (given.get("instances") or {}).items()}
        layout = Layout(given.get("enabled") is not False, instances)
        errors += _misspelt(layout)
        for item in given.get("devices") or ():
            address = canonical_address(item) or canonical_address(f"0000:{item}")
            found = [entry for entry in gpus if item in ("all", type_of(entry)) or address == entry["pci_address"]]
            if not found:
                has = ", ".join(named(entry) for entry in gpus) or "none"
                errors.append(f"nvidia_driver_mig asks for {item}, which the host does not have; its NVIDIA GPUs: {has}.")
            for entry in found:
                if chosen.setdefault(entry["pci_address"], layout) != layout:
                    errors.append(f"nvidia_driver_mig has two layouts for {named(entry)}: leave one.")
                if entry.get("driver") == "vfio-pci":
                    errors.append(
                        f"nvidia_driver_mig asks for {named(entry)}, which was given to virtual machines (vfio-pci): "
                        "name the others by their addresses, or give it back to the host first."
                    )
    return chosen, list(dict.fromkeys(errors))


def _misspelt(layout: Layout) -> list[str]:
    errors = [
        f"nvidia_driver_mig has the instances {name}: {count}; write a profile such as 1g.10gb and their number."
        for name, count in layout.instances.items()
        if not ((as_number(count) or 0) > 0 and _NAME.match(str(name)))
    ]
    if layout.instances and not layout.enabled:
        errors.append("nvidia_driver_mig turns MIG off (enabled: false) and asks for instances all the same.")
    return errors


def modes(answer: str) -> dict[str, Mode]:
    """Return the MIG modes by PCI address.

    answer: of --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending --format=csv,noheader.
    """
    rows = [[part.strip() for part in line.split(",")] for line in answer.splitlines()]
    return {canonical_address(row[0]) or row[0]: Mode(*row) for row in rows if len(row) == 3}


def profiles(listed: str, places: str) -> list[Profile]:
    """The profiles of one GPU, from nvidia-smi mig -lgip and -lgipp."""
    places_of = {number: (starts, size) for number, starts, size in _PLACES.findall(places)}
    found = []
    for name, number, total, memory in _PROFILE.findall(listed):
        starts, size = places_of.get(number, ("", "0"))
        found.append(Profile(name, int(total), float(memory), tuple(int(start) for start in starts.split(",") if start), int(size)))
    return found


def instances(gpu_instances: str, compute_instances: str) -> list[str]:
    """The instances of one GPU, from nvidia-smi mig -lgi and -lci.

    An instance whose compute instance does not take the whole of it is listed with what it has: 3g.20gb (1c.3g.20gb).
    """
    inside: dict[str, list[str]] = {}
    for number, name in _COMPUTE_INSTANCE.findall(compute_instances):
        inside.setdefault(number, []).append(name)
    found = []
    for name, number in _INSTANCE.findall(gpu_instances):
        has = inside.get(number, [])
        is_whole = len(has) == 1 and not re.match(r"\d+c\.", has[0])
        found.append(name if is_whole else f"{name} ({', '.join(has) or 'no compute instance'})")
    return sorted(found)


def is_as_wanted(layout: Layout, gpu: Gpu) -> bool:
    wanted = "Enabled" if layout.enabled else "Disabled"
    return gpu.mode.current == gpu.mode.pending == wanted and has_instances(layout, gpu)


def has_instances(layout: Layout, gpu: Gpu) -> bool:
    return Counter(gpu.instances) == Counter(layout.instances)


def waits_for_boot(layout: Layout, gpu: Gpu) -> bool:
    """Return whether nothing can be done before the next boot.

    That boot brings the mode, and its unit brings the instances.
    """
    return gpu.mode.pending == ("Enabled" if layout.enabled else "Disabled") != gpu.mode.current


def keeps_instances(layout: Layout, gpu: Gpu) -> bool:
    """Whether the change concerns only the next boot, so that it disturbs no process."""
    return layout.enabled and gpu.mode.current == "Enabled" and has_instances(layout, gpu)


def listing(name: str, gpu: Gpu) -> str:
    """One GPU's line of a diff."""
    return f"{name}: {described(gpu.mode.current == 'Enabled', Counter(gpu.instances))}\n"


def described(enabled: bool, counts: t.Mapping[str, int]) -> str:
    """Such as: 2 of 3g.20gb, 1 of 1g.5gb"""
    if not enabled:
        return "MIG off"
    return ", ".join(f"{count} of {name}" for name, count in sorted(counts.items(), reverse=True)) or "MIG on, no instances"


def faults(name: str, layout: Layout, gpu: Gpu | None) -> list[str]:
    """Why a GPU can't have a layout."""
    if gpu is None:
        return [f"{name} is not served by NVIDIA's driver: `nvidia-smi -L` does not list it."]
    if not {gpu.mode.current, gpu.mode.pending} <= {"Enabled", "Disabled"}:
        return [f"{name} has no MIG: take it out of nvidia_driver_mig."]
    totals = {profile.name: profile.total for profile in gpu.profiles}
    has = ", ".join(f"{profile} (up to {total})" for profile, total in totals.items()) or "none, by `nvidia-smi mig -lgip`"
    unknown = [profile for profile in layout.instances if profile not in totals]
    if unknown:
        return [f"{name} has no MIG profile {profile}; its profiles: {has}." for profile in unknown]
    errors = [
        f"{name} can have {totals[profile]} of {profile}, nvidia_driver_mig asks for {count}."
        for profile, count in layout.instances.items()
        if count > totals[profile]
    ]
    if not errors and not _fit([profile for profile in order(layout, gpu.profiles) if profile.starts], frozenset()):
        errors.append(
            f"{name} has no room for {described(True, layout.instances)} together: `nvidia-smi mig -lgipp` shows where each may begin, "
            "and how many slices of the GPU's memory it takes."
        )
    return errors


def order(layout: Layout, available: t.Sequence[Profile]) -> list[Profile]:
    """Return one entry for each instance, biggest first.

    The driver chooses the places, and a small one may take that of a big one.
    """
    known = {profile.name: profile for profile in available}
    wanted = [known[name] for name, count in layout.instances.items() for _each in range(count)]
    return sorted(wanted, key=lambda profile: (-profile.memory, -int(profile.name.split("g.")[0]), profile.name))


def _fit(wanted: t.Sequence[Profile], taken: frozenset[int], last: int = -1) -> bool:
    """Whether there are places for all of them.

    Those of one profile are taken in rising order.
    """
    if not wanted:
        return True
    profile, rest = wanted[0], wanted[1:]
    for start in profile.starts:
        slices = frozenset(range(start, start + profile.size))
        if start > last and not slices & taken:
            after = start if rest and rest[0].name == profile.name else -1
            if _fit(rest, taken | slices, after):
                return True
    return False
