# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that publish accelerators in GLUE 2.1 and TOSCA."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._information import glue2


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "glue2_accelerators": as_filter(glue2.accelerator_environments),
            "tosca_gpu_capability": as_filter(glue2.gpu_capability),
        }
