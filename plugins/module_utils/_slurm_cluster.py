# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The configuration of a SLURM cluster, computed from data of its hosts: pure functions, linear in the hosts.

Terms are those of slurm.conf(5), gres.conf(5) and cgroup.conf(5). Memory is in MiB.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils import _slurm_gres
from ansible_collections.deephdc.accelerators.plugins.module_utils._hostlist import fold, fold_ordered, natural

HEADER = "# Made by deephdc.accelerators from the inventory and the hosts' facts: the next run undoes changes made here.\n"

RECORD_HEADER = "# Made by deephdc.accelerators: the accelerators that each node had when it was configured last.\n"

# What slurmctld keeps in the record of a device, enough to configure it while it is missing.
RECORDED_KEYS = (
    *("kind", "vendor", "vendor_id", "device_id", "pci_address", "uuid", "model", "type"),  # the ids make the type of a model without one
    *("driver", "device_files", "local_cpus", "mig", "sriov"),
)

# SLURM's release by distribution and major version; a cluster runs one.
RELEASES = {("Debian", "12"): "22.05", ("Debian", "13"): "24.11"}

# Settings that a site may override by slurm_cluster_settings.
DEFAULTS = {
    "EnforcePartLimits": "ALL",
    "HealthCheckInterval": "60",
    "HealthCheckNodeState": "ANY",
    "JobAcctGatherType": "jobacct_gather/cgroup",
    "MpiDefault": "none",
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityWeightFairshare": "10000",
    "PriorityWeightQOS": "5000",
    "ReturnToService": "2",
    "SelectTypeParameters": "CR_Core_Memory",
    "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurm/slurmd.log",
}

# Settings that only the collection makes, with the variable or reason behind each.
OURS = {
    "clustername": "it comes from slurm_cluster_name",
    "slurmctldhost": "it comes from the group slurm_controllers",
    "slurmuser": "the distribution's packages run as slurm",
    "authtype": "the role munge provides it",
    "statesavelocation": "the distribution's packages made the directory",
    "slurmdspooldir": "the distribution's packages made the directory",
    "nodename": "nodes come from the group slurm_nodes",
    "partitionname": "partitions come from slurm_cluster_partitions",
    "grestypes": "it comes from the accelerators found on the nodes",
    "proctracktype": "GPUs are confined by cgroup",
    "taskplugin": "GPUs are confined by cgroup",
    "selecttype": "only select/cons_tres schedules GPUs",
    "accountingstoragetype": "accounting goes to slurmdbd",
    "accountingstoragehost": "it comes from the group slurm_databases",
    "accountingstorageenforce": "associations, limits and QOS are always enforced",
    "healthcheckprogram": "the role slurm_node installs it",
}
OUR_CGROUP = {"constraindevices", "constraincores", "constrainramspace"}
OUR_NODE = {
    "nodename": "it is the host's own name",
    "nodeaddr": "it comes from slurm_cluster_address or the default route",
    "nodehostname": "it is the host's own name",
    "gres": "it comes from the accelerators found on the host",
}
OUR_PARTITION = {
    "partitionname": "it comes from the key name",
    "nodes": "they come from the keys group and gpu_types",
    "default": "it comes from the key default",
    "maxtime": "it comes from the key max_time",
    "defaulttime": "it comes from the key default_time",
}

SETTING_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# SLURM reads "#" as the start of a comment, "\" at the end of a line as its continuation, and blanks as the next setting.
SETTING_VALUE = re.compile(r"[^\s\x00-\x1f\x7f#\"\\]+|\"[^\x00-\x1f\x7f#\"\\]+\"")

# Lists that a site's value is added to instead of replacing ours.
MERGED = {"slurmctldparameters": "SlurmctldParameters", "accountingstoragetres": "AccountingStorageTRES"}

# Partition settings that may keep the probing jobs out; such a partition is not probed.
CLOSED = {"allowaccounts", "allowgroups", "allowqos", "denyaccounts", "denyqos", "qos", "state", "rootonly", "reqresv"}

