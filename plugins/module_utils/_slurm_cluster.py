# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The plan of a SLURM cluster, computed from data of its hosts: pure functions, linear in the hosts.

Terms are those of slurm.conf(5), gres.conf(5) and cgroup.conf(5). Memory is in MiB.
"""

from __future__ import annotations

import hashlib
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import (
    _slurm_conf,
    _slurm_devices,
    _slurm_gres,
    _slurm_jobs,
    _slurm_policy,
    _slurm_settings,
    _slurm_sharing,
)
from ansible_collections.deephdc.accelerators.plugins.module_utils._hostlist import expand, fold, natural

# SLURM's release by distribution and major version; a cluster runs one.
RELEASES = {("Debian", "12"): "22.05", ("Debian", "13"): "24.11"}

# Partition settings that may keep the probing jobs out; such a partition is not probed.
CLOSED = {"allowaccounts", "allowgroups", "allowqos", "denyaccounts", "denyqos", "qos", "state", "rootonly", "reqresv"}

# Where slurmd keeps the files that the controller gave it.
NODE_CACHE = "/var/lib/slurm/slurmd/conf-cache"


def partition_errors(
    partitions: t.Sequence[t.Mapping[str, t.Any]], nodes: t.Sequence[_slurm_conf.PlannedNode], groups: t.Mapping[str, t.Sequence[str]]
) -> list[str]:
    """What the facts contradict in the partitions, one sentence each."""
    errors = []
    present = _slurm_conf.types_of(nodes)
    for partition in partitions:
        for gpu_type in partition.get("gpu_types") or []:
            if gpu_type not in present:
                errors.append(
                    f"slurm_cluster_partitions: partition {partition['name']} asks for GPU type {gpu_type}, which none of the nodes "
                    f"{fold([n['name'] for n in nodes])} has; they have {', '.join(present) or 'no GPU that SLURM can schedule'}."
                )
        if not errors and not _slurm_conf.partition_nodes(partition, nodes, groups):
            errors.append(f"slurm_cluster_partitions: partition {partition['name']} has no nodes.")
    return errors


def closed(partition: t.Mapping[str, t.Any], policy: t.Mapping[str, t.Any]) -> bool:
    """Whether a partition may keep the probing jobs out, which are root's with the QOS normal."""
    if {key.lower() for key in partition.get("settings") or {}} & CLOSED:
        return True
    access = _slurm_policy.partition_settings(policy, str(partition["name"]))
    return "AllowAccounts" in access or _slurm_policy.NORMAL not in access.get("AllowQos", _slurm_policy.NORMAL).split(",")


def gpu_types(cluster: t.Mapping[str, t.Any], nodes: t.Sequence[_slurm_conf.PlannedNode]) -> list[str]:
    """The GPU types that can be limited: those of the nodes, and those that the site lets slurmdbd account."""
    own = {key.lower(): value for key, value in cluster["settings"].items()}.get("accountingstoragetres")
    accounted = _slurm_settings.merged_list([], own).split(",")
    return _slurm_conf.types_of(nodes) + [tres[len("gres/gpu:") :] for tres in accounted if tres.startswith("gres/gpu:")]


def probes(
    partitions: t.Sequence[t.Mapping[str, t.Any]], nodes: t.Sequence[_slurm_conf.PlannedNode], groups: t.Mapping[str, t.Sequence[str]]
) -> list[dict[str, t.Any]]:
    """The jobs that prove the cluster: per partition one without a GPU and one of each of its GPU types."""
    found = []
    for partition in partitions:
        cloud = [name for expression in partition.get("cloud") or [] for name in expand(expression)]
        if cloud and not partition.get("group"):
            continue
        types = _slurm_conf.types_of(_slurm_conf.partition_nodes(partition, nodes, groups))
        # A probe shall not start a cloud node.
        exclude = {"exclude": fold(cloud)} if cloud else {}
        found += [{"partition": partition["name"], "gres_type": gres_type, **exclude} for gres_type in [None, *types]]
    return found


