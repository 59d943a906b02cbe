# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters for what operators do with the nodes of a SLURM cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import nodes as slurm_nodes
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import drift, manager
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import inventory as slurm_inventory


def slurm_node_selection(
    wanted: t.Any, variable: str, groups: dict[str, list[str]], in_play: list[str], limited: bool = False
) -> dict[str, list[str]]:
    hosts, errors = slurm_nodes.selection(variable, wanted, groups, in_play, limited)
    return {"hosts": hosts, "errors": errors}


def slurm_reason_errors(reason: t.Any, variable: str) -> list[str]:
    return slurm_nodes.reason_errors(variable, reason)


def slurm_node_names(hosts: t.Sequence[str], hostvars: t.Any) -> dict[str, str]:
    return manager.names_of(Site(hostvars, {}, (), {}), hosts)


def slurm_groups_without(groups: dict[str, list[str]], leaving: list[str]) -> dict[str, list[str]]:
    return slurm_inventory.groups_without(groups, leaving)


def slurm_unfit_nodes(hosts: t.Sequence[str], hostvars: t.Any, result: str, recorded: str, controller: str) -> dict[str, str]:
    """What keeps nodes from being resumed, by SLURM's name."""
    names = slurm_node_names(hosts, hostvars)
    promised = manager.PROMISES.read(recorded, controller)["nodes"]
    unfit = {}
    for host, name in names.items():
        seen = hostvars[host].get(result) or {}
        if seen.get("unreachable") or seen.get("failed"):
            why = " ".join(str(seen.get("msg") or "no answer").split())
            unfit[name] = f"its accelerators can't be read ({why})"
            continue
        wrong = manager.unfit(Site(hostvars, {}, (), {}), host, promised.get(name, []))
        if wrong:
            unfit[name] = "; ".join(map(str, wrong))
    return unfit


def slurm_drift(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], reached: list[str]) -> dict[str, t.Any]:
    members = slurm_inventory.member_names(groups)
    nodes = {name: host for host, name in slurm_node_names(groups.get("slurm_nodes", []), hostvars).items()}
    # As registered: templating them would cost much and change nothing.
    found = drift.differences({host: hostvars.raw_get(host) for host in reached}, groups["slurm_controllers"][0], nodes)
    left = [host for host in members if host in in_play and host not in reached]
    return {
        "differs": any(entry["kind"] != "not_compared" for entry in found),
        "complete": not left and all(entry["kind"] != "not_compared" for entry in found),
        "compared": [host for host in members if host in reached],
        "not_reached": left,
        "left_out": [host for host in members if host not in in_play],
        "differences": found,
        "summary": drift.summary(found) + [f"{host}: did not answer, or failed before it could be compared" for host in left],
    }


class FilterModule:
    """What operators do with nodes."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "slurm_node_selection": as_filter(slurm_node_selection),
            "slurm_reason_errors": as_filter(slurm_reason_errors),
            "slurm_node_names": as_filter(slurm_node_names),
            "slurm_groups_without": as_filter(slurm_groups_without),
            "slurm_unfit_nodes": as_filter(slurm_unfit_nodes),
            "slurm_drift": as_filter(slurm_drift),
        }
