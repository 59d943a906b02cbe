# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which device files the role gpu_guard closes to jobs of SLURM: pure functions.

It does so on hosts that run such jobs beside another manager.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment

# The manager whose jobs can open every device that it does not have itself.
SLURM = "slurm"


class Guard(t.TypedDict):
    """What gpu_guard_closed and gpu_guard_open of a host are."""

    closed: list[str]
    open: list[str]


def guard(accelerators: t.Sequence[dict[str, t.Any]], allotment: t.Any) -> Guard:
    """The device files that are not SLURM's, and those that are.

    Nothing is closed on a host without SLURM.

    A file that a MIG instance of SLURM's needs, such as that of its whole GPU, stays open.
    """
    everything = [file for unit in units.units(accelerators) for file in unit.files]
    if not isinstance(allotment, t.Mapping) or SLURM not in allotment:
        return {"closed": [], "open": list(dict.fromkeys(everything))}
    own = [file for unit in units.units(_allotment.owned(accelerators, allotment, SLURM)) for file in unit.files]
    return {"closed": [file for file in dict.fromkeys(everything) if file not in own], "open": list(dict.fromkeys(own))}


def guards(
    accelerators: t.Mapping[str, t.Sequence[dict[str, t.Any]]], allotments: t.Mapping[str, t.Any], guarded: t.Collection[str]
) -> dict[str, Guard]:
    """By host, where there is something to close, or to open again.

    :param guarded: hosts on which an earlier run closed something.
    """
    found = {host: guard(devices, allotments.get(host)) for host, devices in accelerators.items()}
    return {host: one for host, one in found.items() if one["closed"] or host in guarded}