# Where slurmd keeps the files that the controller gave it.
NODE_CACHE = "/var/lib/slurm/slurmd/conf-cache"
# The role slurm_node installs it there; a test compares the two.
HEALTH_PROGRAM = "/usr/local/libexec/deephdc/slurm_gpu_health"


class Node(t.TypedDict):
    """One member of the group slurm_nodes, as the facts and the inventory describe it."""

    name: str
    address: str
    cpus: int
    sockets: int
    cores: int
    threads: int
    memory: int
    accelerators: list[dict[str, t.Any]]
    settings: dict[str, t.Any]


class PlannedNode(Node):
    """A node whose devices are settled; they are computed once, as everything else is made of them."""

    devices: list[dict[str, t.Any]]


def hardware(facts: t.Mapping[str, t.Any], reserve: int) -> dict[str, int]:
    """CPU topology and schedulable memory (MiB) of a host from its Ansible facts.

    The memory is rounded down, so that a kernel update that takes some of it does not turn the node invalid
    and machines that differ by a few MiB stay equal.
    """
    sockets = max(1, int(facts.get("processor_count") or 1))
    cores = max(1, int(facts.get("processor_cores") or 1))
    threads = max(1, int(facts.get("processor_threads_per_core") or 1))
    cpus = int(facts.get("processor_vcpus") or facts.get("processor_nproc") or sockets * cores * threads)
    if sockets * cores * threads != cpus:  # some virtual machines and Arm boards tell no topology
        sockets, cores, threads = 1, cpus, 1
    memory = max(256, (int(facts["memtotal_mb"]) - reserve) // 256 * 256)
    return {"cpus": cpus, "sockets": sockets, "cores": cores, "threads": threads, "memory": memory}


def reserved_settings(settings: t.Any, cgroup: t.Any) -> list[str]:
    """One sentence for each extra setting that contradicts the collection's own, or can't stand in SLURM's files."""
    found = unwritable_settings("slurm_cluster_settings", settings) + unwritable_settings("slurm_cluster_cgroup_settings", cgroup)
    if found:
        return found
    found = [
        f"slurm_cluster_settings sets {key}, which the collection sets itself ({OURS[key.lower()]}): remove it there."
        for key in settings
        if key.lower() in OURS
    ]
    found += [
        f"slurm_cluster_cgroup_settings sets {key}={value}, but GPUs, cores and memory are always confined: remove it there."
        for key, value in cgroup.items()
        if key.lower() in OUR_CGROUP
    ]
    return found


def line_settings_errors(where: str, settings: t.Any, ours: t.Mapping[str, str]) -> list[str]:
    """The same for the settings of a node or partition line."""
    return unwritable_settings(where, settings) or [
        f"{where} sets {key}, which the collection sets itself ({ours[key.lower()]}): remove it there."
        for key in settings
        if key.lower() in ours
    ]


def unwritable_settings(where: str, settings: t.Any) -> list[str]:
    """One sentence for each setting that would not be one setting in the file; a line break could smuggle in another one."""
    if not isinstance(settings, t.Mapping):
        return [f"{where} must be a dictionary of settings and their values."]
    found = [f"{where} has {key!r}, which is no name of a setting." for key in settings if not is_setting_name(key)]
    found += [
        f"{where} gives {key} a value that SLURM can't read: one word or a list of words is allowed, or text in double quotes; "
        "neither line breaks nor '#', backslashes or an empty value."
        for key, value in settings.items()
        if is_setting_name(key) and not is_setting_value(value)
    ]
    return found


def is_setting_name(key: t.Any) -> bool:
    return isinstance(key, str) and SETTING_NAME.fullmatch(key) is not None


def is_setting_value(value: t.Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else [value]
    scalars = all(isinstance(item, (str, int, float)) for item in items)
    return scalars and SETTING_VALUE.fullmatch(setting(value)) is not None


def setting(value: t.Any) -> str:
    """A value as slurm.conf writes it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(setting(item) for item in value)
    return str(value)


def merged_list(ours: t.Sequence[str], theirs: t.Any) -> str:
    values = list(ours)
    for value in setting(theirs).split(",") if theirs else []:
        if value.strip() and value.strip() not in values:
            values.append(value.strip())
    return ",".join(values)


def record(nodes: t.Iterable[Node]) -> str:
    """The devices that each node was promised to have: what a later run compares with.

    A comment and a line of JSON: ansible-core 2.16 takes a text that begins like JSON for data on its way through a template.
    """
    kept = {
        node["name"]: [{key: device.get(key) for key in RECORDED_KEYS} for device in _slurm_gres.schedulable(node["accelerators"])]
        for node in nodes
    }
    return RECORD_HEADER + json.dumps({"nodes": kept}, sort_keys=True, separators=(",", ":")) + "\n"


def describe(device: t.Mapping[str, t.Any]) -> str:
    files = device.get("device_files") or []
    return f"{device.get('type')} at {device.get('pci_address')}" + (f" ({files[0]})" if files else "")


def with_lost(found: list[dict[str, t.Any]], recorded: list[dict[str, t.Any]]) -> tuple[list[dict[str, t.Any]], list[str]]:
    """The devices to configure, and what is wrong with them.

    A device that was configured and can't be scheduled now stays in the configuration: a node that quietly shrinks
    is a GPU lost without a word. Drivers number device files anew at boot, so its file may be another device's by now.
    """
    before = {device["pci_address"]: device for device in recorded}
    found = [as_recorded(device, before.get(device["pci_address"])) for device in found]
    usable = {device["pci_address"]: device for device in _slurm_gres.schedulable(found)}
    reasons = {entry["pci_address"]: entry["reason"] for entry in _slurm_gres.unschedulable(found)}
    known = {device["pci_address"] for device in recorded}
    wrong = []
    devices = []
    for device in found:
        if device["pci_address"] in usable or device["pci_address"] not in known:
            devices.append(device)
        for problem in device.get("health") or []:
            if device["pci_address"] in usable and problem["problem"] not in ADVISORY:
                wrong.append(f"{describe(device)}: {problem['message']}")
    for address in [address for address in before if address in usable]:
        gone = lost_units(before[address], usable[address])
        if gone:  # a MIG instance, or what the device was before it was divided
            devices = [device for device in devices if device["pci_address"] != address]
            del usable[address]
            reasons[address] = f"it has no {', '.join(gone)} any more"
    lost = [device for device in recorded if device["pci_address"] not in usable]
    taken = {path for device in usable.values() for path in files_of(device)}
    expected = {path for device in lost for path in files_of(device)}
    for device in lost:
        renumbered = with_free_files(device, taken, expected)
        taken.update(files_of(renumbered))
        devices.append(renumbered)
        cause = reasons.get(device["pci_address"]) or ""
        wrong.append(f"{describe(device)} is missing" + (", " + cause.split("scheduled: ", 1)[-1].rstrip(".") if cause else ""))
    return sorted(devices, key=lambda device: str(device["pci_address"])), wrong


def as_recorded(device: dict[str, t.Any], before: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """A device with what was recorded in the place of what nothing told this time, as when nvidia-smi hangs."""
    if before is None or (device.get("mig") or {}).get("enabled") is not None:
        return device
    kept = {key: before.get(key) for key in ("mig", "uuid", "model") if device.get(key) is None or key == "mig"}
    return {**device, **{key: value for key, value in kept.items() if value is not None}}


def lost_units(before: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> list[str]:
    """The gres types of which a device gave more units when it was configured."""
    types = Counter(unit["gres_type"] for unit in _slurm_gres.device_index([before]))
    types.subtract(unit["gres_type"] for unit in _slurm_gres.device_index([now]))
    return sorted(gres_type for gres_type, count in types.items() if count > 0)


def files_of(device: t.Mapping[str, t.Any]) -> list[str]:
    """All device files of a device and of its MIG instances."""
    instances = (device.get("mig") or {}).get("devices") or []
    return [str(path) for part in (device, *instances) for path in part.get("device_files") or []]


def with_free_files(device: dict[str, t.Any], taken: t.AbstractSet[str], expected: t.AbstractSet[str]) -> dict[str, t.Any]:
    """A lost device with files that no other device has: the next free numbers instead of the ones taken."""
    names: dict[str, str] = {}
    for path in files_of(device):
        name = path
        stem = path.rstrip("0123456789")
        number = 0
        while path in taken and (name in taken or name in expected or name in names.values()):
            name = f"{stem}{number}"
            number += 1
        names[path] = name
    if all(old == new for old, new in names.items()):
        return device

    def renamed(part: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {**part, "device_files": [names[str(path)] for path in part.get("device_files") or []]}

    moved = renamed(device)
    if (device.get("mig") or {}).get("devices"):
        moved["mig"] = {**device["mig"], "devices": [renamed(instance) for instance in device["mig"]["devices"]]}
    return moved


# Health entries about the tool that reads the devices: told, but no reason to take a node away from its users.
ADVISORY = {f"{tool}_{problem}" for tool in ("nvidia_smi", "rocm_smi") for problem in ("timeout", "failed", "unreadable")}


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
    gres = _slurm_gres.gres_of(node["accelerators"])
    if gres:
        parts["Gres"] = gres
    return with_settings(parts, node["settings"], "UNKNOWN")


def with_settings(parts: t.Mapping[str, str], settings: t.Mapping[str, t.Any], state: str) -> str:
    """The settings of one line; a site's replace ours, as SLURM reports one that stands there twice."""
    theirs = {key.lower() for key in settings}
    words = [f"{key}={value}" for key, value in parts.items() if key.lower() not in theirs]
    words += [f"{key}={setting(value)}" for key, value in sorted(settings.items())]
    if "state" not in theirs:
        words.append(f"State={state}")
    return " ".join(words)


def node_lines(nodes: t.Sequence[PlannedNode]) -> list[str]:
    groups: dict[str, list[PlannedNode]] = {}
    for node in nodes:
        groups.setdefault(node_attributes(node), []).append(node)
    return [
        f"NodeName={fold_ordered([n['name'] for n in group])} NodeAddr={fold_ordered([n['address'] for n in group])} {attributes}"
        for attributes, group in groups.items()
    ]


def types_of(nodes: t.Iterable[PlannedNode]) -> list[str]:
    """The GPU types of the nodes, sorted, each once."""
    return sorted({device["gres_type"] for node in nodes for device in node["devices"]})


def partition_nodes(
    partition: t.Mapping[str, t.Any], nodes: t.Sequence[PlannedNode], groups: t.Mapping[str, t.Sequence[str]]
) -> list[PlannedNode]:
    """The nodes of a partition: of a group or of all, those that have one of its GPU types."""
    wanted = set(partition_members(partition, groups))
    types = set(partition.get("gpu_types") or [])
    return [n for n in nodes if n["name"] in wanted and (not types or any(device["gres_type"] in types for device in n["devices"]))]


def partition_members(partition: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]]) -> t.Sequence[str]:
    return groups.get(str(partition.get("group") or "slurm_nodes"), [])


