# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that computes the configuration of the NVIDIA device plugin for Kubernetes."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import device_plugin


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "kubernetes_device_plugin_config": as_filter(device_plugin.device_plugin_config),
        }
