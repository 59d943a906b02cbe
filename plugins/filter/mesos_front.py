# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter of the role mesos_front."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import front


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mesos_front_plan": as_filter(front.plan)}
