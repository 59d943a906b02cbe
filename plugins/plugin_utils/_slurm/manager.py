# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""SLURM as a manager: see docs/architecture.md, "One contract for managers"."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises, units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import releases as slurm_releases
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import conf as slurm_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import elastic as slurm_elastic
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import inventory as slurm_inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import plan as slurm_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import policy_file as slurm_policy_file
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import summary as slurm_summary
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.planned_nodes import Node

NAME = "slurm"
PROMISES = slurm_plan.PROMISES


def check(site: Site) -> list[Finding]:
    """What is wrong with the site, from the inventory alone."""
    cluster = site.settings
    policy, unread = slurm_policy_file.read(cluster.get("policy"), cluster.get("policy_file"))
    purge = not unread and boolean(cluster.get("policy_purge") or False)
    whole = {**cluster, "policy": policy, "policy_purge": purge}
    errors = slurm_inventory.errors(site.groups, site.hostvars, site.in_play, whole, site.hostvars.raw_get) + unread
    return [Finding("inventory", error) for error in errors]


def address_of(variables: t.Any, facts: dict[str, t.Any]) -> str | None:
    return variables.get("slurm_cluster_address") or (facts.get("default_ipv4") or {}).get("address")


def recorded_sharing(record: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return how the nodes of an earlier run share their GPUs.

    Before there was a choice they were exclusive.
    """
    return {**dict.fromkeys(record["nodes"], "exclusive"), **(record.get("sharing") or {})}


def listed(value: t.Any) -> list[str]:
    """A list, also from the text that -e name=value gives."""
    return [host.strip() for host in value.split(",")] if isinstance(value, str) else list(value)


def names_of(site: Site, hosts: t.Iterable[str]) -> dict[str, str]:
    """Return SLURM's names of nodes.

    They are the nodes' own short names, as far as facts are known, else what the inventory calls them.
    """
    return {host: str(site.facts(host).get("hostname") or slurm_inventory.short_name(host)) for host in hosts}


def unfit(site: Site, host: str, recorded: t.Sequence[dict[str, t.Any]]) -> list[Finding]:
    """What is wrong with the devices that a node was promised to have."""
    allotment = site.hostvars[host].get(_allotment.VARIABLE)
    # MIG instances that nothing reports this time would belong to no manager.
    found = promises.all_as_recorded(site.facts(host).get("accelerators") or [], recorded)
    present, before = (_allotment.owned(devices, allotment, NAME) for devices in (found, recorded))
    return promises.with_lost(present, before, host)[1]


def open_to_jobs(host: str, accelerators: t.Sequence[dict[str, t.Any]], allotment: t.Any, closed: t.Collection[str] = ()) -> list[Finding]:
    """Return what jobs of a node can open although it is not SLURM's.

    SLURM denies them only the devices that it has.

    :param closed: device files that were seen to be closed to them, by the role gpu_guard.
    """
    own = units.units(_allotment.owned(accelerators, allotment, NAME))
    found = []
    for unit in units.units(accelerators):
        if unit not in own and not (unit.files and unit.files[-1] in closed):
            device = unit.uuid if unit.is_mig and unit.uuid else unit.pci_address
            remedy = (
                "list it for slurm, or give it to virtual machines and bind it to vfio-pci (pci_passthrough), or to kubernetes, whose "
                "playbook closes it to jobs"
            )
            sentence = (
                f"jobs of SLURM on {host} can open the {unit.type} {device}, which {_allotment.VARIABLE} does not give to SLURM: {remedy}."
            )
            found.append(Finding("division", sentence, host, device, remedy))
    return found


def plan(site: Site, recorded: str = "", present: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """One pass over the members: facts and inventory in, the cluster's files out.

    Options given on the command line (-e name=value) are text, so they are converted here.

    :param recorded: the text of the record of promises. present: what slurmctld has now, see slurm_plan.plan.
    """
    hostvars, groups, cluster = site.hostvars, site.groups, site.settings
    facts = {host: site.facts(host) for host in slurm_inventory.member_names(groups)}
    controllers, databases = groups["slurm_controllers"], groups["slurm_databases"]
    controller = controllers[0]
    other_suite = bool(hostvars[controller].get("slurm_packages_suite"))
    errors: list[str | Finding] = []
    errors += slurm_inventory.fact_errors(facts, controller, boolean(cluster["untested_platforms"]), other_suite)
    addresses = {host: address_of(hostvars[host], own) for host, own in facts.items() if own}
    errors += [
        f"The host {host} has no default IPv4 address: set slurm_cluster_address for it."
        for host, address in addresses.items()
        if not address
    ]
    if not errors:
        errors += slurm_inventory.same({host: str(address) for host, address in addresses.items()}, "address")
        errors += slurm_inventory.strange_addresses(
            {host: str(hostvars[host]["slurm_cluster_address"]) for host in facts if hostvars[host].get("slurm_cluster_address")}, facts
        )
    errors += [
        f"ansible_python_interpreter of {host} does not see the distribution's Python packages, which are needed to make the database: "
        "set it to /usr/bin/python3."
        for host in databases
        if (hostvars[host].get("slurm_cluster_packages") or {}).get("distribution_python") is False
    ]
    accepted = listed(cluster["accept_hardware"])
    errors += [
        f"slurm_cluster_accept_hardware names {host}, which is not in slurm_nodes."
        for host in accepted
        if host not in groups["slurm_nodes"]
    ]
    errors = errors or [
        f"Accelerators and memory of {host} were not read: bring it up, or take it out of slurm_nodes, then run again."
        for host in groups["slurm_nodes"]
        if "accelerators" not in facts[host] or "memtotal_mb" not in facts[host]
    ]
    # Login hosts stay open to all users, also where they run jobs.
    guarded = [host for host in groups["slurm_nodes"] if cluster.get("node_ssh") == "jobs" and host not in groups.get("slurm_logins", [])]
    logins = {host: (hostvars[host].get("slurm_cluster_login") or {}).get("stdout", "").split() for host in guarded}
    exempt = [str(name) for name in cluster.get("node_ssh_groups") or []]
    record = PROMISES.read(recorded, controller)
    before = record["nodes"]
    allotments = {host: hostvars[host].get(_allotment.VARIABLE) for host in groups["slurm_nodes"]}
    accelerators = {}
    for host, allotment in allotments.items():
        promised = [] if host in accepted else before.get(str(facts[host].get("hostname")), [])
        # MIG instances that nothing reports this time would belong to no manager.
        accelerators[host] = promises.all_as_recorded(facts[host].get("accelerators") or [], promised)
        # A device that is lost is on the host no more, and still its own.
        if "accelerators" in facts[host]:
            errors += _allotment.device_errors(host, [*accelerators[host], *promised], allotment, NAME)
    errors += slurm_inventory.locked_out({host: words for host, words in logins.items() if words}, exempt)
    if errors:
        more = {"names": {}, "controllers": [], "release": "", "guarded": [], "ssh_groups": [], "elastic": [], "open_to_jobs": {}}
        return {**slurm_plan.nothing(errors, []), **more}
    names = {host: str(own["hostname"]) for host, own in facts.items()}
    nodes = []
    for host in groups["slurm_nodes"]:
        nodes.append(
            {
                "name": names[host],
                "address": addresses[host],
                "accelerators": _allotment.owned(accelerators[host], allotments[host], NAME),
                "allotment": allotments[host],
                "settings": hostvars[host].get("slurm_cluster_node_settings") or {},
                "gpu_sharing": hostvars[host].get("slurm_cluster_gpu_sharing"),
                **slurm_conf.hardware(facts[host], int(cluster["memory_reserve_mib"])),
            }
        )
    policy, _unread = slurm_policy_file.read(cluster.get("policy"), cluster.get("policy_file"))
    platform = (str(facts[controller].get("distribution")), str(facts[controller].get("distribution_major_version")))
    installed = slurm_inventory.installed_releases(facts)
    whole = {
        **cluster,
        "policy": policy,
        "rest": bool(groups.get("slurm_rest")),
        "release": installed[controller] or slurm_plan.RELEASES.get(platform),
        "controllers": [{"name": names[host], "address": addresses[host]} for host in controllers],
        "databases": [{"name": names[host], "address": addresses[host]} for host in databases],
        "state_directory": slurm_inventory.state_directory(hostvars[controller]),
        "accept_hardware": [names.get(host, host) for host in accepted],
    }
    by_name = {group: [names[host] for host in hosts if host in names] for group, hosts in groups.items()}
    members = t.cast(t.List[Node], nodes)
    cloud = slurm_elastic.planned(cluster.get("cloud_nodes") or [], int(cluster["memory_reserve_mib"]))
    planned = slurm_plan.plan(whole, members, by_name, before, present, recorded_sharing(record), cloud)
    behind = slurm_releases.installed_warnings(installed, controller)
    hosts = {name: host for host, name in names.items()}
    opened = {
        host: open_to_jobs(host, accelerators[host], allotment, facts[host].get("closed_to_jobs") or ())
        for host, allotment in allotments.items()
        if allotment
    }
    return {
        **planned,
        "findings": [
            *({**found, "host": hosts.get(found["host"], found["host"])} for found in planned["findings"]),
            *(found.as_dict() for of_host in opened.values() for found in of_host),
            *(found.as_dict() for found in behind),
        ],
        "offers": {hosts[name]: units for name, units in planned["offers"].items()},
        "warnings": [*planned["warnings"], *map(str, behind)],
        "summary": slurm_summary.lines(
            str(cluster["name"]),
            planned["offers"],
            {names[host]: str(addresses[host]) for host in groups.get("slurm_logins", [])},
            [text for text in [slurm_summary.without_gpus(members)] if text in planned["warnings"]],
        ),
        "names": names,
        "controllers": [addresses[host] for host in controllers],
        "release": installed[controller],
        "guarded": guarded,
        "ssh_groups": exempt,
        "elastic": slurm_elastic.hooks(cluster.get("cloud_nodes") or []),
        "open_to_jobs": {host: [found.sentence for found in of_host] for host, of_host in opened.items() if of_host},
    }
