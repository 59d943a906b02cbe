# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that computes OpenNebula's filters of PCI devices."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _opennebula
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "opennebula_pci_filters": as_filter(_opennebula.pci_filters),
        }
