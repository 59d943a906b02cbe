# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that computes the files of Marathon and Chronos on a host."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import chronos, marathon


def mesos_framework_files(
    plan: dict[str, t.Any],
    secrets: dict[str, str],
    name: str,
    host: str,
    heap_mib: int = 1024,
    gpu: bool = False,
    disable_after_failures: int = 0,
) -> list[dict[str, str]]:
    if name == marathon.NAME:
        return marathon.files(plan, secrets, host, int(heap_mib))
    if name == chronos.NAME:
        return chronos.files(plan, secrets, host, int(heap_mib), bool(gpu), int(disable_after_failures))
    raise ValueError(f"There is no framework {name}: write marathon or chronos.")


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mesos_framework_files": as_filter(mesos_framework_files)}
