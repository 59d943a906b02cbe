# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters that compute what OpenNebula is told of accelerators."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _opennebula
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "opennebula_inventory_errors": as_filter(_opennebula.inventory_errors),
            "opennebula_pci_conf": as_filter(_opennebula.pci_conf),
            "opennebula_pci_filters": as_filter(_opennebula.pci_filters),
            "opennebula_plan": as_filter(_opennebula.plan),
        }
