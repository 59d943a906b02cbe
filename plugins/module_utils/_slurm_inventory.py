# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What is wrong with an inventory for SLURM, told before a host is touched: pure functions.

Each function returns sentences; each sentence names the variable or group and the hosts.
"""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _slurm_cluster

GROUPS = ("slurm_controllers", "slurm_databases", "slurm_nodes", "slurm_logins")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
PARTITION_KEYS = {"name", "group", "gpu_types", "default", "max_time", "default_time", "settings"}

MAKE_MUNGE_KEY = "make one with 'openssl rand -base64 128 | tr -d \"\\n\"' and keep it in ansible-vault"


def member_names(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """All hosts of the cluster, each once, in the groups' order."""
    return list(dict.fromkeys(host for group in GROUPS for host in groups.get(group, [])))


def group_errors(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    errors = []
    for group, what in (("slurm_controllers", "runs slurmctld"), ("slurm_databases", "runs slurmdbd and its MariaDB")):
        hosts = list(groups.get(group, []))
        if not hosts:
            errors.append(f"The inventory has no host in the group {group}: name the one that {what}.")
        elif len(hosts) > 1:
            errors.append(f"The group {group} has {len(hosts)} hosts ({', '.join(hosts)}), but exactly one {what}: leave one.")
    if not groups.get("slurm_nodes"):
        errors.append("The inventory has no host in the group slurm_nodes: name the hosts that run jobs.")
    return errors


def same(values: t.Mapping[str, str], what: str) -> list[str]:
    """One sentence for each value that several hosts share."""
    hosts_of: dict[str, list[str]] = {}
    for host, value in values.items():
        hosts_of.setdefault(value, []).append(host)
    return [f"The hosts {' and '.join(hosts)} have the same {what} {value}: correct one of them." for value, hosts in hosts_of.items() if len(hosts) > 1]


def address_errors(variables: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Hosts that the inventory lets meet at one address or under one name."""
    errors = same({host: host.split(".", 1)[0].lower() for host in variables}, "short name")
    for key in ("ansible_host", "slurm_cluster_address"):
        values = {host: str(own[key]) for host, own in variables.items() if own.get(key)}
        ports = {host: str(own.get("ansible_port", "")) for host, own in variables.items()}
        if key == "ansible_host":  # several hosts behind one forwarded address differ by port
            values = {host: value + (f" port {ports[host]}" if ports[host] else "") for host, value in values.items()}
        errors += same(values, key)
    return errors


def delegation_errors(raw_addresses: t.Mapping[str, t.Any]) -> list[str]:
    """Addresses that a delegated task would resolve to another host: Ansible keeps the delegating host's inventory_hostname."""
    return [
        f"ansible_host of {host} is made of inventory_hostname, which means another host in delegated tasks: "
        "write the name itself, or make it of a variable of its own."
        for host, address in raw_addresses.items()
        if "{{" in str(address) and "inventory_hostname" in str(address)
    ]


def munge_key_errors(variables: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    missing, distinct = [], set()
    for host, own in variables.items():
        if not own.get("munge_key"):
            missing.append(host)
            continue
        distinct.add(str(own["munge_key"]))
    if missing:
        return [f"munge_key is not set for {', '.join(missing)}: {MAKE_MUNGE_KEY}."]
    if len(distinct) > 1:
        return ["munge_key differs between the hosts of the cluster: give all of them the same, in group_vars/all."]
    for key in distinct:
        try:
            size = len(base64.b64decode(key, validate=True))
        except (binascii.Error, ValueError):
            return [f"munge_key is not valid base64: {MAKE_MUNGE_KEY}."]
        if not 32 <= size <= 1024:
            return [f"munge_key has {size} bytes, munge takes 32 to 1024: {MAKE_MUNGE_KEY}."]
    return []


def partition_errors(partitions: t.Any, groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """What is wrong with slurm_cluster_partitions without knowing the hardware."""
    if not isinstance(partitions, (list, tuple)) or not all(isinstance(p, t.Mapping) for p in partitions):
        return ["slurm_cluster_partitions must be a list of partitions, each with a name."]
    errors = []
    names = [str(p.get("name", "")) for p in partitions]
    if not names:
        errors.append("slurm_cluster_partitions is empty: name at least one partition.")
    for partition, name in zip(partitions, names):
        if not NAME.fullmatch(name.lower()):
            errors.append(f"slurm_cluster_partitions: '{name}' is no partition name (letters, digits, '_' and '-').")
        if names.count(name) > 1:
            errors.append(f"slurm_cluster_partitions names the partition {name} more than once.")
        unknown = sorted(set(partition) - PARTITION_KEYS)
        if unknown:
            errors.append(f"slurm_cluster_partitions: partition {name} has the unknown key {unknown[0]} (known: {', '.join(sorted(PARTITION_KEYS))}).")
        group = str(partition.get("group") or "slurm_nodes")
        strangers = [host for host in groups.get(group, []) if host not in groups.get("slurm_nodes", [])]
        if not groups.get(group):
            errors.append(f"slurm_cluster_partitions: partition {name} has the group {group}, which is not in the inventory or has no host.")
        elif strangers:
            errors.append(f"slurm_cluster_partitions: the group {group} of partition {name} has {strangers[0]}, which is not in slurm_nodes.")
    if sum(1 for p in partitions if p.get("default")) > 1:
        errors.append("slurm_cluster_partitions has more than one default partition.")
    return list(dict.fromkeys(errors))


def disagreements(mine: t.Mapping[str, t.Any], controllers: t.Mapping[str, t.Any], me: str, controller: str, per_host: t.Container[str]) -> list[str]:
    """Cluster-wide variables that this host sees otherwise than the controller: whichever host a run starts from
    (--limit) must compute the same cluster."""
    names = sorted({name for name in (*mine, *controllers) if name.startswith("slurm_cluster_") and name not in per_host})
    return [
        f"{name} differs between {controller} and {me}: set it once for all hosts of the cluster, in group_vars/all."
        for name in names
        if mine.get(name) != controllers.get(name)
    ]


def errors(
    groups: t.Mapping[str, t.Sequence[str]],
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    here: str,
    cluster: t.Mapping[str, t.Any],
    raw: t.Callable[[str], t.Mapping[str, t.Any]],
) -> list[str]:
    """All that can be said from the inventory alone.

    here: the host a run computes on. cluster: name, partitions, settings, cgroup_settings. raw: a host's variables
    before templates in them are resolved.
    """
    found = group_errors(groups)
    variables = {host: hostvars[host] for host in member_names(groups)}
    keys = ("ansible_host", "ansible_port", "slurm_cluster_address", "munge_key")
    own = {host: {key: seen[key] for key in keys if key in seen} for host, seen in variables.items()}
    found += address_errors(own)
    served = [host for group in ("slurm_controllers", "slurm_logins") for host in groups.get(group, [])]
    found += delegation_errors({host: raw(host).get("ansible_host", "") for host in dict.fromkeys(served)})
    if not cluster["name"]:
        found.append("slurm_cluster_name is not set: give the cluster a name of small letters, digits, '_' and '-', in group_vars/all.")
    elif not NAME.fullmatch(str(cluster["name"])):
        found.append(f"slurm_cluster_name '{cluster['name']}' is not allowed: small letters, digits, '_' and '-'.")
    found += munge_key_errors(own)
    found += _slurm_cluster.reserved_settings(cluster["settings"], cluster["cgroup_settings"])
    found += partition_errors(cluster["partitions"], groups)
    if groups.get("slurm_controllers"):
        controller = groups["slurm_controllers"][0]
        found += disagreements(variables.get(here, {}), variables[controller], here, controller, PER_HOST)
    return found


PER_HOST = {"slurm_cluster_address", "slurm_cluster_node_settings", "slurm_cluster_device_root"}


def fact_errors(facts: t.Mapping[str, t.Mapping[str, t.Any]], controller: str, allow_untested: bool) -> list[str]:
    """What the facts of the members contradict. facts: host to its facts, empty where there are none."""
    found = []
    names = {}
    releases = {}
    for host, own in facts.items():
        if "hostname" not in own:
            found.append(
                f"No facts of {host} are known: it did not answer and nothing is cached; "
                "bring it up, or take it out of its slurm_ groups, then run again."
            )
            continue
        names[host] = str(own["hostname"]).lower()
        platform = (str(own.get("distribution")), str(own.get("distribution_major_version")))
        releases[host] = _slurm_cluster.RELEASES.get(platform)
        if releases[host] is None and not allow_untested:
            known = ", ".join(" ".join(p) for p in _slurm_cluster.RELEASES)
            found.append(
                f"{host} runs {platform[0]} {platform[1]}, which is not supported (supported: {known}); "
                "slurm_cluster_untested_platforms=true tries it all the same."
            )
    found += same(names, "hostname")
    for host, release in releases.items():
        ours = releases.get(controller)
        if release and ours and release != ours:
            found.append(
                f"{host} brings SLURM {release} but the controller {controller} {ours}, too far apart to work together: "
                "one distribution release per cluster."
            )
    return found
