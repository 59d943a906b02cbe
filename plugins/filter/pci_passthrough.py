# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that plan which devices virtual machines get, and check that."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._passthrough import plan as passthrough_plan


def pci_passthrough_plan(
    accelerators: t.Any,
    iommu: t.Any,
    wanted: t.Any,
    console: t.Any = None,
    host: str = "this host",
    divided: t.Any = None,
    allotment: t.Any = None,
) -> dict[str, t.Any]:
    owned, wrong = _managers.owned_by_machines(accelerators, allotment, host)
    found = passthrough_plan.plan(accelerators, iommu, wanted, console, host, divided, owned)
    return {**found, "errors": wrong or found["errors"]}


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "pci_passthrough_plan": as_filter(pci_passthrough_plan),
            "pci_passthrough_faults": as_filter(passthrough_plan.faults),
        }
