# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that fold and expand host lists."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import hostlist
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


def hostlist_fold(names: list[str], ordered: bool = False) -> str:
    return hostlist.fold_ordered(names) if ordered else hostlist.fold(names)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "hostlist_fold": as_filter(hostlist_fold),
            "hostlist_expand": as_filter(hostlist.expand),
        }
