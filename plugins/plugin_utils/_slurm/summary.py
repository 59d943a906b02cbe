# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a run ends with: what the cluster has, and how a user begins."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units

LOOK = "if there should be one, look at it with the module gpu_facts"


def without_gpus(nodes: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The sentence for a cluster that has nothing to give to jobs."""
    return f"No node has a GPU that SLURM can schedule: {LOOK}." + (f" The nodes have {on_the_bus(nodes)}." if nodes else "")


def on_the_bus(nodes: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """What the PCI buses of nodes have, as lspci shows it.

    It is for a site whose GPUs were not found.
    """
    return "; ".join(f"{node['name']}: {_devices(node['accelerators'])}" for node in nodes)


def _devices(accelerators: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    found = Counter(f"{one.get('model') or 'device ' + _ids(one)} ({_kind(one)})" for one in accelerators)
    return ", ".join(f"{count} x {text}" if count > 1 else text for text, count in found.items()) or "no graphics and no accelerator"


def _ids(accelerator: t.Mapping[str, t.Any]) -> str:
    return f"{accelerator.get('vendor_id')}:{accelerator.get('device_id')}"


def _kind(accelerator: t.Mapping[str, t.Any]) -> str:
    if accelerator.get("kind") not in units.SCHEDULABLE_KINDS:
        return "graphics that can't compute"
    return f"driver {accelerator['driver']}" if accelerator.get("driver") else "no driver"


def gpus_of(offers: t.Iterable[t.Mapping[str, int]]) -> str:
    """How many GPUs of each type there are, such as "4 GPUs (3 a100, 1 t4)"."""
    found: Counter[str] = Counter()
    for one in offers:
        found.update({name.partition(":")[2]: count for name, count in one.items()})
    total = sum(found.values())
    types = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
    return f"{total} GPU{'' if total == 1 else 's'} ({types})" if total else "no GPU"


def lines(name: str, offers: t.Mapping[str, t.Mapping[str, int]], logins: t.Mapping[str, str], problems: t.Sequence[str]) -> list[str]:
    """The last words of a run, a sentence each.

    :param offers: units by gres, by node. logins: addresses by name. problems: sentences that must not be overlooked.
    """
    many = len(offers)
    found = [f"The cluster {name} has {many} node{'' if many == 1 else 's'} and {gpus_of(offers.values())}.", *problems]
    job = "srun --gres=gpu:1 nvidia-smi -L" if any(offers.values()) else "srun hostname"
    if logins:
        where = ", ".join(f"{login} ({address})" for login, address in logins.items())
        found.append(f"Users log in on {where}. A first job there: {job}")
    else:
        found.append(f"The inventory has no login host (group slurm_logins). A first job on a controller: {job}")
    return [*found, "What users need to know: docs/users.md of the collection."]
