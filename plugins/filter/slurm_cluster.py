# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that check a SLURM inventory and plan its cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import inventory as slurm_inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import manager


def slurm_inventory_errors(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], cluster: dict[str, t.Any]) -> list[str]:
    return [str(found) for found in manager.check(Site(hostvars, groups, in_play, cluster))]


def slurm_members_without_facts(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str]) -> list[str]:
    """Members outside of this run of which nothing is known yet."""
    site = Site(hostvars, groups, in_play, {})
    nodes, here = set(groups.get("slurm_nodes", [])), set(in_play)
    missing = []
    for host in slurm_inventory.member_names(groups):
        if host not in here:
            facts = site.facts(host)
            if "hostname" not in facts or "memtotal_mb" not in facts or (host in nodes and "accelerators" not in facts):
                missing.append(host)
    return missing


def slurm_cluster_plan(
    hostvars: t.Any,
    groups: dict[str, list[str]],
    cluster: dict[str, t.Any],
    recorded: str = "",
    present: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    return manager.plan(Site(hostvars, groups, (), cluster), recorded, present)


class FilterModule:
    """Checks and plan of a SLURM cluster."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "slurm_inventory_errors": as_filter(slurm_inventory_errors),
            "slurm_members_without_facts": as_filter(slurm_members_without_facts),
            "slurm_cluster_plan": as_filter(slurm_cluster_plan),
        }
