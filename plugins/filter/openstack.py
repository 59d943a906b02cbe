# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that check an inventory of OpenStack and plan its cloud.

They also compute the configuration of its parts.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import (
    agents,
    control_conf,
    federation,
    front,
    manager,
    messaging,
    objects,
    settings,
)


def openstack_inventory_errors(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], cloud: dict[str, t.Any]) -> list[str]:
    return [str(found) for found in manager.check(Site(hostvars, groups, in_play, cloud))]


def openstack_plan(
    hostvars: t.Any, groups: dict[str, list[str]], cloud: dict[str, t.Any], recorded: str = "", metadata: t.Any = None
) -> dict[str, t.Any]:
    return manager.plan(Site(hostvars, groups, (), cloud), recorded, {"identity_providers": metadata or {}})


def openstack_metadata_sources(cloud: dict[str, t.Any]) -> list[dict[str, str]]:
    return federation.asked(settings.settings_of(cloud))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "openstack_agent_conf": as_filter(agents.text),
            "openstack_front_files": as_filter(front.files),
            "openstack_inventory_errors": as_filter(openstack_inventory_errors),
            "openstack_messaging_definitions": as_filter(messaging.definitions),
            "openstack_messaging_lacking": as_filter(messaging.lacking),
            "openstack_metadata_sources": as_filter(openstack_metadata_sources),
            "openstack_accounts": as_filter(objects.accounts),
            "openstack_objects": as_filter(objects.objects),
            "openstack_plan": as_filter(openstack_plan),
            "openstack_service_files": as_filter(control_conf.files),
            "openstack_service_paths": as_filter(control_conf.paths),
        }
