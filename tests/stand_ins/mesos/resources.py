# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Resources of an agent: its flags, the GPUs that NVML would count, what is free."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from options import Refused, Values

Resources = dict[str, Any]
SCALARS = ("cpus", "mem", "disk", "gpus")


def parse(text: str) -> Resources:
    """Resources of the flag --resources: 'cpus:4;gpus:2;ports:[31000-32000]'. JSON is not read."""
    found: Resources = {}
    for part in filter(None, re.split(r"[;\n]", text)):
        name, colon, value = part.strip().partition(":")
        name = name.partition("(")[0].strip()
        if not colon:
            raise Refused(f"Failed to determine agent resources: Bad value for resources, missing or extra ':' in {part}")
        found[name] = [[int(n) for n in r.split("-")] for r in re.findall(r"\d+-\d+", value)] if "[" in value else float(value)
    return found


def attributes(text: str) -> dict[str, Any]:
    """Attributes of the flag --attributes: 'rack:r1;level:3'."""
    found: dict[str, Any] = {}
    for part in filter(None, re.split(r"[;\n]", text)):
        name, colon, value = part.partition(":")
        if not colon:
            raise Refused(f"Failed to parse attributes: Invalid attribute key:value pair '{part}'")
        found[name] = float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else value
    return found


def gpu_root() -> Path:
    """Where the host's devices are described: simulated ones, or the host itself."""
    simulated = Path(os.environ.get("STAND_IN_GPU_ROOT", "/var/lib/gpu_simulator"))
    return simulated if simulated.is_dir() else Path("/")


def nvml_minors(root: Path) -> list[int]:
    """Minor numbers in NVML's order, which is that of the PCI addresses."""
    minors = []
    for information in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"Device Minor:\s*(\d+)", information.read_text(encoding="utf-8"))
        if match:
            minors.append(int(match.group(1)))
    return minors


def gpus(values: Values, given: Resources, minors: list[int] | None) -> list[int]:
    """NVML indices that the agent offers; minors is None if there is no driver. The sentences are those of gpu/allocator.cpp."""
    start = "Failed to create a containerizer: Could not create MesosContainerizer: "
    isolation = values.get("isolation", "").split(",")
    listed = values.get("nvidia_gpu_devices")
    if "gpu/nvidia" not in isolation:
        if listed is not None:
            raise Refused("'--nvidia_gpus_devices' can only be specified if the `--isolation` flag contains 'gpu/nvidia'")
        return []
    if not {"cgroups/devices", "cgroups/all"} & set(isolation):
        raise Refused(f"{start}The 'cgroups/devices' or 'cgroups/all' isolator must be enabled in order to use the 'gpu/nvidia' isolator")
    if "filesystem/linux" not in isolation:
        raise Refused(f"{start}The 'filesystem/linux' isolator must be enabled in order to use the 'gpu/nvidia' isolator")
    if not minors:
        raise Refused(f"{start}Cannot create the Nvidia GPU isolator: NVML is not available")
    wanted = given.get("gpus")
    if wanted == 0:
        if listed is not None:
            raise Refused("'--nvidia_gpus_devices' cannot be specified when '--resources' specifies 0 GPUs")
        return []
    if listed is not None and wanted is None:
        raise Refused("'--nvidia_gpus_devices' cannot be set without also setting 'gpus' in '--resources'")
    if wanted is not None and listed is None:
        raise Refused("The `gpus` resource cannot be set without also setting `--nvidia_gpu_devices`")
    if wanted is None:
        return list(range(len(minors)))
    if wanted != int(wanted):
        raise Refused("The 'gpus' resource must be an non-negative integer")
    indices = [int(index) for index in (listed or "").split(",")]
    if len(set(indices)) != len(indices):
        raise Refused("'--nvidia_gpu_devices' contains duplicates")
    if len(indices) != wanted:
        raise Refused("'--resources' and '--nvidia_gpu_devices' specify different numbers of GPU devices")
    if max(indices) >= len(minors):
        raise Refused("The number of GPUs requested is greater than the number of GPUs available on the machine")
    return indices


def total(given: Resources, indices: list[int]) -> Resources:
    """All resources: what is not given is read from the host, as the agent does."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    found: Resources = {"cpus": float(os.cpu_count() or 1), "mem": float(int(memory - 1024)), "disk": 10240.0, "ports": [[31000, 32000]]}
    found.update(given)
    found["gpus"] = float(len(indices))
    return found


def minus(left: Resources, right: Resources) -> Resources:
    """What is left of resources."""
    rest = {name: round(left.get(name, 0.0) - right.get(name, 0.0), 6) for name in SCALARS}
    used = {port for first, last in right.get("ports", []) for port in range(first, last + 1)}
    ports = [port for first, last in left.get("ports", []) for port in range(first, last + 1) if port not in used]
    return {**rest, "ports": ranges(ports)}


def plus(left: Resources, right: Resources) -> Resources:
    """The sum of resources."""
    both = {name: round(left.get(name, 0.0) + right.get(name, 0.0), 6) for name in SCALARS}
    return {**both, "ports": left.get("ports", []) + right.get("ports", [])}


def fits(wanted: Resources, free: Resources) -> bool:
    """Whether wanted resources are free."""
    rest = minus(free, wanted)
    lacking = {p for a, b in wanted.get("ports", []) for p in range(a, b + 1)} - {
        p for a, b in free.get("ports", []) for p in range(a, b + 1)
    }
    return all(rest[name] >= -1e-6 for name in SCALARS) and not lacking


def ranges(ports: list[int]) -> list[list[int]]:
    """Sorted ports as ranges."""
    found: list[list[int]] = []
    for port in sorted(ports):
        if found and found[-1][1] == port - 1:
            found[-1][1] = port
        else:
            found.append([port, port])
    return found


def to_json(resources: Resources) -> list[dict[str, Any]]:
    """As the v1 API has them."""
    found: list[dict[str, Any]] = [
        {"name": name, "type": "SCALAR", "scalar": {"value": resources[name]}, "role": "*"} for name in SCALARS if resources.get(name)
    ]
    if resources.get("ports"):
        pairs = [{"begin": first, "end": last} for first, last in resources["ports"]]
        found.append({"name": "ports", "type": "RANGES", "ranges": {"range": pairs}, "role": "*"})
    return found


def from_json(entries: list[dict[str, Any]]) -> Resources:
    """From the v1 API's form."""
    found: Resources = {}
    for entry in entries:
        if "ranges" in entry:
            found[entry["name"]] = [[pair["begin"], pair["end"]] for pair in entry["ranges"]["range"]]
        elif "scalar" in entry:
            found[entry["name"]] = float(entry["scalar"]["value"])
    return found


def old_json(resources: Resources) -> dict[str, Any]:
    """As /slaves and /state have them."""
    found = {name: resources.get(name, 0.0) for name in SCALARS}
    ports = ", ".join(f"{first}-{last}" for first, last in resources.get("ports", []))
    return {**found, **({"ports": f"[{ports}]"} if ports else {})}
