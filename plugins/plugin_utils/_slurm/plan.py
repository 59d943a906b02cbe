# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The plan of a SLURM cluster, computed from data of its hosts.

Pure functions, linear in the hosts.

Terms are those of slurm.conf(5), gres.conf(5) and cgroup.conf(5). Memory is in MiB.
"""

from __future__ import annotations

import hashlib
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises, units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import Promises
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import shapes as slurm_shapes
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import fold, natural
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import conf as slurm_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import databases as slurm_databases
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import known_settings as slurm_known
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import partitions as slurm_partitions
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import sharing as slurm_sharing
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import summary as slurm_summary
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.partitions import Partition
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.planned_nodes import (
    Node,
    PlannedNode,
    is_cloud,
    planned,
    types_of,
)

# SLURM's release by distribution and major version; a cluster runs one.
RELEASES = {("Debian", "12"): "22.05", ("Debian", "13"): "24.11"}

# What the controller keeps of the nodes' devices, so that the next run sees which are lost.
PROMISES = Promises(
    "/var/lib/deephdc/slurm_accelerators",
    "# Made by deephdc.accelerators: the accelerators that each node had when it was configured last.\n",
)

# Partition settings that may keep the probing jobs out; such a partition is not probed.
CLOSED = {"allowaccounts", "allowgroups", "allowqos", "denyaccounts", "denyqos", "qos", "state", "rootonly", "reqresv"}

# Where slurmd keeps the files that the controller gave it.
NODE_CACHE = "/var/lib/slurm/slurmd/conf-cache"


def closed(partition: t.Mapping[str, t.Any], policy: t.Mapping[str, t.Any]) -> bool:
    """Return whether a partition may keep the probing jobs out.

    They are root's with the QOS normal.
    """
    if {key.lower() for key in partition.get("settings") or {}} & CLOSED:
        return True
    access = slurm_policy.partition_settings(policy, str(partition["name"]))
    return "AllowAccounts" in access or slurm_policy.NORMAL not in access.get("AllowQos", slurm_policy.NORMAL).split(",")


def gpu_types(cluster: t.Mapping[str, t.Any], nodes: t.Sequence[PlannedNode]) -> list[str]:
    """Return the GPU types that can be limited.

    They are those of the nodes, and those that the site lets slurmdbd account.
    """
    own = {key.lower(): value for key, value in cluster["settings"].items()}.get("accountingstoragetres")
    accounted = slurm_settings.merged_list([], own).split(",")
    return types_of(nodes) + [tres[len("gres/gpu:") :] for tres in accounted if tres.startswith("gres/gpu:")]


def probes(partitions: t.Iterable[Partition], unfit: t.Collection[str]) -> list[dict[str, t.Any]]:
    """Return the jobs that prove the cluster.

    Each partition has one without a GPU, and one of each GPU type of its members that are fit.
    """
    found = []
    for partition in partitions:
        if partition.is_cloud_only:
            continue
        types = types_of(node for node in partition.nodes if not is_cloud(node) and node["name"] not in unfit)
        # A probe must not start a cloud node.
        exclude = {"exclude": fold(partition.cloud)} if partition.cloud else {}
        found += [{"partition": partition.declared["name"], "gres_type": gres_type, **exclude} for gres_type in [None, *types]]
    return found


def share(
    cluster: t.Mapping[str, t.Any],
    nodes: t.Sequence[PlannedNode],
    partitions: t.Iterable[Partition],
    shared_before: t.Mapping[str, str],
    busy: t.Collection[str],
) -> list[str]:
    """Settle how each node shares its GPUs.

    What is wrong with that, one sentence each.
    """
    of_partitions: dict[str, dict[str, str]] = {}
    for partition in partitions:
        if partition.declared.get("gpu_sharing") is not None:
            for node in partition.nodes:
                of_partitions.setdefault(node["name"], {})[partition.declared["name"]] = partition.declared["gpu_sharing"]
    errors = []
    for node in nodes:
        name = node["name"]
        node["sharing"], wrong = slurm_sharing.of_node(node.get("gpu_sharing"), of_partitions.get(name, {}), name)
        wrong += slurm_sharing.hardware_errors(name, node["sharing"], node["units"])
        before = shared_before.get(name, node["sharing"])
        if not wrong and name in busy and before != node["sharing"]:
            wrong = [slurm_sharing.change_error(name, before, node["sharing"])]
        errors += wrong
    if any(node["sharing"] == "mps" for node in nodes) and any(key.lower() == "taskprolog" for key in cluster["settings"]):
        errors.append(
            "slurm_cluster_settings sets TaskProlog, which the collection sets itself where GPUs are shared by MPS: remove it there."
        )
    return errors


def hardware_errors(
    nodes: t.Sequence[PlannedNode],
    recorded: t.Mapping[str, list[dict[str, t.Any]]],
    jobs: t.Mapping[str, t.Any],
    allowed: t.Collection[str],
) -> list[str]:
    """Nodes whose GPUs change under their jobs, one sentence each."""
    return [
        sentence
        for node in nodes
        if node["name"] in jobs and node["name"] in recorded
        for sentence in slurm_jobs.hardware_error(
            node["name"],
            slurm_gres.gres_of(recorded[node["name"]]),
            slurm_gres.value_of(node["units"], "exclusive"),
            jobs[node["name"]],
            allowed,
        )
    ]


def unscheduled(node: Node, known: t.Collection[str]) -> list[Finding]:
    """Return devices of a node that jobs can't use and that were not promised.

    Also return what the tools that read its devices complain about.
    """
    name = node["name"]
    found = [
        Finding(
            problem.layer, f"{name}: {device['model'] or 'a device'} at {problem.device} is not scheduled: {problem}", name, problem.device
        )
        for device in node["accelerators"]
        if device["pci_address"] not in known
        for problem in units.problems(device, name)
    ]
    advice = {p["message"] for device in node["accelerators"] for p in device.get("health") or [] if p["problem"] in promises.ADVISORY}
    return found + [Finding("tool", f"{name}: {message}", name) for message in sorted(advice)]


def record(nodes: t.Sequence[PlannedNode]) -> str:
    """Return the devices that each node was promised to have, and how it shares them.

    A later run compares with them.
    """
    return PROMISES.text(
        {node["name"]: units.schedulable(node["accelerators"]) for node in nodes}, sharing={node["name"]: node["sharing"] for node in nodes}
    )


def plan(
    cluster: t.Mapping[str, t.Any],
    nodes: t.Sequence[Node],
    groups: t.Mapping[str, t.Sequence[str]],
    recorded: t.Mapping[str, list[dict[str, t.Any]]],
    present: t.Mapping[str, t.Any] | None = None,
    shared_before: t.Mapping[str, str] | None = None,
    cloud: t.Sequence[Node] = (),
) -> dict[str, t.Any]:
    """Everything a run needs to know of the cluster.

    cluster: name, controllers and databases (name, address), partitions, settings, cgroup_settings, accept_hardware,
    policy (checked) and policy_file.
    groups: SLURM node names by inventory group. recorded: the devices that an earlier run configured, by node.
    present: what slurmctld has now: partitions, ports, shapes of nodes, databases, jobs (see slurm_jobs, None where it does not
    answer), and leaving, the nodes whose jobs another playbook waits for. shared_before: how the nodes of an earlier run share their GPUs.
    cloud: nodes that exist only while jobs need them; they are no members, so nothing of them is recorded, read or probed.
    Returns errors (sentences that stop the run), warnings, unfit (node name to reason), unsure (node name to why it is not known
    whether its devices are well), findings (all of these as data),
    offers (node name to number of units by gres), gres_kinds (GresTypes), devices (node name to
    its gres devices), sharing (node name to how its GPUs are shared), share_files (node name to the file that remembers it),
    files (name below /etc/slurm to text), record (JSON text), probes (jobs that prove the cluster),
    closed (partitions that those jobs may not use), partitions_going and nodes_going (those that a
    person did not name although they go), controller_port (the first of slurmctld's), ports_change
    (whether a job that runs would be lost by it),
    copies (path on the nodes to SHA-256), policy, partition_qos (QOS that slurmctld needs before it starts).
    """
    whole: list[PlannedNode] = []
    unfit: dict[str, str] = {}
    unsure: dict[str, str] = {}
    warnings: list[str] = []
    findings: list[Finding] = []
    for node in sorted(nodes, key=lambda n: natural(n["name"])):
        # What the site gave to another manager is promised no more; whose jobs that would end is compared with the record below.
        promised = _allotment.owned(recorded.get(node["name"], []), node.get("allotment"), "slurm")
        before = [] if node["name"] in cluster.get("accept_hardware", []) else promised
        devices, wrong = promises.with_lost(node["accelerators"], before, node["name"])
        if wrong:
            unfit[node["name"]] = "; ".join(map(str, wrong))
        elif promises.silent(devices):
            unsure[node["name"]] = promises.silent(devices)
        notes = unscheduled(node, {device["pci_address"] for device in before})
        warnings += map(str, notes)
        findings += [*wrong, *notes]
        whole.append(planned(node, devices))
    every = [*whole, *(planned(node, node["accelerators"]) for node in cloud)]
    if not any(node["units"] for node in every):
        none = Finding("manager", slurm_summary.without_gpus(nodes), remedy=slurm_summary.LOOK)
        warnings.append(str(none))
        findings.append(none)
    named = {node["name"] for node in every}
    # Without lost ones, which the record still promises, and without cloud nodes, which are not there yet.
    required = int(cluster.get("required_gpus") or 0)
    total = sum(len(planned(node, node["accelerators"])["units"]) for node in nodes) if required else 0
    now = {"partitions": [], "jobs": slurm_jobs.summary(""), "leaving": [], **(present or {})}
    allowed = slurm_jobs.confirmed(cluster.get("end_jobs_in"))
    # Another suite brings another release at the first run.
    release = "" if cluster.get("suite") else str(cluster.get("release") or "")
    errors = slurm_known.unknown_errors(release, cluster["settings"], cluster["partitions"], [*nodes, *cloud])
    if total < required:
        errors.append(
            f"slurm_cluster_required_gpus is {required}, but SLURM can give {total} GPUs to jobs. The nodes have "
            f"{slurm_summary.on_the_bus(nodes)}: find the others, or lower the number."
        )
    former = {*recorded, *(now.get("shapes") or {})}
    errors += slurm_jobs.node_errors(recorded, named | set(now["leaving"]), now["jobs"], allowed, former - set(recorded))
    wanted = [str(p["name"]) for p in cluster["partitions"]]
    errors += slurm_partitions.going_errors(now["partitions"], wanted, now["jobs"], allowed)
    ports, busy = now.get("ports") or {}, None if now["jobs"] is None else now["jobs"]["nodes"]
    errors += slurm_settings.port_errors(cluster["settings"], ports, busy, str(cluster["name"]), allowed)
    errors += slurm_databases.moved_errors(now.get("databases") or [], cluster["databases"]) or now.get("forgotten") or []
    errors += [
        f"slurm_cluster_cloud_nodes has {node['name']}, which is the name of a host of slurm_nodes: give each node its own name."
        for node in cloud
        if node["name"] in {member["name"] for member in whole}
    ]
    partitions = slurm_partitions.resolve(cluster["partitions"], every, groups)
    errors += slurm_partitions.hardware_errors(partitions, every)
    on_nodes = (now["jobs"] or {}).get("nodes") or {}
    errors += share(cluster, every, partitions, shared_before or {}, on_nodes)
    errors += hardware_errors(whole, recorded, on_nodes, allowed) if not errors else []
    work = None if now["jobs"] is None else {name: slurm_jobs.words(entry) for name, entry in on_nodes.items()}
    errors += slurm_shapes.errors(now.get("shapes") or {}, slurm_shapes.of_conf("\n".join(slurm_conf.node_lines(every))), work, allowed)
    policy = cluster.get("policy") or {}
    errors += slurm_policy.gpu_type_errors(str(cluster.get("policy_file") or "slurm_cluster_policy"), policy, gpu_types(cluster, every))
    if errors:
        return nothing(errors, warnings, findings)
    shut = [one.name for one in partitions if closed(one.declared, policy)]
    files = {
        "slurm.conf": slurm_conf.slurm_conf(cluster, every, partitions),
        "gres.conf": slurm_conf.HEADER + slurm_gres.conf_of((node["name"], node["units"], node["sharing"]) for node in every),
        "cgroup.conf": slurm_conf.cgroup_conf(cluster["cgroup_settings"]),
    }
    return {
        "errors": [],
        "warnings": warnings,
        "findings": [found.as_dict() for found in findings],
        "offers": {n["name"]: dict(Counter(f"gpu:{unit.type}" for unit in n["units"])) for n in whole},
        "unfit": unfit,
        "unsure": unsure,
        "gres_kinds": slurm_conf.gres_kinds(every),
        "devices": {n["name"]: slurm_gres.index_of(n["units"]) for n in whole},
        "sharing": {n["name"]: n["sharing"] for n in whole},
        "share_files": {n["name"]: slurm_sharing.file_of(n["name"], n["sharing"]) for n in whole},
        "files": files,
        "record": record(whole),
        "probes": probes([one for one in partitions if one.name not in shut], unfit),
        "controller_port": int(slurm_settings.port(cluster["settings"], "SlurmctldPort").partition("-")[0]),
        "ports_differ": slurm_settings.ports_change(cluster["settings"], ports),
        "ports_change": slurm_settings.ports_change(cluster["settings"], ports) and cluster["name"] not in allowed,
        "partitions_going": sorted(set(now["partitions"]) - {*wanted, *allowed}),
        "nodes_going": sorted(former - named - set(now["leaving"]) - set(allowed)),
        "closed": shut,
        "copies": {f"{NODE_CACHE}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()},
        "policy": policy,
        "partition_qos": [{"name": name} for name in slurm_policy.partition_qos(policy)],
    }


def nothing(errors: t.Sequence[str | Finding], warnings: list[str], findings: t.Sequence[Finding] = ()) -> dict[str, t.Any]:
    """The plan of a cluster that must not be changed."""
    wrong = [error if isinstance(error, Finding) else Finding("inventory", error) for error in errors]
    return {
        "errors": [str(error) for error in wrong],
        "findings": [found.as_dict() for found in [*wrong, *findings]],
        "offers": {},
        "warnings": warnings,
        "unfit": {},
        "unsure": {},
        "gres_kinds": [],
        "devices": {},
        "sharing": {},
        "share_files": {},
        "files": {},
        "record": "",
        "probes": [],
        "controller_port": 0,
        "ports_differ": False,
        "ports_change": False,
        "partitions_going": [],
        "nodes_going": [],
        "closed": [],
        "copies": {},
        "policy": {},
        "partition_qos": [],
    }
