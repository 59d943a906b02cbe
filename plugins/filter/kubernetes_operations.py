# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters for what operators do with a Kubernetes cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import certificates, drift, operations
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import inventory as kubernetes_inventory


def kubernetes_drift(
    hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], reached: list[str], seen: dict[str, t.Any]
) -> dict[str, t.Any]:
    control = groups[kubernetes_inventory.CONTROL_PLANE][0]
    # As registered: templating them would cost much and change nothing.
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    planned = hostvars[control].get("kubernetes_cluster_plan") or None
    members = kubernetes_inventory.members_of(groups)
    return drift.report({host: raw(host) for host in members if host in reached}, members, in_play, control, planned, seen)


class FilterModule:
    """What operators do with nodes."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "kubernetes_certificates_due": as_filter(certificates.due),
            "kubernetes_drift": as_filter(kubernetes_drift),
            "kubernetes_node_selection": as_filter(operations.selection),
            "kubernetes_record_without": as_filter(operations.record_without),
            "kubernetes_unfit_nodes": as_filter(operations.unfit),
            "kubernetes_users_pods": as_filter(operations.users_pods),
        }
