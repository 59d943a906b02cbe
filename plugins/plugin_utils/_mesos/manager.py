# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Mesos as a manager: see docs/architecture.md, "One contract for managers"."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import SCHEDULABLE_KINDS
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import hosts as mesos_hosts
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import plan as mesos_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import settings as mesos_settings

NAME = "mesos"
PROMISES = mesos_plan.PROMISES


def check(site: Site) -> list[Finding]:
    """What is wrong with the site, from the inventory alone."""
    cluster = mesos_settings.settings_of(site.settings)
    return mesos_settings.errors(cluster, mesos_hosts.hosts_of(site.groups)) + inventory.errors(cluster, site)


def plan(site: Site, recorded: str = "", present: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """One pass over the hosts: facts and inventory in, the cluster out.

    :param recorded: the text of the record of promises.
    :param present: nothing is needed of what Mesos has now.
    """
    del present
    errors = check(site)
    if errors:
        return mesos_plan.nothing(errors)
    cluster = mesos_settings.settings_of(site.settings)
    parts = mesos_hosts.hosts_of(site.groups)
    hosts = mesos_hosts.all_hosts(site.groups)
    facts = {host: site.facts(host) for host in hosts}
    errors = [found for host in hosts for found in inventory.unread(host, facts[host], host in parts["agents"])]
    errors = errors or [found for host in parts["agents"] for found in inventory.unfit(host, cluster["mesos_source"], facts[host])]
    if errors:
        return mesos_plan.nothing(errors)

    before = PROMISES.read(recorded, parts["masters"][0])["nodes"]
    accepted = set(mesos_settings.listed(cluster["accept_hardware"]))
    agents: list[mesos_plan.Agent] = []
    for host in parts["agents"]:
        found, allotment = facts[host]["accelerators"], site.hostvars[host].get(_allotment.VARIABLE)
        # A device that is lost is on the host no more, and still its own.
        errors += _allotment.device_errors(host, [*found, *before.get(host, [])], allotment, NAME)
        mine, promised = (_allotment.owned(devices, allotment, NAME) for devices in (found, before.get(host, [])))
        mine = [device for device in mine if device.get("kind") in SCHEDULABLE_KINDS]
        given = inventory.agent_settings(site.hostvars[host])
        errors += inventory.gpu_errors(host, mine, facts[host], str(given["device_root"]) != "/")
        try:
            agents.append(mesos_plan.agent(host, given, facts[host], mine, [] if host in accepted else promised))
        except ValueError as error:
            errors.append(Finding("driver", str(error), host))
    if errors:
        return mesos_plan.nothing(errors)
    names = {host: inventory.name_of(site, host) for host in hosts}
    addresses = {host: inventory.address_of(site, host) for host in hosts}
    return mesos_plan.plan(cluster, parts, names, addresses, agents)
