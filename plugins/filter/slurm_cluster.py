# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that check a SLURM inventory and plan its cluster."""

from __future__ import annotations

import json
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.deephdc.accelerators.plugins.module_utils import (
    _slurm_cluster,
    _slurm_conf,
    _slurm_devices,
    _slurm_elastic,
    _slurm_inventory,
    _slurm_releases,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _slurm_policy_file
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


def slurm_inventory_errors(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str], cluster: dict[str, t.Any]) -> list[str]:
    policy, unread = _slurm_policy_file.read(cluster.get("policy"), cluster.get("policy_file"))
    purge = not unread and boolean(cluster.get("policy_purge") or False)
    whole = {**cluster, "policy": policy, "policy_purge": purge}
    return _slurm_inventory.errors(groups, hostvars, in_play, whole, hostvars.raw_get) + unread


def member_facts(hostvars: t.Any, host: str) -> dict[str, t.Any]:
    return hostvars[host].get("ansible_facts") or {}


def slurm_members_without_facts(hostvars: t.Any, groups: dict[str, list[str]], in_play: list[str]) -> list[str]:
    """Members outside of this run of which nothing is known yet."""
    nodes, here = set(groups.get("slurm_nodes", [])), set(in_play)
    missing = []
    for host in _slurm_inventory.member_names(groups):
        if host not in here:
            facts = member_facts(hostvars, host)
            if "hostname" not in facts or "memtotal_mb" not in facts or (host in nodes and "accelerators" not in facts):
                missing.append(host)
    return missing


def address_of(variables: t.Any, facts: dict[str, t.Any]) -> str | None:
    return variables.get("slurm_cluster_address") or (facts.get("default_ipv4") or {}).get("address")


def recorded_devices(recorded: str, controller: str) -> dict[str, list[dict[str, t.Any]]]:
    """The devices that an earlier run configured, by node; empty where there was none."""
    if not recorded:
        return {}
    try:
        nodes = json.loads(recorded.removeprefix(_slurm_devices.RECORD_HEADER))["nodes"]
        if all("pci_address" in device for devices in nodes.values() for device in devices):
            return dict(nodes)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise ValueError(f"The record of accelerators on {controller} is damaged: restore or remove it, then run again.")


def recorded_sharing(recorded: str) -> dict[str, str]:
    """How the nodes of an earlier run share their GPUs; before there was a choice they were exclusive."""
    if not recorded:
        return {}
    record = json.loads(recorded.removeprefix(_slurm_devices.RECORD_HEADER))
    return {**dict.fromkeys(record["nodes"], "exclusive"), **(record.get("sharing") or {})}


def accepted_hosts(value: t.Any) -> list[str]:
    return [host.strip() for host in value.split(",")] if isinstance(value, str) else list(value)


