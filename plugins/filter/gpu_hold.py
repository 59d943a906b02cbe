# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters for taking a host from its users, whoever manages it."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _gpu_hold, _managers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


def gpu_hold_errors(
    host: str, holder: t.Any, excepted: t.Any, wait: t.Any, groups: t.Mapping[str, t.Sequence[str]], variables: t.Any
) -> list[str]:
    former = [name for name in _gpu_hold.FORMER if variables.get(name)]
    return _gpu_hold.errors(host, holder, excepted, wait, groups, former)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "managers_of": as_filter(_managers.managers_of),
            "gpu_hold_errors": as_filter(gpu_hold_errors),
            "gpu_hold_record": as_filter(_gpu_hold.record),
        }
