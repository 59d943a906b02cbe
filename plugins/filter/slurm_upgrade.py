# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter that plans an upgrade of SLURM."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import releases as slurm_releases
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


def slurm_upgrade_plan(
    hostvars: t.Any, members: t.Sequence[str], answering: t.Sequence[str], servers: t.Sequence[str], target: str
) -> dict:
    facts = {host: (hostvars[host].get("ansible_facts") or {}).get("slurm_packages") or {} for host in members}
    return slurm_releases.upgrade_plan({host: own if host in answering else {} for host, own in facts.items()}, servers, target)


class FilterModule:
    """Plan of an upgrade."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"slurm_upgrade_plan": as_filter(slurm_upgrade_plan)}
