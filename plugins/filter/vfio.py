# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that computes device ids for vfio-pci."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._passthrough import vfio_ids


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "vfio_ids": as_filter(vfio_ids.ids),
        }