def share(
    cluster: t.Mapping[str, t.Any],
    nodes: t.Sequence[_slurm_conf.PlannedNode],
    groups: t.Mapping[str, t.Sequence[str]],
    shared_before: t.Mapping[str, str],
    busy: t.Collection[str],
) -> list[str]:
    """Settle how each node shares its GPUs; what is wrong with that, one sentence each."""
    of_partitions: dict[str, dict[str, str]] = {}
    for partition in cluster["partitions"]:
        if partition.get("gpu_sharing") is not None:
            for node in _slurm_conf.partition_nodes(partition, nodes, groups):
                of_partitions.setdefault(node["name"], {})[partition["name"]] = partition["gpu_sharing"]
    errors = []
    for node in nodes:
        name = node["name"]
        node["sharing"], wrong = _slurm_sharing.of_node(node.get("gpu_sharing"), of_partitions.get(name, {}), name)
        wrong += _slurm_sharing.hardware_errors(name, node["sharing"], node["accelerators"])
        before = shared_before.get(name, node["sharing"])
        if not wrong and name in busy and before != node["sharing"]:
            wrong = [_slurm_sharing.change_error(name, before, node["sharing"])]
        errors += wrong
    if any(node["sharing"] == "mps" for node in nodes) and any(key.lower() == "taskprolog" for key in cluster["settings"]):
        errors.append(
            "slurm_cluster_settings sets TaskProlog, which the collection sets itself where GPUs are shared by MPS: remove it there."
        )
    return errors


def hardware_errors(
    nodes: t.Sequence[_slurm_conf.PlannedNode],
    recorded: t.Mapping[str, list[dict[str, t.Any]]],
    jobs: t.Mapping[str, t.Any],
    allowed: t.Collection[str],
) -> list[str]:
    """Nodes whose GPUs change under their jobs, one sentence each."""
    return [
        sentence
        for node in nodes
        if node["name"] in jobs and node["name"] in recorded
        for sentence in _slurm_jobs.hardware_error(
            node["name"],
            _slurm_gres.gres_of(recorded[node["name"]]),
            _slurm_gres.gres_of(node["accelerators"]),
            jobs[node["name"]],
            allowed,
        )
    ]


