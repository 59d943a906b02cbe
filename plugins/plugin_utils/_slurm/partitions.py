# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The keys, mistakes and nodes of a SLURM cluster's partitions: pure functions.

A rule about slurm_cluster_partitions stands here, and its key in the argument_specs of the role slurm_cluster.
Who may use a partition is the policy's business.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import is_gpu_type
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import expand, fold
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import sharing as slurm_sharing
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.planned_nodes import PlannedNode, types_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# Minutes, [hours:]minutes:seconds or days-hours[:minutes[:seconds]]
TIME = re.compile(r"[0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}|UNLIMITED|INFINITE", re.IGNORECASE | re.ASCII)
# YAML takes 12:00:00 for a number of seconds, and SLURM a number for minutes.
NEEDS_TIME = "{where} needs a time in quotes as {key}, such as '12:00:00' or '7-00:00:00'."

Groups = t.Mapping[str, t.Sequence[str]]


def is_list_of_texts(value: t.Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def is_time(value: t.Any) -> bool:
    return isinstance(value, str) and TIME.fullmatch(value) is not None


class Key(t.NamedTuple):
    """A key that a partition may have.

    A value that is not right is refused by the sentence; None is as if it were not there.
    """

    name: str
    type: str
    is_right: t.Callable[[t.Any], bool]
    sentence: str


def anything(_value: t.Any) -> bool:
    """Accept a value here.

    It is looked at together with the other partitions, the inventory or SLURM's settings.
    """
    return True


KEYS = (
    Key("name", "str", anything, ""),
    Key("group", "str", anything, ""),
    Key(
        "cloud",
        "list of str",
        lambda value: is_list_of_texts(value) and len(value) > 0,
        "{where} needs a list of names as cloud, such as ['cloud[1-4]'].",
    ),
    Key(
        "gpu_types",
        "list of str",
        lambda value: is_list_of_texts(value) and all(map(is_gpu_type, value)),
        "{where} needs a list of names as gpu_types, such as [a100].",
    ),
    Key("default", "bool", lambda value: isinstance(value or False, bool), "{where} needs true or false as default."),
    Key("max_time", "str", is_time, NEEDS_TIME),
    Key("default_time", "str", is_time, NEEDS_TIME),
    Key("gpu_sharing", "str", slurm_sharing.is_sharing, "{where} has the gpu_sharing {value!r}: write " + slurm_sharing.FORMS + "."),
    Key("settings", "dict", anything, ""),
)
KNOWN = tuple(key.name for key in KEYS)


class Partition(t.NamedTuple):
    """A partition with the nodes that it has."""

    declared: t.Mapping[str, t.Any]
    cloud: list[str]
    nodes: list[PlannedNode]

    @property
    def name(self) -> str:
        return str(self.declared["name"])

    @property
    def is_cloud_only(self) -> bool:
        return bool(self.cloud) and not self.declared.get("group")


def about(partition: t.Mapping[str, t.Any]) -> str:
    return f"slurm_cluster_partitions: partition {text_of(partition.get('name'))}"


def errors(partitions: t.Any, groups: Groups) -> list[str]:
    """Return what is wrong with slurm_cluster_partitions.

    The hardware and the cloud nodes need not be known for that.
    """
    if not isinstance(partitions, (list, tuple)) or not all(isinstance(p, t.Mapping) for p in partitions):
        return ["slurm_cluster_partitions must be a list of partitions, each with a name."]
    found = []
    names = [text_of(p.get("name")) for p in partitions]
    if not names:
        found.append("slurm_cluster_partitions is empty: name at least one partition.")
    for partition, name in zip(partitions, names):
        if not NAME.fullmatch(name) or name.upper() == "DEFAULT":
            found.append(f"slurm_cluster_partitions: {name!r} is no partition name (letters, digits, '_' and '-'; not DEFAULT).")
            continue
        if names.count(name) > 1:
            found.append(f"slurm_cluster_partitions names the partition {name} more than once.")
        found += unknown_keys(about(partition), partition, KNOWN)
        found += group_errors(partition, groups)
        found += value_errors(partition)
    if sum(1 for p in partitions if p.get("default") is True) > 1:
        found.append("slurm_cluster_partitions has more than one default partition.")
    return list(dict.fromkeys(found))


def group_errors(partition: t.Mapping[str, t.Any], groups: Groups) -> list[str]:
    """What the inventory contradicts in the group of a partition."""
    group = str(partition.get("group") or "slurm_nodes")
    if not groups.get(group):
        return [f"{about(partition)} has the group {group}, which is not in the inventory or has no host."]
    nodes = set(groups.get("slurm_nodes", []))
    strangers = [host for host in groups[group] if host not in nodes]
    if strangers:
        name = text_of(partition.get("name"))
        return [f"slurm_cluster_partitions: the group {group} of partition {name} has {strangers[0]}, which is not in slurm_nodes."]
    return []


def value_errors(partition: t.Mapping[str, t.Any]) -> list[str]:
    """Values of a partition's keys that are of a wrong kind."""
    found = []
    for key in KEYS:
        value = partition.get(key.name)
        if value is not None and not key.is_right(value):
            found.append(key.sentence.format(where=about(partition), key=key.name, value=value))
    if partition.get("settings") is not None:
        where = f"slurm_cluster_partitions: settings of partition {text_of(partition.get('name'))}"
        found += slurm_settings.line_settings_errors(where, partition["settings"], slurm_settings.OUR_PARTITION)
    return found


def cloud_names(partition: t.Mapping[str, t.Any]) -> list[str]:
    """The cloud nodes of a partition.

    :raises ValueError: its key cloud can't be read.
    """
    return [name for expression in partition.get("cloud") or [] for name in expand(expression)]


def cloud_errors(partitions: t.Iterable[t.Mapping[str, t.Any]], known: t.Collection[str]) -> list[str]:
    """What is wrong with the cloud nodes of partitions without errors of their own.

    known: the cloud nodes that are declared.
    """
    found = []
    placed: set[str] = set()
    for partition in partitions:
        try:
            names = cloud_names(partition)
        except ValueError as error:
            found.append(f"{about(partition)} has a cloud that can't be read: {error}")
            continue
        strangers = [name for name in names if name not in known]
        if strangers:
            found.append(f"{about(partition)} has the cloud node {strangers[0]}, which slurm_cluster_cloud_nodes does not declare.")
        placed.update(names)
    lonely = sorted(set(known) - placed)
    if lonely and not found:
        found.append(
            f"slurm_cluster_cloud_nodes: {fold(lonely)} is in no partition, so no job could use it: name it in a partition's key cloud."
        )
    return found


def resolve(partitions: t.Iterable[t.Mapping[str, t.Any]], nodes: t.Sequence[PlannedNode], groups: Groups) -> list[Partition]:
    """Give each partition its nodes: those that have one of its GPU types.

    They are of a group or of all, and cloud nodes by name.
    """
    found = []
    for partition in partitions:
        cloud = cloud_names(partition)
        group = partition.get("group") or ("" if cloud else "slurm_nodes")
        wanted = {*groups.get(str(group), []), *cloud}
        types = set(partition.get("gpu_types") or [])
        members = [n for n in nodes if n["name"] in wanted and (not types or any(unit.type in types for unit in n["units"]))]
        found.append(Partition(partition, cloud, members))
    return found


def hardware_errors(partitions: t.Iterable[Partition], nodes: t.Sequence[PlannedNode]) -> list[str]:
    """What the facts contradict in the partitions, one sentence each."""
    found: list[str] = []
    present = types_of(nodes)
    for partition in partitions:
        where = f"slurm_cluster_partitions: partition {partition.name}"
        for gpu_type in partition.declared.get("gpu_types") or []:
            if gpu_type not in present:
                found.append(
                    f"{where} asks for GPU type {gpu_type}, which none of the nodes "
                    f"{fold([n['name'] for n in nodes])} has; they have {', '.join(present) or 'no GPU that SLURM can schedule'}."
                )
        if not found and not partition.nodes:
            found.append(f"{where} has no nodes.")
    return found


def going_errors(
    former: t.Collection[str],
    planned: t.Collection[str],
    jobs: t.Mapping[str, t.Mapping[str, slurm_jobs.Jobs]] | None,
    allowed: t.Collection[str],
) -> list[str]:
    """Partitions that would go with their jobs, one sentence each.

    former: of the present configuration. jobs: as slurm_jobs.summary, None where slurmctld does not answer.
    allowed: of slurm_cluster_end_jobs_in.
    """
    found = [
        f"slurm_cluster_end_jobs_in names {name}, a partition that stays: remove it there, so that it does not confirm a later mistake."
        for name in allowed
        if name in planned
    ]
    going = sorted({*former, *(jobs["partitions"] if jobs else ())} - {*planned, *allowed})
    for name in going:
        if jobs is None:
            found.append(
                f"The partition {name} is not in slurm_cluster_partitions any more, and slurmctld does not answer, so nobody knows whether "
                f"jobs are in it: start slurmctld, or put {name} back. To end what may be in it, name {name} in slurm_cluster_end_jobs_in."
            )
        elif name in jobs["partitions"]:
            words = slurm_jobs.words(jobs["partitions"][name])
            found.append(
                f"The partition {name} is not in slurm_cluster_partitions any more, which would end {words}: put "
                f"it back and wait for them (scontrol update PartitionName={name} State=DRAIN), or name {name} in "
                "slurm_cluster_end_jobs_in."
            )
    return found