def partition_line(partition: t.Mapping[str, t.Any], members: t.Sequence[Node], settings: t.Mapping[str, t.Any]) -> str:
    own = partition.get("settings") or {}
    keys = {key.lower() for key in own} | {key.lower() for key in settings}
    parts = {"PartitionName": str(partition["name"]), "Nodes": fold([n["name"] for n in members])}
    if partition.get("default"):
        parts["Default"] = "YES"
    parts["MaxTime"] = str(partition.get("max_time") or "7-00:00:00")
    parts["DefaultTime"] = str(partition.get("default_time") or "01:00:00")
    if not keys & {"defmempercpu", "defmempernode", "defmempergpu"}:
        # Without it a job that names no memory takes all of the node's, and a second one waits.
        parts["DefMemPerCPU"] = str(min(n["memory"] // n["cpus"] for n in members))
    return with_settings(parts, own, "UP")


def partition_errors(
    partitions: t.Sequence[t.Mapping[str, t.Any]], nodes: t.Sequence[PlannedNode], groups: t.Mapping[str, t.Sequence[str]]
) -> list[str]:
    """What the facts contradict in the partitions, one sentence each."""
    errors = []
    present = types_of(nodes)
    for partition in partitions:
        for gpu_type in partition.get("gpu_types") or []:
            if gpu_type not in present:
                errors.append(
                    f"slurm_cluster_partitions: partition {partition['name']} asks for GPU type {gpu_type}, which none of the nodes "
                    f"{fold([n['name'] for n in nodes])} has; they have {', '.join(present) or 'no GPU that SLURM can schedule'}."
                )
        if not errors and not partition_nodes(partition, nodes, groups):
            errors.append(f"slurm_cluster_partitions: partition {partition['name']} has no nodes.")
    return errors


def slurm_conf(cluster: t.Mapping[str, t.Any], nodes: t.Sequence[PlannedNode], groups: t.Mapping[str, t.Sequence[str]]) -> str:
    settings = cluster["settings"]
    extra = {key.lower(): value for key, value in settings.items()}
    ours = {
        "ClusterName": cluster["name"],
        "SlurmctldHost": f"{cluster['controller']['name']}({cluster['controller']['address']})",
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StateSaveLocation": "/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir": "/var/lib/slurm/slurmd",
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup,task/affinity",
        "SelectType": "select/cons_tres",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": cluster["database"]["address"],
        "AccountingStorageEnforce": "associations,limits,qos",
        "SlurmctldParameters": merged_list(["enable_configless"], extra.get("slurmctldparameters")),
        "HealthCheckProgram": HEALTH_PROGRAM,
    }
    types = types_of(nodes)
    tres = ["gres/gpu", *(f"gres/gpu:{gres_type}" for gres_type in types)] if types else []
    if tres or extra.get("accountingstoragetres"):
        ours["AccountingStorageTRES"] = merged_list(tres, extra.get("accountingstoragetres"))
    if types:
        ours["GresTypes"] = "gpu"
    lines = [f"{key}={value}" for key, value in sorted(ours.items())]
    lines.append("# Defaults, overridden by slurm_cluster_settings")
    lines += [f"{key}={value}" for key, value in sorted(DEFAULTS.items()) if key.lower() not in extra]
    lines.append("# From slurm_cluster_settings")
    lines += [f"{key}={setting(value)}" for key, value in sorted(settings.items()) if key.lower() not in MERGED]
    lines.append("# Nodes, from their facts")
    lines += node_lines(nodes)
    lines.append("# Partitions, from slurm_cluster_partitions")
    lines += [partition_line(p, partition_nodes(p, nodes, groups), settings) for p in cluster["partitions"]]
    return HEADER + "\n".join(lines) + "\n"


def cgroup_conf(settings: t.Mapping[str, t.Any]) -> str:
    ours = {"ConstrainCores": "yes", "ConstrainDevices": "yes", "ConstrainRAMSpace": "yes"}
    lines = [f"{key}={value}" for key, value in sorted(ours.items())]
    lines += [f"{key}={setting(value)}" for key, value in sorted(settings.items())]
    return HEADER + "\n".join(lines) + "\n"


def probes(
    partitions: t.Sequence[t.Mapping[str, t.Any]], nodes: t.Sequence[PlannedNode], groups: t.Mapping[str, t.Sequence[str]]
) -> list[dict[str, t.Any]]:
    """The jobs that prove the cluster: per partition one without a GPU and one of each of its GPU types."""
    found = []
    for partition in partitions:
        if {key.lower() for key in partition.get("settings") or {}} & CLOSED:
            continue
        types = types_of(partition_nodes(partition, nodes, groups))
        found += [{"partition": partition["name"], "gres_type": gres_type} for gres_type in [None, *types]]
    return found


def plan(
    cluster: t.Mapping[str, t.Any],
    nodes: t.Sequence[Node],
    groups: t.Mapping[str, t.Sequence[str]],
    recorded: t.Mapping[str, list[dict[str, t.Any]]],
    busy: t.Collection[str] = (),
) -> dict[str, t.Any]:
    """Everything a run needs to know of the cluster.

    cluster: name, controller and database (name, address), partitions, settings, cgroup_settings, accept_hardware.
    groups: SLURM node names by inventory group. recorded: the devices that an earlier run configured, by node.
    busy: nodes that run jobs now.
    Returns errors (sentences that stop the run), warnings, unfit (node name to reason), devices (node name to its gres
    devices), files (name below /etc/slurm to text), record (JSON text), probes (jobs that prove
    the cluster), copies (path on the nodes to SHA-256).
    """
    whole: list[PlannedNode] = []
    unfit: dict[str, str] = {}
    warnings: list[str] = []
    for node in sorted(nodes, key=lambda n: natural(n["name"])):
        before = [] if node["name"] in cluster.get("accept_hardware", []) else recorded.get(node["name"], [])
        devices, wrong = with_lost(node["accelerators"], before)
        if wrong:
            unfit[node["name"]] = "; ".join(wrong)
        known = {device["pci_address"] for device in before}
        warnings += [
            f"{node['name']}: {entry['model'] or 'a device'} at {entry['pci_address']} is not scheduled: {entry['reason']}"
            for entry in _slurm_gres.unschedulable(node["accelerators"])
            if entry["pci_address"] not in known
        ]
        told = {p["message"] for device in node["accelerators"] for p in device.get("health") or [] if p["problem"] in ADVISORY}
        warnings += [f"{node['name']}: {message}" for message in sorted(told)]
        whole.append({**node, "accelerators": devices, "devices": gres_devices(node["name"], devices)})
    present = {node["name"] for node in whole}
    errors = [
        f"{name} runs jobs but is not in slurm_nodes any more, so they would be lost: put it back, or drain it and wait for them."
        for name in sorted(set(recorded) - present)
        if name in busy
    ]
    errors += partition_errors(cluster["partitions"], whole, groups)
    if errors:
        return nothing(errors, warnings)
    files = {
        "slurm.conf": slurm_conf(cluster, whole, groups),
        "gres.conf": HEADER + _slurm_gres.gres_conf([{"name": n["name"], "accelerators": n["accelerators"]} for n in whole]),
        "cgroup.conf": cgroup_conf(cluster["cgroup_settings"]),
    }
    return {
        "errors": [],
        "warnings": warnings,
        "unfit": unfit,
        "devices": {n["name"]: n["devices"] for n in whole},
        "files": files,
        "record": record(whole),
        "probes": probes(cluster["partitions"], [n for n in whole if n["name"] not in unfit], groups),
        "copies": {f"{NODE_CACHE}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()},
    }


def nothing(errors: list[str], warnings: list[str]) -> dict[str, t.Any]:
    """The plan of a cluster that must not be changed."""
    return {"errors": errors, "warnings": warnings, "unfit": {}, "devices": {}, "files": {}, "record": "", "probes": [], "copies": {}}


def gres_devices(name: str, accelerators: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """What a node's gres are; raises ValueError, one sentence with the node's name, where two devices share a file."""
    try:
        return _slurm_gres.device_index(accelerators)
    except ValueError as error:
        raise ValueError(f"Node {name}: {error}") from error
