# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs of the playbook on a cluster that works: of one host, and runs that are killed."""

from __future__ import annotations

import os
import random

import pytest
from local import Cluster, changed
from mesos_site import agent, all_there

OWNS = ("roles/mesos_cluster/tasks/main.yml",)

PLAYBOOK = "playbooks/mesos.yml"
pytestmark = pytest.mark.usefixtures("clean")


def test_a_run_of_one_host_changes_nothing(cluster: Cluster) -> None:
    for host in ("gpu1", "m2", "lb"):
        assert changed(cluster.playbook(PLAYBOOK, "--limit", host)) == [], host


def test_runs_that_are_killed_are_completed_by_the_next(cluster: Cluster) -> None:
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    for number in range(5):
        wanted = {"mesos_agent_attributes": {"rack": f"r{number}"}, "marathon_lb_last_port": 20001 + number, "mesos_agent_wait": 1}
        print(f"killed at {cluster.killed_playbook(PLAYBOOK, chance, 60, variables=wanted)}")
        cluster.playbook(PLAYBOOK, variables=wanted)
        all_there(cluster)
        assert agent(cluster, "gpu1")["attributes"]["rack"] == f"r{number}"
    assert changed(cluster.playbook(PLAYBOOK, variables=wanted)) == []
    cluster.playbook(PLAYBOOK)
    all_there(cluster)
