# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Kubernetes as a manager: see docs/architecture.md, "One contract for managers"."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment, _gpu_guard
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import (
    control_plane,
    dra,
    gpu_modes,
    kubeadm,
    policy_settings,
    runtimes,
    shared_hosts,
    sharing,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import inventory as kubernetes_inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import plan as kubernetes_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import queue as kubernetes_queue
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
    found = kubernetes_inventory.errors(cluster, site.groups, variables) + policy_settings.errors(cluster)
    found += kubernetes_queue.errors(cluster)
    # As written, where Ansible has it; a dictionary of variables has no templates.
    raw = getattr(site.hostvars, "raw_get", site.hostvars.__getitem__)
    first, *others = list(variables) or [""]
    return found + (kubernetes_inventory.disagreements(first, others, raw) if others else [])


def plan(site: Site, recorded: str = "", present: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """One pass over the hosts: facts and inventory in, the cluster out.

    :param recorded: the text of the record of promises.
    :param present: what the module kubernetes_gpu_pods_info returned, where there is a cluster.
    """
    cluster, variables = kubernetes_settings.settings_of(site.settings), members(site)
    errors = kubernetes_inventory.errors(cluster, site.groups, variables) + policy_settings.errors(cluster)
    errors += kubernetes_queue.errors(cluster)
    if errors:
        return kubernetes_plan.nothing(errors)
    control = list(site.groups[CONTROL_PLANE])
    facts = {host: own.get("ansible_facts") or {} for host, own in variables.items()}
    states = {host: own.get(STATE) or {} for host, own in variables.items()}
    absent = {host: found for host in control if not states[host] for found in control_plane.remembered(variables[host])}
    facts.update({host: known for host, (known, _state) in absent.items()})
    states.update({host: state for host, (_known, state) in absent.items()})
    errors = [found for host in variables for found in kubernetes_plan.unread(host, facts[host], states[host], host not in control)]
    if errors:
        return kubernetes_plan.nothing(errors)
    given = {host: str(own[kubernetes_inventory.ADDRESS]) for host, own in variables.items() if own.get(kubernetes_inventory.ADDRESS)}
    addresses = {host: given.get(host) or str((own.get("default_ipv4") or {}).get("address") or "") for host, own in facts.items()}
    names = {host: str(own["hostname"]).lower() for host, own in facts.items()}
    for host in (host for host in variables if host not in absent):
        packages = variables[host].get(runtimes.PACKAGES)
        errors += kubernetes_plan.host_errors(cluster, host, facts[host], states[host], host not in control, packages)
    errors += kubernetes_inventory.name_errors(names)
    errors += kubernetes_plan.address_errors(cluster, addresses, given, facts)

    before = PROMISES.read(recorded, control[0])["nodes"]
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
        errors += shared_hosts.errors(hosts[host], accelerators, allotment)
        kept = [] if host in accepted else promised
        shared = sharing.of(variables[host].get(sharing.VARIABLE)) or sharing.EXCLUSIVE
        try:
            worker, gone = kubernetes_plan.settled(cluster, hosts[host], mine, kept, shared)
        except ValueError as error:
            errors.append(Finding("driver", str(error), host))
            continue
        errors += sharing.hardware_errors(host, shared, worker.devices)
        if cluster["gpus"] == "dra":
            errors += dra.host_errors(host, worker.devices)
        workers.append(worker)
        lost += gone
        warnings += kubernetes_plan.left_out(cluster, host, mine, {device["pci_address"] for device in kept})
    # Another manager's devices are published by a DRA driver as well, so the classes must name ours.
    named = any(variables[host].get(_allotment.VARIABLE) for host in site.groups[WORKERS])
    errors += dra.cluster_errors([part for worker in workers for part in worker.parts], named)
    errors += gpu_modes.change_errors(cluster["gpus"], present)
    if errors:
        return kubernetes_plan.nothing(errors, warnings)
    planned = kubernetes_plan.plan(cluster, [hosts[host] for host in control], workers, lost, warnings, named)
    for host, one in planned["watched"].items():
        listed = _allotment.given_to(variables[host].get(_allotment.VARIABLE), NAME)
        one["given"] = None if listed is None else sorted(listed)
    planned["guards"] = _gpu_guard.guards(
        {host: facts[host]["accelerators"] for host in site.groups[WORKERS]},
        {host: variables[host].get(_allotment.VARIABLE) for host in site.groups[WORKERS]},
        [host for host in site.groups[WORKERS] if states[host].get("guarded")],
    )
    return kubernetes_queue.with_queue(planned, cluster, policy_settings.read(cluster), workers, facts, len(site.groups[CONTROL_PLANE]))