def slurm_cluster_plan(
    hostvars: t.Any,
    groups: dict[str, list[str]],
    cluster: dict[str, t.Any],
    recorded: str = "",
    present: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """One pass over the members: facts and inventory in, the cluster's files out.

    Options given on the command line (-e name=value) are text, so they are converted here.
    """
    facts = {host: member_facts(hostvars, host) for host in _slurm_inventory.member_names(groups)}
    controllers, databases = groups["slurm_controllers"], groups["slurm_databases"]
    controller = controllers[0]
    other_suite = bool(hostvars[controller].get("slurm_packages_suite"))
    errors = _slurm_inventory.fact_errors(facts, controller, boolean(cluster["untested_platforms"]), other_suite)
    addresses = {host: address_of(hostvars[host], own) for host, own in facts.items() if own}
    errors += [
        f"The host {host} has no default IPv4 address: set slurm_cluster_address for it."
        for host, address in addresses.items()
        if not address
    ]
    if not errors:
        errors = _slurm_inventory.same({host: str(address) for host, address in addresses.items()}, "address")
        errors += _slurm_inventory.strange_addresses(
            {host: str(hostvars[host]["slurm_cluster_address"]) for host in facts if hostvars[host].get("slurm_cluster_address")}, facts
        )
    errors += [
        f"ansible_python_interpreter of {host} does not see the distribution's Python packages, which are needed to make the database: "
        "set it to /usr/bin/python3."
        for host in databases
        if (hostvars[host].get("__slurm_cluster_packages") or {}).get("distribution_python") is False
    ]
    errors += [
        f"slurm_cluster_accept_hardware names {host}, which is not in slurm_nodes."
        for host in accepted_hosts(cluster["accept_hardware"])
        if host not in groups["slurm_nodes"]
    ]
    errors = errors or [
        f"Accelerators and memory of {host} were not read: bring it up, or take it out of slurm_nodes, then run again."
        for host in groups["slurm_nodes"]
        if "accelerators" not in facts[host] or "memtotal_mb" not in facts[host]
    ]
    # Login hosts stay open to all users, also where they run jobs.
    guarded = [host for host in groups["slurm_nodes"] if cluster.get("node_ssh") == "jobs" and host not in groups.get("slurm_logins", [])]
    logins = {host: (hostvars[host].get("__slurm_cluster_login") or {}).get("stdout", "").split() for host in guarded}
    exempt = [str(name) for name in cluster.get("node_ssh_groups") or []]
    errors += _slurm_inventory.locked_out({host: words for host, words in logins.items() if words}, exempt)
    if errors:
        more = {"names": {}, "controllers": [], "release": "", "guarded": [], "ssh_groups": [], "elastic": []}
        return {**_slurm_cluster.nothing(errors, []), **more}
    names = {host: str(own["hostname"]) for host, own in facts.items()}
    nodes = []
    for host in groups["slurm_nodes"]:
        nodes.append(
            {
                "name": names[host],
                "address": addresses[host],
                "accelerators": facts[host]["accelerators"],
                "settings": hostvars[host].get("slurm_cluster_node_settings") or {},
                "gpu_sharing": hostvars[host].get("slurm_cluster_gpu_sharing"),
                **_slurm_conf.hardware(facts[host], int(cluster["memory_reserve_mib"])),
            }
        )
    policy, _unread = _slurm_policy_file.read(cluster.get("policy"), cluster.get("policy_file"))
    before = recorded_devices(recorded, controller)
    accepted = accepted_hosts(cluster["accept_hardware"])
    platform = (str(facts[controller].get("distribution")), str(facts[controller].get("distribution_major_version")))
    installed = _slurm_inventory.installed_releases(facts)
    whole = {
        **cluster,
        "policy": policy,
        "rest": bool(groups.get("slurm_rest")),
        "release": installed[controller] or _slurm_cluster.RELEASES.get(platform),
        "controllers": [{"name": names[host], "address": addresses[host]} for host in controllers],
        "databases": [{"name": names[host], "address": addresses[host]} for host in databases],
        "state_directory": _slurm_inventory.state_directory(hostvars[controller]),
        "accept_hardware": [names.get(host, host) for host in accepted],
    }
    by_name = {group: [names[host] for host in hosts if host in names] for group, hosts in groups.items()}
    members = t.cast("list[_slurm_conf.Node]", nodes)
    cloud = _slurm_elastic.planned(cluster.get("cloud_nodes") or [], int(cluster["memory_reserve_mib"]))
    planned = _slurm_cluster.plan(whole, members, by_name, before, present, recorded_sharing(recorded), cloud)
    warnings = planned["warnings"] + _slurm_releases.installed_warnings(installed, controller)
    return {
        **planned,
        "warnings": warnings,
        "names": names,
        "controllers": [addresses[host] for host in controllers],
        "release": installed[controller],
        "guarded": guarded,
        "ssh_groups": exempt,
        "elastic": _slurm_elastic.hooks(cluster.get("cloud_nodes") or []),
    }


class FilterModule:
    """Checks and plan of a SLURM cluster."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "slurm_inventory_errors": as_filter(slurm_inventory_errors),
            "slurm_members_without_facts": as_filter(slurm_members_without_facts),
            "slurm_cluster_plan": as_filter(slurm_cluster_plan),
        }
