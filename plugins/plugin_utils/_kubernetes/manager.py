# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Kubernetes as one of the managers: see docs/architecture.md, "One contract for managers"."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import inventory as kubernetes_inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import kubeadm
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import plan as kubernetes_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import settings as kubernetes_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.inventory import CONTROL_PLANE, WORKERS

NAME = "kubernetes"
PROMISES = kubernetes_plan.PROMISES
STATE = "kubernetes_node_host"  # what the role kubernetes_node read of a host beside Ansible's own facts


def members(site: Site) -> dict[str, t.Mapping[str, t.Any]]:
    """The variables of the cluster's hosts, the control plane first.

    :raises ValueError: they are no dictionary, or lack a host.
    """
    if not isinstance(site.hostvars, t.Mapping):
        raise ValueError("The variables of hosts must be a dictionary, as hostvars is.")
    found = {}
    for host in kubernetes_inventory.members_of(site.groups):
        if host not in site.hostvars:
            raise ValueError(f"The host {host} is not in the inventory.")
        found[host] = site.hostvars[host]
    return found


def check(site: Site) -> list[Finding]:
    """What is wrong with the site, from the inventory alone."""
    cluster, variables = kubernetes_settings.settings_of(site.settings), members(site)
    found = kubernetes_inventory.errors(cluster, site.groups, variables)
    # As written, where Ansible has it; a dictionary of variables has no templates.
    raw = getattr(site.hostvars, "raw_get", site.hostvars.__getitem__)
    first, *others = list(variables) or [""]
    return found + (kubernetes_inventory.disagreements(first, others, raw) if others else [])


def plan(site: Site, recorded: str = "", present: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """One pass over the hosts: facts and inventory in, the cluster out.

    :param recorded: the text of the record of promises. present: nothing is needed yet of what the cluster has now.
    """
    cluster, variables = kubernetes_settings.settings_of(site.settings), members(site)
    errors = kubernetes_inventory.errors(cluster, site.groups, variables)
    if errors:
        return kubernetes_plan.nothing(errors)
    control = site.groups[CONTROL_PLANE][0]
    facts = {host: own.get("ansible_facts") or {} for host, own in variables.items()}
    states = {host: own.get(STATE) or {} for host, own in variables.items()}
    errors = [found for host in variables for found in kubernetes_plan.unread(host, facts[host], states[host], host != control)]
    if errors:
        return kubernetes_plan.nothing(errors)
    given = {host: str(own[kubernetes_inventory.ADDRESS]) for host, own in variables.items() if own.get(kubernetes_inventory.ADDRESS)}
    addresses = {host: given.get(host) or str((own.get("default_ipv4") or {}).get("address") or "") for host, own in facts.items()}
    names = {host: str(own["hostname"]).lower() for host, own in facts.items()}
    for host in variables:
        errors += kubernetes_plan.host_errors(cluster, host, facts[host], states[host], host != control)
    errors += kubernetes_inventory.name_errors(names)
    errors += kubernetes_plan.address_errors(cluster, addresses, given, facts)

    before = PROMISES.read(recorded, control)["nodes"]
    accepted = set(kubernetes_settings.listed(cluster["accept_hardware"]))
    hosts = {host: kubeadm.Host(host, names[host], addresses[host], int(states[host]["cgroup"])) for host in variables}
    workers: list[kubernetes_plan.Worker] = []
    lost: list[Finding] = []
    warnings: list[Finding] = []
    for host in sorted(site.groups[WORKERS]):
        accelerators, allotment = facts[host]["accelerators"], variables[host].get(_allotment.VARIABLE)
        # A device that is lost is on the host no more, and still its own.
        there = [*accelerators, *before.get(host, [])]
        errors += _allotment.device_errors(host, there, allotment, NAME)
        mine, promised = (_allotment.owned(devices, allotment, NAME) for devices in (accelerators, before.get(host, [])))
        errors += kubernetes_plan.shared_errors(cluster, host, accelerators, mine)
        kept = [] if host in accepted else promised
        replicas = int(variables[host].get(kubernetes_settings.OF_A_NODE) or cluster["gpu_replicas"])
        try:
            worker, gone = kubernetes_plan.settled(cluster, hosts[host], mine, kept, replicas)
        except ValueError as error:
            errors.append(Finding("driver", str(error), host))
            continue
        workers.append(worker)
        lost += gone
        warnings += kubernetes_plan.left_out(cluster, host, mine, {device["pci_address"] for device in kept})
    if errors:
        return kubernetes_plan.nothing(errors, warnings)
    return kubernetes_plan.plan(cluster, hosts[control], workers, lost, warnings)
