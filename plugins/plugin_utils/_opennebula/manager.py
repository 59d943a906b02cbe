# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""OpenNebula as a manager: see docs/architecture.md, "One contract for managers"."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._opennebula import plan as opennebula_plan

NAME = "opennebula"
HOST_GROUP = _managers.BY_NAME[NAME].host_group
PROMISES = opennebula_plan.PROMISES


def check(site: Site) -> list[Finding]:
    """What is wrong with the wanted templates and quotas whatever the hosts have."""
    errors = opennebula_plan.inventory_errors(site.settings["templates"], site.settings["quotas"])
    return [Finding("inventory", error) for error in errors]


def plan(site: Site, recorded: str = "", present: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """What the front end needs to know, from the accelerators of all KVM hosts.

    :param recorded: the text of the record of promises. present: nothing is needed of what OpenNebula has now.
    """
    accepted = site.settings.get("accept_hardware") or []
    if isinstance(accepted, str):  # of -e name=value
        accepted = [name.strip() for name in accepted.split(",")]
    strange = [name for name in accepted if name not in site.groups[HOST_GROUP]]
    if strange:
        raise ValueError(f"opennebula_pci_accept_hardware names {', '.join(strange)}, which is not in {HOST_GROUP}.")
    promised = PROMISES.read(recorded, "the front end")["nodes"]
    return opennebula_plan.plan(site.hostvars, site.groups[HOST_GROUP], site.settings["templates"], promised, accepted)
