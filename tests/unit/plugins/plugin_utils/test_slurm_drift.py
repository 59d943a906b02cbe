# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Differences from the results that tasks registered."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import drift as slurm_drift

FILE = {
    "changed": True,
    "paths": ["/etc/a.conf"],
    "diff": [{"before": "old\n", "after": "new\n", "before_header": "/etc/a.conf", "after_header": "/etc/a.conf"}],
}
SAME = {"changed": False, "paths": [], "diff": []}


def found(results, **options):
    return slurm_drift.differences(results, "head", **options)


def test_nothing_differs():
    results = {"gpu1": {"__slurm_node_written": SAME, "slurm_node_ssh": "jobs", "__slurm_node_files": [FILE], "other": FILE}}
    assert found(results) == []


@pytest.mark.parametrize(
    ("result", "kind", "names", "why"),
    [
        (FILE, "file", ["/etc/a.conf"], []),
        ({"changed": True, "name": "slurmd", "action": "start", "reasons": ["it does not run"]}, "unit", ["slurmd"], ["it does not run"]),
        ({"changed": True, "stdout": "NOTE\nInst slurmd (24.11.5)\nInst libx [1]\nConf slurmd\n"}, "package", ["slurmd", "libx"], []),
        ({"changed": True, "added": ["account a"], "updated": ["QOS b"], "removed": []}, "policy", ["account a", "QOS b"], []),
        ({"changed": True, "msg": "Would set"}, "other", [], ["Would set"]),
        ({"changed": False, "failed": True, "msg": "the unit\nis masked"}, "not_compared", [], ["the unit is masked"]),
        ({"changed": False, "unreachable": True, "msg": "no route"}, "not_compared", [], ["no route"]),
    ],
)
def test_kinds(result, kind, names, why):
    (entry,) = found({"gpu1": {"__slurm_node_x": result}})
    assert (entry["host"], entry["part"], entry["kind"], entry["names"], entry["why"]) == ("gpu1", "slurm_node_x", kind, names, why)


def test_skipped_is_no_difference():
    assert found({"gpu1": {"__slurm_node_x": {"changed": True, "skipped": True}}}) == []


def test_the_diff_is_text():
    (entry,) = found({"gpu1": {"__slurm_node_written": FILE}})
    assert entry["diff"].splitlines() == ["--- /etc/a.conf", "+++ /etc/a.conf", "@@ -1 +1 @@", "-old", "+new"]


def test_what_concerns_the_cluster_is_told_once_where_it_is():
    """A result of a task that was delegated is in the variables of every host of the run."""
    loop = {"changed": True, "results": [{**FILE, "item": "head"}, {**SAME, "item": "login"}]}
    policy = {"changed": True, "added": ["account a"]}
    own = {"__slurm_cluster_written": loop, "__slurm_cluster_reconciled": policy, "__munge_written": FILE}
    entries = found({"gpu1": own, "gpu2": own, "head": {}, "login": {}})
    assert [(entry["host"], entry["part"]) for entry in entries] == [
        ("head", "slurm_cluster_written"),
        ("head", "slurm_cluster_reconciled"),
        ("gpu1", "munge_written"),
        ("gpu2", "munge_written"),
    ]


def test_a_node_that_a_person_drained_is_named():
    nodes = {
        "n1": {"state": "IDLE+DRAIN", "reason": "fan"},
        "n2": {"state": "IDLE", "reason": ""},
        "stranger": {"state": "DOWN", "reason": ""},
    }
    result = {"changed": False, "drained": [], "resumed": [], "nodes": nodes}
    entries = found({"gpu1": {"__slurm_cluster_nodes": result}}, node_hosts={"n1": "gpu1", "n2": "gpu2"})
    assert slurm_drift.summary(entries) == ["gpu1: n1: it takes no jobs: IDLE+DRAIN (fan)"]


def test_what_the_policy_does_not_name_is_told_by_the_task_that_has_all_of_it():
    result = {"changed": False, "added": [], "undeclared": ["account rogue"]}
    (entry,) = found({"gpu1": {"__slurm_cluster_registered": result, "__slurm_cluster_reconciled": result}})
    assert (entry["host"], entry["kind"], entry["names"], entry["part"]) == (
        "head",
        "policy",
        ["account rogue"],
        "slurm_cluster_reconciled",
    )
