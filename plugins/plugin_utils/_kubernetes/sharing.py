# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""How the GPUs of a worker are shared, in the words that SLURM has for it.

Pure functions.

Sources: README and code of NVIDIA/k8s-device-plugin 0.18 ("Shared access to GPUs").
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

# Of a worker or of all: each host says it for itself, as slurm_cluster_gpu_sharing does.
VARIABLE = f"{PREFIX}gpu_sharing"
FORMS = "exclusive, shard:N with N pods per GPU in turns, such as shard:4, or mps:N"
WORDS = re.compile(r"(shard|mps):([1-9][0-9]{0,3})", re.ASCII)
MPS_CLIENTS = range(2, 49)  # of one GPU since Volta; the plugin gives each an equal share


class Sharing(t.NamedTuple):
    """How many pods get each GPU or MIG instance, by which means of the device plugin."""

    replicas: int = 1
    is_mps: bool = False

    def __str__(self) -> str:
        return "exclusive" if self.replicas == 1 else f"{'mps' if self.is_mps else 'shard'}:{self.replicas}"


EXCLUSIVE = Sharing()


def of(value: t.Any) -> Sharing | None:
    """What a host's variable says; None where it is invalid."""
    if value in (None, "", "exclusive"):
        return EXCLUSIVE
    words = WORDS.fullmatch(value) if isinstance(value, str) else None
    if not words:
        return None
    count = int(words.group(2))
    if words.group(1) == "mps":
        return Sharing(count, True) if count in MPS_CLIENTS else None
    return Sharing(count)


def node_errors(host: str, value: t.Any, mode: str) -> list[Finding]:
    """What is wrong with the variable of a host, from the inventory alone."""
    found = of(value)
    if found is None:
        why = ""
        if isinstance(value, str) and value.startswith("mps"):
            why = f", N from {MPS_CLIENTS[0]} to {MPS_CLIENTS[-1]}: SLURM counts percents, but the device plugin makes N equal shares"
        return [wrong(f"{VARIABLE} of {host} is {shown(value)}", f"write {FORMS}{why}", host)]
    if found != EXCLUSIVE and mode == "dra":
        remedy = f"leave it exclusive, or set {PREFIX}gpus to device_plugin"
        return [wrong(f"{host} is to share its GPUs as {found}, but {PREFIX}gpus is dra, which gives each GPU to one claim", remedy, host)]
    return []


def hardware_errors(host: str, sharing: Sharing, devices: t.Sequence[units.Accelerator]) -> list[Finding]:
    """What the GPUs of a host contradict."""
    if not sharing.is_mps:
        return []
    return [
        wrong(
            f"{host} can't share its GPUs as {sharing}: the one at {device.get('pci_address')} is divided into MIG instances, "
            "which the device plugin does not share by MPS",
            "leave the host exclusive, or take MIG off it",
            host,
        )
        for device in devices
        if units.is_mig(device)
    ][:1]
