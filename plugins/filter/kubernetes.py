# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that computes the configuration of the NVIDIA device plugin for Kubernetes."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _kubernetes
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "kubernetes_device_plugin_config": as_filter(_kubernetes.device_plugin_config),
        }
