# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts that run jobs of SLURM beside another manager."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _gpu_guard
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"gpu_guard_files": as_filter(_gpu_guard.guard)}
