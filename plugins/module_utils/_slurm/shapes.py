# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The cores of nodes, and the way in which they are counted: pure functions.

slurmctld 24.11 ends the jobs of a node whose sockets or cores are others at its restart ("change in socket/core configuration of
allocated nodes"). Tried on a cluster: CPUs, ThreadsPerCore, CoreSpecCount, SelectTypeParameters and JobAcctGatherType end none.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import expand

# Of a line of a node, in slurm.conf(5), in lower case.
KEYS = ("boards", "sockets", "socketsperboard", "corespersocket")
Shapes = t.Dict[str, t.Dict[str, str]]


def of_conf(conf: str) -> Shapes:
    """The shape of each node in a slurm.conf: values by key.

    A line that can't be read gives its nodes none.
    """
    found: Shapes = {}
    for line in conf.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        values = {key.lower(): value for key, value in words.items()}
        name = values.get("nodename", "")
        if not re.match(r"\s*nodename\s*=", line, re.IGNORECASE) or name.upper() == "DEFAULT":
            continue
        try:
            nodes = expand(name)
        except ValueError:
            continue
        found.update({node: {key: values[key] for key in KEYS if key in values} for node in nodes})
    return found


def errors(present: Shapes, planned: Shapes, busy: t.Mapping[str, str] | None, allowed: t.Collection[str]) -> list[str]:
    """Nodes whose cores change under their jobs, one sentence each.

    :param present: what slurmctld runs with. busy: jobs in words by node, None where slurmctld does not answer.
    :param allowed: nodes of slurm_cluster_end_jobs_in.
    """
    found = []
    for name, before in sorted(present.items()):
        after = planned.get(name)
        if after is None or after == before or name in allowed or (busy is not None and name not in busy):
            continue
        what = ", ".join(
            f"{key} {before.get(key, 'unset')} to {after.get(key, 'unset')}" for key in KEYS if before.get(key) != after.get(key)
        )
        runs = f"{name} runs {busy[name]}" if busy else "slurmctld does not answer, so it is not known what runs there"
        way = "drain it first (playbook slurm_drain)" if busy else "start slurmctld"
        found.append(
            f"The cores of {name} change ({what}), which ends its jobs when slurmctld restarts, and {runs}: {way}, or name {name} in "
            "slurm_cluster_end_jobs_in."
        )
    return found
