# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Mesos agent flags computed from the accelerator model.

Sources: attributes-resources.md of Mesos (syntax) and its GPU allocator (allocator.cpp): the agent takes ``--resources``
with ``gpus`` only together with ``--nvidia_gpu_devices`` of as many NVML indices, and hands out whole NVIDIA GPUs.
"""

from __future__ import annotations

import re
from typing import Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import (
    Accelerator,
    by_address,
    is_mig,
    schedulable,
    units,
)

# The grammar of an attribute's text.
_NOT_IN_TEXT = re.compile(r"[^a-zA-Z0-9_/.-]+")


def resources(accelerators: Sequence[Accelerator]) -> dict[str, str]:
    """The agent flags that offer the host's NVIDIA GPUs, by name of the flag; none where it has no such GPU.

    GPUs with MIG enabled are left out: Mesos knows no instances, and such a GPU runs nothing as a whole.

    :raises ValueError: the input is not a list of accelerators.
    """
    indices = [str(index) for index, accelerator in enumerate(_seen_by_nvml(accelerators)) if _is_whole(accelerator)]
    if not indices:
        return {}
    return {"resources": f"gpus:{len(indices)}", "nvidia_gpu_devices": ",".join(indices)}


def attributes(accelerators: Sequence[Accelerator]) -> str:
    """The text of ``--attributes`` that tells frameworks which GPUs the agent offers; empty where it has none.

    Always the number of each type (C(gpus_a100:4)); vendor, model, memory and driver only where all GPUs agree,
    because Mesos discourages an attribute with several values.

    :raises ValueError: the input is not a list of accelerators.
    """
    offered = [accelerator for accelerator in _seen_by_nvml(accelerators) if _is_whole(accelerator)]
    pairs: list[str] = []
    for key, name in (
        ("vendor", "gpu_vendor"),
        ("model", "gpu_model"),
        ("memory_mib", "gpu_memory_mib"),
        ("driver_version", "gpu_driver_version"),
    ):
        value = _common([accelerator.get(key) for accelerator in offered])
        if value is not None:
            pairs.append(f"{name}:{value}")
    counts: dict[str, int] = {}
    for unit in units(offered):
        counts[unit.type] = counts.get(unit.type, 0) + 1
    pairs.extend(f"gpus_{name}:{count}" for name, count in sorted(counts.items()))
    return ";".join(pairs)


def _seen_by_nvml(accelerators: Sequence[Accelerator]) -> list[Accelerator]:
    """The GPUs that NVML numbers, in its order: those of the driver nvidia by PCI address, usable by jobs or not."""
    schedulable(accelerators)  # refuses what is not a list of accelerators
    return sorted((accelerator for accelerator in accelerators if accelerator.get("driver") in NVIDIA.drivers), key=by_address)


def _is_whole(accelerator: Accelerator) -> bool:
    return bool(schedulable([accelerator])) and not is_mig(accelerator)


def _common(values: Sequence[object]) -> str | None:
    """The one value they all have, as text of an attribute."""
    texts = {"" if value is None else _NOT_IN_TEXT.sub("_", str(value)) for value in values}
    return (texts.pop() or None) if len(texts) == 1 else None
