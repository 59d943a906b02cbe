# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""OpenStack as a manager: see docs/architecture.md, "One contract for managers"."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import (
    federation,
    federation_front,
    inventory,
    objects,
    references,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import hosts as openstack_hosts
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import plan as openstack_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import settings as openstack_settings

NAME = "openstack"
PROMISES = openstack_plan.PROMISES


def check(site: Site) -> list[Finding]:
    """What is wrong with the site, from the inventory alone."""
    cloud = openstack_settings.settings_of(site.settings)
    shapes = openstack_settings.errors(cloud) + objects.errors(cloud)
    return shapes + ([] if shapes else references.errors(cloud)) + federation.errors(cloud) + inventory.errors(cloud, site)


def plan(site: Site, recorded: str = "", present: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """One pass over the hosts: facts and inventory in, the cloud out.

    :param recorded: the text of the record of promises.
    :param present: under identity_providers what the module oidc_metadata_info read; nothing is needed of what OpenStack has now.
    """
    cloud = openstack_settings.settings_of(site.settings)
    metadata = (present or {}).get("identity_providers") or {}
    errors = check(site) or ([] if recorded else references.new_errors(cloud)) or federation.metadata_errors(cloud, metadata)
    if errors:
        return openstack_plan.nothing(errors)
    control = openstack_hosts.control_hosts(site.groups)
    compute = list(site.groups.get(openstack_hosts.COMPUTE) or [])
    facts = {host: site.facts(host) for host in dict.fromkeys([*control, *compute])}
    errors = [found for host, own in facts.items() for found in inventory.unread(host, own, host in compute)]
    if errors:
        return openstack_plan.nothing(errors)

    parts = openstack_hosts.hosts_of(site.groups)
    names = {part: inventory.name_of(site, host) for part, host in parts.items()}
    addresses = {part: inventory.address_of(facts[host]) for part, host in parts.items()}
    named = {host: inventory.hostname_of(facts[host]) for host in compute}
    before, errors = openstack_plan.present(PROMISES.read(recorded, parts["controller"]), named)
    accepted = set(openstack_settings.listed(cloud["accept_hardware"]))
    computes: list[openstack_plan.Compute] = []
    lost: list[Finding] = []
    leaving: dict[str, list[str]] = {}
    for host in sorted(compute):
        accelerators, allotment = facts[host]["accelerators"], site.hostvars[host].get(_allotment.VARIABLE)
        # A device that is lost is on the host no more, and still its own.
        errors += _allotment.device_errors(host, [*accelerators, *before.get(host, [])], allotment, NAME)
        mine, promised = (_allotment.owned(devices, allotment, NAME) for devices in (accelerators, before.get(host, [])))
        try:
            one, gone = openstack_plan.compute(host, named[host], mine, [] if host in accepted else promised)
        except ValueError as error:
            errors.append(Finding("driver", str(error), host))
            continue
        computes.append(one)
        lost += gone
        leaving[host] = openstack_plan.leaving(before.get(host, []), promised)
    errors += inventory.name_errors({one.host: one.name for one in computes})
    if errors:
        return openstack_plan.nothing(errors)
    return openstack_plan.plan(
        cloud, parts, names, addresses, computes, lost, leaving, federation_front.plan(federation.with_keys(cloud, metadata))
    )
