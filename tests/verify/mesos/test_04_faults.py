# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What is killed comes back: a leader, a server of ZooKeeper, an agent with a task."""

from __future__ import annotations

import pytest
from local import Cluster
from mesos_site import MASTERS, agent, all_there, app, ask, leader, start, state, tasks, until

OWNS = (
    "roles/mesos_agent/tasks/service.yml",
    "roles/mesos_master",
    "roles/zookeeper",
    "tests/stand_ins/mesos/agent.py",
    "tests/stand_ins/mesos/keeper.py",
    "tests/stand_ins/mesos/master.py",
)

pytestmark = pytest.mark.usefixtures("clean")


def test_another_master_leads_when_the_leader_is_killed(cluster: Cluster) -> None:
    (task,) = start(cluster, app("stays", "sleep 600", gpus=1))
    first = leader(cluster)
    other = next(host for host in MASTERS if host != first)
    cluster.out(first, "systemctl kill --signal=SIGKILL mesos-master")
    second = until(lambda: state(cluster, other), lambda seen: bool(seen.get("leader_info")), 60)["leader_info"]["hostname"]
    assert second in MASTERS
    all_there(cluster, other)
    assert [one["id"] for one in tasks(cluster, "stays")] == [task["id"]]
    cluster.until(first, "systemctl is-active mesos-master", "active")


def test_a_cluster_serves_with_one_server_of_zookeeper_less(cluster: Cluster) -> None:
    cluster.out("m3", "systemctl stop zookeeper")
    try:
        start(cluster, app("meanwhile", "sleep 600", gpus=1))
    finally:
        cluster.out("m3", "systemctl start zookeeper")
    cluster.until("m3", "echo mntr | timeout 5 bash -c 'exec 3<>/dev/tcp/m3/2181; cat >&3; cat <&3'", "zk_server_state", 60)


def test_another_marathon_leads_when_the_leader_is_killed(cluster: Cluster) -> None:
    (task,) = start(cluster, app("stays", "sleep 600", gpus=1))
    first = ask(cluster, "marathon", "/v2/leader").content["leader"].split(":")[0]
    other = next(host for host in MASTERS if host != first)
    cluster.out(first, "systemctl kill --signal=SIGKILL marathon")

    def seen() -> list[str]:
        return [one["id"] for one in ask(cluster, "marathon", "/v2/apps/stays/tasks", host=other).content.get("tasks", [])]

    until(seen, lambda found: found == [task["id"]], 90)
    until(lambda: ask(cluster, "marathon", "/v2/leader", host=first).content["leader"], bool)


def test_a_task_outlives_its_agent(cluster: Cluster) -> None:
    (task,) = start(cluster, app("stays", "sleep 600", gpus=1))
    before = agent(cluster, task["host"])["id"]
    cluster.out(task["host"], "systemctl kill --signal=SIGKILL --kill-whom=main mesos-agent")
    cluster.until(task["host"], "systemctl is-active mesos-agent", "active", 60)
    all_there(cluster)
    assert agent(cluster, task["host"])["id"] == before
    assert [one["id"] for one in tasks(cluster, "stays")] == [task["id"]]
    assert cluster.run(task["host"], "pgrep -f 'sleep 600'").returncode == 0
