# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters that compute what OpenNebula needs to know of accelerators."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import manager, pci_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import plan as opennebula_plan


def opennebula_inventory_errors(templates: t.Any, quotas: t.Any) -> list[str]:
    return [str(found) for found in manager.check(Site({}, {}, (), {"templates": templates, "quotas": quotas}))]


def opennebula_plan_of(
    hostvars: t.Any, members: list[str], templates: t.Any, recorded: str = "", accept_hardware: t.Any = None
) -> dict[str, t.Any]:
    settings = {"templates": templates, "accept_hardware": accept_hardware}
    return manager.plan(Site(hostvars, {manager.HOST_GROUP: members}, (), settings), recorded)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "opennebula_inventory_errors": as_filter(opennebula_inventory_errors),
            "opennebula_pci_conf": as_filter(pci_conf.pci_conf),
            "opennebula_pci_filters": as_filter(opennebula_plan.pci_filters),
            "opennebula_plan": as_filter(opennebula_plan_of),
        }
