# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent that is closed stays so: whoever did it, and when it is repaired."""

from __future__ import annotations

from local import Cluster
from mesos_agents_site import DRAIN, FIRST_GPU, HOST, NOTE, PLAYBOOK, RESUME, closed, is_away, words

OWNS = (
    "roles/mesos_agent/tasks/lost.yml",
    "roles/mesos_agent/tasks/mark.yml",
    "plugins/module_utils/_mesos/agents.py",
)


def test_what_another_one_deactivated_is_left(cluster: Cluster) -> None:
    closed(cluster, "DEACTIVATE_AGENT")
    try:
        said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"mesos_drain_reason": "x"}))
        assert "was deactivated by an administrator" in said
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "no run of mesos_drain did that" in said and is_away(cluster)
    finally:
        closed(cluster, "REACTIVATE_AGENT")


def test_a_repair_leaves_away_what_an_administrator_deactivated(cluster: Cluster) -> None:
    device = cluster.out(HOST, FIRST_GPU)
    closed(cluster, "DEACTIVATE_AGENT")
    cluster.out(HOST, f"mv {device} /root/lost-device")
    try:
        assert "is missing" in words(cluster.playbook(PLAYBOOK, succeeds=False))
    finally:
        cluster.out(HOST, f"mv /root/lost-device {device}")
    assert cluster.run(HOST, f"test -e {NOTE}").returncode == 1
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster)
    closed(cluster, "REACTIVATE_AGENT")
