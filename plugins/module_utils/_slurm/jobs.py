# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Whose jobs a change of a SLURM cluster would end: pure functions.

slurmctld ends every job whose partition or node is not in the configuration with which it starts.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import expand

# What squeue(1) prints of a job: number, user, partitions, nodes (empty while it is pending).
FORMAT = "%i|%u|%P|%N"
# So many jobs are named in a sentence.
SHOWN = 3

Jobs = t.Mapping[str, t.Any]  # count, and some of them in words


def summary(output: str) -> dict[str, dict[str, dict[str, t.Any]]]:
    """Jobs by partition and by node from squeue in FORMAT.

    A few of each are named, as there may be many thousands.
    """
    partitions: dict[str, dict[str, t.Any]] = {}
    nodes: dict[str, dict[str, t.Any]] = {}
    expanded: dict[str, list[str]] = {}
    for line in output.splitlines():
        number, user, names, places = (line.split("|") + ["", "", ""])[:4]
        for name in filter(None, names.split(",")):
            count(partitions, name, number, user)
        for name in expanded.setdefault(places, expand(places) if places else []):
            count(nodes, name, number, user)
    return {"partitions": partitions, "nodes": nodes}


def count(found: dict[str, dict[str, t.Any]], name: str, number: str, user: str) -> None:
    entry = found.setdefault(name, {"count": 0, "some": []})
    entry["count"] += 1
    if len(entry["some"]) < SHOWN:
        entry["some"].append(f"{number} of {user}")


def words(entry: Jobs) -> str:
    """Return jobs in a sentence, such as 'job 17 of alice'.

    Another example: 'jobs 1 of alice, 2 of bob, 3 of bob and 97 more'.
    """
    more = entry["count"] - len(entry["some"])
    return f"job{'s' if entry['count'] > 1 else ''} {', '.join(entry['some'])}" + (f" and {more} more" if more else "")


def confirmed(value: t.Any) -> list[str]:
    """Names from slurm_cluster_end_jobs_in; a value of the command line is text."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or []]


def node_errors(
    former: t.Collection[str],
    planned: t.Collection[str],
    jobs: t.Mapping[str, t.Mapping[str, Jobs]] | None,
    allowed: t.Collection[str],
    cloud: t.Collection[str] = (),
) -> list[str]:
    """Nodes that would go with their jobs, one sentence each.

    former: those that an earlier run promised devices of. cloud: others that slurmctld has.
    """
    errors = []
    for name in sorted({*former, *cloud, *(jobs["nodes"] if jobs else ())} - {*planned, *allowed}):
        where = "slurm_nodes" if name in former else "slurm_cluster_cloud_nodes"
        if jobs is None:
            errors.append(
                f"{name} is not in {where} any more, and slurmctld does not answer, so it is not known whether it runs jobs: start "
                f"slurmctld, or put {name} back. To end what may be on it, name {name} in slurm_cluster_end_jobs_in."
            )
        elif name in jobs["nodes"]:
            errors.append(
                f"{name} runs jobs but is not in {where} any more, which would end {words(jobs['nodes'][name])}: put it back and wait for "
                f"them (playbook slurm_drain), or name {name} in slurm_cluster_end_jobs_in."
            )
    return errors


def hardware_error(node: str, before: str, after: str, jobs: Jobs, allowed: t.Collection[str]) -> list[str]:
    """Refuse a node whose gres change under its jobs.

    slurmctld ends those whose devices it can't find again.
    """
    if before == after or node in allowed:
        return []
    return [
        f"Node {node} would change from {before or 'no GPU'} to {after or 'no GPU'} while {words(jobs)} is on it, and SLURM may end that: "
        f"wait for it (playbook slurm_drain), or name {node} in slurm_cluster_end_jobs_in."
    ]
