# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The text of slurm.conf(5) and cgroup.conf(5), computed from data of the hosts.

Pure functions, linear in the hosts.

Memory is in MiB.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import fold, fold_ordered
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.partitions import Partition
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.planned_nodes import PlannedNode, is_cloud, types_of

HEADER = "# Made by deephdc.accelerators from the inventory and the hosts' facts: the next run undoes changes made here.\n"

# The role slurm_node installs it there; a test compares the two.
HEALTH_PROGRAM = "/usr/local/libexec/deephdc/slurm_gpu_health"
TASK_PROLOG = "/usr/local/libexec/deephdc/slurm_task_prolog"

# Patterns, not names: where a node has no such program, SLURM runs none. A name that is not there would drain the node.
PROLOGS = "/etc/slurm/prolog.d/*"
EPILOGS = "/etc/slurm/epilog.d/*"

# The role slurm_rest installs it there; a test compares the two.
JWT_KEY = "/etc/slurm/jwt_hs256.key"


def hardware(facts: t.Mapping[str, t.Any], reserve: int) -> dict[str, int]:
    """CPU topology and schedulable memory (MiB) of a host from its Ansible facts.

    The memory is rounded down, so that a kernel update that takes some of it does not turn the node invalid
    and machines that differ by a few MiB stay equal.
    """
    sockets = max(1, int(facts.get("processor_count") or 1))
    cores = max(1, int(facts.get("processor_cores") or 1))
    threads = max(1, int(facts.get("processor_threads_per_core") or 1))
    cpus = int(facts.get("processor_vcpus") or facts.get("processor_nproc") or sockets * cores * threads)
    if sockets * cores * threads != cpus:  # some virtual machines and Arm boards report no topology
        sockets, cores, threads = 1, cpus, 1
    memory = max(256, (int(facts["memtotal_mb"]) - reserve) // 256 * 256)
    return {"cpus": cpus, "sockets": sockets, "cores": cores, "threads": threads, "memory": memory}


def node_attributes(node: PlannedNode) -> str:
    """A node line without its names, equal for equal hosts."""
    parts = {
        "CPUs": str(node["cpus"]),
        "Boards": "1",
        "SocketsPerBoard": str(node["sockets"]),
        "CoresPerSocket": str(node["cores"]),
        "ThreadsPerCore": str(node["threads"]),
        "RealMemory": str(node["memory"]),
    }
    gres = slurm_gres.value_of(node["units"], node["sharing"])
    if gres:
        parts["Gres"] = gres
    return slurm_settings.with_settings(parts, node["settings"], node.get("state", "UNKNOWN"))


def node_lines(nodes: t.Sequence[PlannedNode]) -> list[str]:
    groups: dict[str, list[PlannedNode]] = {}
    for node in nodes:
        groups.setdefault(node_attributes(node), []).append(node)
    lines = []
    for attributes, group in groups.items():
        # The address of a cloud node is known once it registers.
        addresses = [n["address"] for n in group if n["address"]]
        words = [f"NodeName={fold_ordered([n['name'] for n in group])}", *([f"NodeAddr={fold_ordered(addresses)}"] if addresses else [])]
        lines.append(" ".join([*words, attributes]))
    return lines


def gres_kinds(nodes: t.Iterable[PlannedNode]) -> list[str]:
    """The kinds of gres of a cluster, GresTypes of slurm.conf.

    None where no node has a GPU.
    """
    sharing = [node["sharing"].partition(":")[0] for node in nodes if node["units"]]
    # In this order: if shard comes before mps, SLURM 24.11 gives jobs a share of 0 percent.
    return ["gpu", *sorted(set(sharing) - {"exclusive"})] if sharing else []


def partition_line(partition: Partition, settings: t.Mapping[str, t.Any], access: t.Mapping[str, str]) -> str:
    declared, members = partition.declared, partition.nodes
    own = declared.get("settings") or {}
    keys = {key.lower() for key in own} | {key.lower() for key in settings}
    parts = {"PartitionName": partition.name, "Nodes": fold([n["name"] for n in members])}
    if declared.get("default"):
        parts["Default"] = "YES"
    parts["MaxTime"] = str(declared.get("max_time") or "7-00:00:00")
    parts["DefaultTime"] = str(declared.get("default_time") or "01:00:00")
    if not keys & {"defmempercpu", "defmempernode", "defmempergpu"}:
        # Without it a job that names no memory takes all of the node's, and a second one waits.
        parts["DefMemPerCPU"] = str(min(n["memory"] // n["cpus"] for n in members))
    parts.update(access)
    return slurm_settings.with_settings(parts, own, "UP")


def slurm_conf(cluster: t.Mapping[str, t.Any], nodes: t.Sequence[PlannedNode], partitions: t.Sequence[Partition]) -> str:
    settings, policy = cluster["settings"], cluster.get("policy") or {}
    extra = {key.lower(): value for key, value in settings.items()}
    cloud = any(is_cloud(node) for node in nodes)
    parameters = ["enable_configless", *(slurm_settings.ELASTIC_PARAMETERS if cloud else [])]
    if cloud and cluster["release"] == "22.05":
        parameters.append("cloud_reg_addrs")  # a cloud node's address is the one it registers from; later releases always do so
    defaults = {**slurm_settings.DEFAULTS, **(slurm_settings.ELASTIC_DEFAULTS if cloud else {})}
    if len(cluster["controllers"]) > 1:
        defaults.update(slurm_settings.BACKUP_DEFAULTS)
    if slurm_policy.preempts(policy):
        # Without a type, SLURM would ignore which QOS may preempt which.
        defaults.update(PreemptType="preempt/qos", PreemptMode="REQUEUE")
    ours = {
        "ClusterName": cluster["name"],
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StateSaveLocation": cluster["state_directory"],
        "SlurmdSpoolDir": "/var/lib/slurm/slurmd",
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup,task/affinity",
        "SelectType": "select/cons_tres",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": cluster["databases"][0]["address"],
        # safe: a job starts only if its GPU minutes last to its end, and none is ended because they were lowered.
        "AccountingStorageEnforce": "associations,limits,qos,safe",
        "SlurmctldParameters": slurm_settings.merged_list(parameters, extra.get("slurmctldparameters")),
        "HealthCheckProgram": HEALTH_PROGRAM,
        "Prolog": PROLOGS,
        "Epilog": EPILOGS,
    }
    lists = {
        # Users see nodes that are not there yet, as these serve their jobs too.
        "PrivateData": ["cloud"] if cloud else [],
        # A job whose GPU is broken goes to another node by itself.
        "SchedulerParameters": ["nohold_on_prolog_fail"],
        # Alloc: the GPUs are looked at before salloc has them. Contain: a step per job that ssh sessions are adopted into.
        "PrologFlags": ["Alloc", *(["Contain"] if cluster.get("node_ssh") == "jobs" else [])],
        "AuthAltTypes": ["auth/jwt"] if cluster.get("rest") else [],
        "AuthAltParameters": [f"jwt_key={JWT_KEY}"] if cluster.get("rest") else [],
    }
    for key, values in lists.items():
        if values or extra.get(key.lower()):
            ours[key] = slurm_settings.merged_list(values, extra.get(key.lower()))
    if cloud:
        # Members are a site's own hosts, which are not switched off.
        ours.update(slurm_settings.ELASTIC_PROGRAMS, SuspendExcNodes=fold([n["name"] for n in nodes if not is_cloud(n)]))
    if len(cluster["databases"]) > 1:
        ours["AccountingStorageBackupHost"] = cluster["databases"][1]["address"]
    types = types_of(nodes)
    kinds = gres_kinds(nodes)
    shared = kinds[1:]
    tres = ["gres/gpu", *(f"gres/gpu:{gres_type}" for gres_type in types), *(f"gres/{name}" for name in shared)] if types else []
    if tres or extra.get("accountingstoragetres"):
        ours["AccountingStorageTRES"] = slurm_settings.merged_list(tres, extra.get("accountingstoragetres"))
    if types:
        ours["GresTypes"] = ",".join(kinds)
    if "mps" in shared:
        ours["TaskProlog"] = TASK_PROLOG
    # The first is the primary. Without their addresses no backup takes over where a dead host's name does not resolve.
    lines = [f"SlurmctldHost={one['name']}({one['address']})" for one in cluster["controllers"]]
    lines += [f"{key}={value}" for key, value in sorted(ours.items())]
    lines.append("# Defaults, overridden by slurm_cluster_settings")
    lines += [f"{key}={value}" for key, value in sorted(defaults.items()) if key.lower() not in extra]
    lines.append("# From slurm_cluster_settings")
    lines += [
        f"{key}={slurm_settings.setting(value)}" for key, value in sorted(settings.items()) if key.lower() not in slurm_settings.MERGED
    ]
    lines.append("# Nodes, from their facts")
    lines += node_lines(nodes)
    lines.append("# Partitions, from slurm_cluster_partitions")
    lines += [partition_line(one, settings, slurm_policy.partition_settings(policy, one.name)) for one in partitions]
    return HEADER + "\n".join(lines) + "\n"


def cgroup_conf(settings: t.Mapping[str, t.Any]) -> str:
    ours = {"ConstrainCores": "yes", "ConstrainDevices": "yes", "ConstrainRAMSpace": "yes"}
    lines = [f"{key}={value}" for key, value in sorted(ours.items())]
    lines += [f"{key}={slurm_settings.setting(value)}" for key, value in sorted(settings.items())]
    return HEADER + "\n".join(lines) + "\n"