def plan(
    cluster: t.Mapping[str, t.Any],
    nodes: t.Sequence[_slurm_conf.Node],
    groups: t.Mapping[str, t.Sequence[str]],
    recorded: t.Mapping[str, list[dict[str, t.Any]]],
    present: t.Mapping[str, t.Any] | None = None,
    shared_before: t.Mapping[str, str] | None = None,
    cloud: t.Sequence[_slurm_conf.Node] = (),
) -> dict[str, t.Any]:
    """Everything a run needs to know of the cluster.

    cluster: name, controller and database (name, address), partitions, settings, cgroup_settings, accept_hardware,
    policy (checked) and policy_file.
    groups: SLURM node names by inventory group. recorded: the devices that an earlier run configured, by node.
    present: what slurmctld has now: partitions, jobs (see _slurm_jobs, None where it does not answer), and leaving, the nodes whose jobs
    another playbook waits for. shared_before: how the nodes of an earlier run share their GPUs.
    cloud: nodes that exist only while jobs need them; they are no members, so nothing of them is recorded, read or probed.
    Returns errors (sentences that stop the run), warnings, unfit (node name to reason), gres_kinds (GresTypes), devices (node name to
    its gres devices), sharing (node name to how its GPUs are shared), share_files (node name to the file that remembers it),
    files (name below /etc/slurm to text), record (JSON text), probes (jobs that prove the cluster),
    closed (partitions that those jobs may not use), nodes_going (nodes that a person did not name although they go),
    copies (path on the nodes to SHA-256), policy, partition_qos (QOS that slurmctld needs before it starts).
    """
    whole: list[_slurm_conf.PlannedNode] = []
    unfit: dict[str, str] = {}
    warnings: list[str] = []
    for node in sorted(nodes, key=lambda n: natural(n["name"])):
        before = [] if node["name"] in cluster.get("accept_hardware", []) else recorded.get(node["name"], [])
        devices, wrong = _slurm_devices.with_lost(node["accelerators"], before)
        if wrong:
            unfit[node["name"]] = "; ".join(wrong)
        known = {device["pci_address"] for device in before}
        warnings += [
            f"{node['name']}: {entry['model'] or 'a device'} at {entry['pci_address']} is not scheduled: {entry['reason']}"
            for entry in _slurm_gres.unschedulable(node["accelerators"])
            if entry["pci_address"] not in known
        ]
        told = {
            p["message"] for device in node["accelerators"] for p in device.get("health") or [] if p["problem"] in _slurm_devices.ADVISORY
        }
        warnings += [f"{node['name']}: {message}" for message in sorted(told)]
        whole.append({**node, "accelerators": devices, "devices": gres_devices(node["name"], devices), "sharing": "exclusive"})
    every = [*whole]
    for node in cloud:
        every.append({**node, "devices": gres_devices(node["name"], node["accelerators"]), "sharing": "exclusive"})
    if not any(node["devices"] for node in every):
        warnings.append("No node has a GPU that SLURM can schedule. If there should be one, look at it with the module gpu_facts.")
    named = {node["name"] for node in every}
    now = {"partitions": [], "jobs": _slurm_jobs.summary(""), "leaving": [], **(present or {})}
    allowed = _slurm_jobs.confirmed(cluster.get("end_jobs_in"))
    errors = _slurm_jobs.node_errors(recorded, named | set(now["leaving"]), now["jobs"], allowed)
    errors += _slurm_jobs.partition_errors(now["partitions"], [str(p["name"]) for p in cluster["partitions"]], now["jobs"], allowed)
    errors += [
        f"slurm_cluster_cloud_nodes has {node['name']}, which is the name of a host of slurm_nodes: give each node its own name."
        for node in cloud
        if node["name"] in {member["name"] for member in whole}
    ]
    errors += partition_errors(cluster["partitions"], every, groups)
    on_nodes = (now["jobs"] or {}).get("nodes") or {}
    errors += share(cluster, every, groups, shared_before or {}, on_nodes)
    errors += hardware_errors(whole, recorded, on_nodes, allowed) if not errors else []
    policy = cluster.get("policy") or {}
    errors += _slurm_policy.gpu_type_errors(str(cluster.get("policy_file") or "slurm_cluster_policy"), policy, gpu_types(cluster, every))
    if errors:
        return nothing(errors, warnings)
    files = {
        "slurm.conf": _slurm_conf.slurm_conf(cluster, every, groups),
        "gres.conf": _slurm_conf.HEADER + _slurm_gres.gres_conf(t.cast("list[dict[str, t.Any]]", every)),
        "cgroup.conf": _slurm_conf.cgroup_conf(cluster["cgroup_settings"]),
    }
    return {
        "errors": [],
        "warnings": warnings,
        "unfit": unfit,
        "gres_kinds": _slurm_conf.gres_kinds(every),
        "devices": {n["name"]: n["devices"] for n in whole},
        "sharing": {n["name"]: n["sharing"] for n in whole},
        "share_files": {n["name"]: _slurm_sharing.file_of(n["name"], n["sharing"]) for n in whole},
        "files": files,
        "record": _slurm_devices.record(whole),
        "probes": probes([p for p in cluster["partitions"] if not closed(p, policy)], [n for n in whole if n["name"] not in unfit], groups),
        "nodes_going": sorted(set(recorded) - named - set(now["leaving"]) - set(allowed)),
        "closed": [str(p["name"]) for p in cluster["partitions"] if closed(p, policy)],
        "copies": {f"{NODE_CACHE}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()},
        "policy": policy,
        "partition_qos": [{"name": name} for name in _slurm_policy.partition_qos(policy)],
    }


def nothing(errors: list[str], warnings: list[str]) -> dict[str, t.Any]:
    """The plan of a cluster that must not be changed."""
    return {
        "errors": errors,
        "warnings": warnings,
        "unfit": {},
        "gres_kinds": [],
        "devices": {},
        "sharing": {},
        "share_files": {},
        "files": {},
        "record": "",
        "probes": [],
        "nodes_going": [],
        "closed": [],
        "copies": {},
        "policy": {},
        "partition_qos": [],
    }


def gres_devices(name: str, accelerators: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """What a node's gres are; raises ValueError, one sentence with the node's name, where two devices share a file."""
    try:
        return _slurm_gres.device_index(accelerators)
    except ValueError as error:
        raise ValueError(f"Node {name}: {error}") from error
