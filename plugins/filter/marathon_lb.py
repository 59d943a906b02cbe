# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter of the role marathon_lb."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import balancer_settings


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"marathon_lb_plan": as_filter(balancer_settings.plan)}
