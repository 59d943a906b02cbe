# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that check an inventory of Mesos and plan its cluster.

They also write the files of its daemons.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import agent as mesos_agent
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import ensemble, environment, files, manager


def mesos_inventory_errors(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], cluster: dict[str, t.Any]) -> list[str]:
    return [str(found) for found in manager.check(Site(hostvars, groups, in_play, cluster))]


def mesos_plan(hostvars: t.Any, groups: dict[str, list[str]], cluster: dict[str, t.Any], recorded: str = "") -> dict[str, t.Any]:
    return manager.plan(Site(hostvars, groups, (), cluster), recorded)


def mesos_identity_changes(wanted: dict[str, str], present: str, disk_mib: int = 0) -> list[str]:
    return mesos_agent.identity_changes(mesos_agent.with_disk(environment.read(present), disk_mib), wanted)


def mesos_settled(wanted: dict[str, str], present: str, own: dict[str, t.Any], disk_mib: int = 0) -> dict[str, str]:
    return mesos_agent.settled(wanted, mesos_agent.with_disk(environment.read(present), disk_mib), own)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "mesos_ensemble_errors": as_filter(ensemble.ensemble_errors),
            "mesos_environment": as_filter(environment.text),
            "mesos_environment_of": as_filter(environment.read),
            "mesos_identity_changes": as_filter(mesos_identity_changes),
            "mesos_inventory_errors": as_filter(mesos_inventory_errors),
            "mesos_plan": as_filter(mesos_plan),
            "mesos_settled": as_filter(mesos_settled),
            "mesos_secret_files": as_filter(files.secret_files),
        }
