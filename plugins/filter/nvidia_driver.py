# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that choose NVIDIA's driver."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _nvidia_driver
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    """Plan of a host's driver."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "nvidia_driver_plan": as_filter(_nvidia_driver.plan),
            "nvidia_driver_pending": as_filter(_nvidia_driver.pending),
            "nvidia_driver_record": as_filter(_nvidia_driver.record),
            "nvidia_driver_removable": as_filter(_nvidia_driver.removable),
        }
