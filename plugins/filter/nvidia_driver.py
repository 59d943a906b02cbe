# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that choose NVIDIA's driver."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import choice as nvidia_driver_choice
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    """Plan of a host's driver."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "nvidia_driver_plan": as_filter(nvidia_driver_choice.plan),
            "nvidia_driver_pending": as_filter(nvidia_driver_choice.pending),
            "nvidia_driver_record": as_filter(nvidia_driver_choice.record),
            "nvidia_driver_removable": as_filter(nvidia_driver_choice.removable),
        }
