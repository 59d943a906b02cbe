# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters of the role mesos_operations."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import operations


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "mesos_agent_selection": as_filter(operations.selection),
            "mesos_not_leaving": as_filter(operations.not_leaving),
            "mesos_record_without": as_filter(operations.record_without),
            "mesos_unfit_agents": as_filter(operations.unfit),
        }
