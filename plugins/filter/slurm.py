# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that compute SLURM's configuration of generic resources."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "slurm_gres": as_filter(slurm_gres.gres_of),
            "slurm_gres_conf": as_filter(slurm_gres.gres_conf),
            "slurm_tres": as_filter(slurm_gres.tres_of),
            "slurm_unschedulable": as_filter(slurm_gres.unschedulable),
        }
