# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters of the role mesos_operations."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import drift, operations
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.hosts import MASTERS, all_hosts


def mesos_drift(
    hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], reached: list[str], offered: dict[str, t.Any]
) -> dict[str, t.Any]:
    first = groups[MASTERS][0]
    # As registered: templating them would cost much and change nothing.
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    planned = hostvars[first].get("mesos_cluster_plan") or None
    members = all_hosts(groups)
    return drift.report({host: raw(host) for host in members if host in reached}, members, in_play, first, planned, offered)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "mesos_agent_selection": as_filter(operations.selection),
            "mesos_drift": as_filter(mesos_drift),
            "mesos_not_leaving": as_filter(operations.not_leaving),
            "mesos_record_without": as_filter(operations.record_without),
            "mesos_unfit_agents": as_filter(operations.unfit),
        }
