# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""How the GPUs of a SLURM node are shared: pure functions.

They say what a site may write, which nodes it holds for, and what it contradicts.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Unit

FORMS = "exclusive, mps, or shard:N with N jobs per GPU, such as shard:4"
SHARDS = re.compile(r"shard:([1-9][0-9]{0,3})", re.ASCII)


def per_gpu(value: t.Any) -> int | None:
    """Return how many parts SLURM makes of a GPU.

    It is 0 where SLURM gives away the whole, and None where there is no such sharing.
    """
    if not isinstance(value, str):
        return None
    shards = SHARDS.fullmatch(value)
    return int(shards.group(1)) if shards else {"exclusive": 0, "mps": 100}.get(value)


def is_sharing(value: t.Any) -> bool:
    return per_gpu(value) is not None


def node_errors(host: str, value: t.Any) -> list[str]:
    """What is wrong with a host's own variable; unset is right."""
    return [] if value is None or is_sharing(value) else [f"slurm_cluster_gpu_sharing of {host} is {value!r}: write {FORMS}."]


def of_node(own: str | None, of_partitions: t.Mapping[str, str], name: str) -> tuple[str, list[str]]:
    """Return how a node's GPUs are shared, and the contradiction if there is one.

    There is one where its variable and its partitions say different things.
    """
    said = {f"partition {partition}": value for partition, value in of_partitions.items()}
    if own is not None:
        said["slurm_cluster_gpu_sharing of the host"] = own
    values = sorted(set(said.values()))
    if len(values) > 1:
        who = " and ".join(f"{value} by {next(source for source, said_ in said.items() if said_ == value)}" for value in values)
        return "exclusive", [f"{name} is to share its GPUs as {who}: a node shares its GPUs in one way, correct one of them."]
    return (values[0] if values else "exclusive"), []


def hardware_errors(name: str, sharing: str, units: t.Sequence[Unit]) -> list[str]:
    """What the units of a node contradict."""
    if sharing == "exclusive":
        return []
    errors = [
        f"{name} can't share its GPUs as {sharing}: the one at {unit.pci_address} is divided into MIG instances, "
        "which SLURM gives to one job each; leave such a node exclusive."
        for unit in units
        if unit.is_mig
    ]
    errors += [
        f"{name} can't share its GPUs as mps: the one at {unit.pci_address} is not NVIDIA's; use shard:N there."
        for unit in units
        if sharing == "mps" and unit.vendor != "nvidia"
    ]
    types = sorted({unit.type for unit in units})
    if len(types) > 1:  # seen with 24.11: a GPU went to a job as a whole while others had shards of it
        errors.append(
            f"{name} can't share its GPUs as {sharing}: it has several types ({', '.join(types)}), among which SLURM mixes up "
            "what is shared and what is given away as a whole; leave such a node exclusive."
        )
    return errors[:1]


def change_error(name: str, before: str, now: str) -> str:
    """Why a node that runs jobs keeps the sharing it has."""
    return (
        f"{name} runs jobs, so the sharing of its GPUs can't be changed from {before} to {now} now: "
        f"drain it (scontrol update NodeName={name} State=DRAIN Reason=sharing), wait for its jobs, then run again."
    )


def file_of(name: str, sharing: str) -> dict[str, str]:
    """Return the file on the controllers that says how a node shares its GPUs.

    It is written once the node has registered so.

    slurmctld 24.11 may have seen a node register without its shares, as on the way from exclusive to shared. Then it gives a
    GPU away as a whole while jobs have shares of it, until it is started again. So it is restarted when this file is newer
    than its process.
    """
    path = f"/var/lib/deephdc/slurm_sharing/{name}"
    return (
        {"path": path, "state": "absent"}
        if sharing == "exclusive"
        else {"path": path, "content": f"# Made by deephdc.accelerators\n{sharing}\n"}
    )
