# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that check a Kubernetes inventory and plan its cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import (
    access,
    control_plane,
    device_plugin,
    events,
    gpu_modes,
    left_out,
    manager,
    networks,
    nodes,
    policy_changes,
    upgrade,
)


def kubernetes_inventory_errors(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], cluster: dict[str, t.Any]) -> list[str]:
    return [str(found) for found in manager.check(Site(hostvars, groups, in_play, cluster))]


def kubernetes_plan(
    hostvars: t.Any,
    groups: dict[str, list[str]],
    cluster: dict[str, t.Any],
    recorded: str = "",
    present: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    return manager.plan(Site(hostvars, groups, (), cluster), recorded, present)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "kubernetes_access_changes": as_filter(access.changes),
            "kubernetes_control_plane_endpoint_errors": as_filter(control_plane.endpoint_change),
            "kubernetes_control_plane_summary": as_filter(control_plane.summary),
            "kubernetes_device_plugin_config": as_filter(device_plugin.device_plugin_config),
            "kubernetes_gpu_change_errors": as_filter(gpu_modes.change_sentences),
            "kubernetes_inventory_errors": as_filter(kubernetes_inventory_errors),
            "kubernetes_left_out": as_filter(left_out.left_out),
            "kubernetes_network_errors": as_filter(networks.network_errors),
            "kubernetes_node_events": as_filter(events.changes),
            "kubernetes_node_patches": as_filter(nodes.patches),
            "kubernetes_plan": as_filter(kubernetes_plan),
            "kubernetes_policy_changes": as_filter(policy_changes.of_answers),
            "kubernetes_upgrade_configuration": as_filter(upgrade.configuration),
            "kubernetes_upgrade_plan": as_filter(upgrade.plan),
            "kubernetes_upgrade_restarted": as_filter(upgrade.restarted),
        }
