# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent is removed: never under a task by surprise, also where the run is killed, the host is dead or its agent is silent."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator

import pytest
from local import Cluster, changed
from mesos_agents_site import DRAIN, HOST, ON_HOST, PLAYBOOK, RECORD, REMOVE, task, words
from mesos_site import agent, app, remove, start, state, tasks, until

OWNS = (
    "playbooks/mesos_remove_agent.yml",
    "roles/mesos_operations/tasks/host.yml",
    "roles/mesos_operations/tasks/processes.yml",
    "roles/mesos_operations/tasks/record.yml",
    "roles/mesos_operations/tasks/remove_*.yml",
    "plugins/modules/mesos_agent_removed.py",
)

__all__ = ["task"]


@pytest.fixture(scope="module", autouse=True)
def key(cluster: Cluster) -> Iterator[None]:
    """A host that joins again makes another key for tokens."""
    cluster.out(HOST, "cp -a /etc/mesos/jwt_secret_key /root/jwt_secret_key")
    yield
    cluster.out(HOST, "mv /root/jwt_secret_key /etc/mesos/jwt_secret_key; systemctl restart mesos-agent")
    until(lambda: agent(cluster, HOST), lambda seen: bool(seen.get("active")), 90)


def running(cluster: Cluster, name: str) -> list[str]:
    """Tasks of that name that the masters know as running."""
    found = [one for framework in state(cluster)["frameworks"] for one in framework["tasks"]]
    return [str(one["id"]) for one in found if one["name"] == name and one["state"] == "TASK_RUNNING"]


def test_a_removal_that_is_not_clear_is_refused(cluster: Cluster) -> None:
    said = words(cluster.playbook(REMOVE, "--limit", HOST, variables={"mesos_remove_hosts": HOST}, succeeds=False))
    assert "Run mesos_remove_agent without --limit" in said


@pytest.mark.usefixtures("task")
def test_an_agent_with_a_task_does_not_leave(cluster: Cluster) -> None:
    until(lambda: tasks(cluster, "train"), lambda seen: len(seen) == 1, 90)
    said = words(cluster.playbook(REMOVE, variables={"mesos_remove_hosts": HOST, "mesos_remove_wait": 1}, succeeds=False))
    assert "Not removed, because there is still task" in said and agent(cluster, HOST)
    said = words(cluster.playbook(REMOVE, variables={"mesos_remove_hosts": HOST, "mesos_remove_dead": HOST}, succeeds=False))
    assert "named in mesos_remove_dead, but it answers" in said


@pytest.mark.usefixtures("task")
def test_a_removal_that_was_killed_is_completed_and_the_host_can_join_again(cluster: Cluster) -> None:
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
    print(f"KILL_SEED={seed}")
    wanted = {"mesos_remove_hosts": HOST, "mesos_remove_end_tasks_on": HOST}
    print(f"killed at {cluster.killed_playbook(REMOVE, random.Random(seed), 22, variables=wanted)}")
    cluster.playbook(REMOVE, variables=wanted)
    assert agent(cluster, HOST) == {} and HOST not in cluster.out("m1", f"cat {RECORD}")
    assert cluster.run(HOST, "systemctl is-active mesos-agent").stdout.strip() == "inactive"
    left = "ls -d /etc/mesos /opt/mesos /etc/default/mesos-agent /etc/systemd/system/mesos-agent.service 2>/dev/null"
    assert cluster.run(HOST, left).stdout == ""
    assert cluster.run(HOST, "test -d /var/lib/mesos/agent").returncode == 0, "what tasks wrote stays"
    assert changed(cluster.playbook(REMOVE, variables={"mesos_remove_hosts": HOST})) == []

    cluster.playbook(PLAYBOOK)
    assert agent(cluster, HOST)["active"] and HOST in cluster.out("m1", f"cat {RECORD}")
    until(lambda: tasks(cluster, "train"), lambda seen: len(seen) == 1, 90)


@pytest.mark.usefixtures("task")
def test_a_dead_host_leaves_when_a_person_says_so(cluster: Cluster) -> None:
    name = f"{cluster.label}-{HOST}"
    subprocess.run(["docker", "kill", name], check=True, stdout=subprocess.DEVNULL, timeout=60)
    try:
        wanted = {"mesos_remove_hosts": HOST}
        said = words(cluster.playbook(REMOVE, variables=wanted, succeeds=False))
        assert f"{HOST} does not answer. Bring it up, or, if it never will be, name it in mesos_remove_dead" in said
        said = words(cluster.playbook(REMOVE, variables={**wanted, "mesos_remove_dead": HOST, "mesos_remove_end_tasks_on": HOST}))
        assert f"{HOST} is out of the cluster but did not answer" in said
        assert HOST not in [one["hostname"] for one in state(cluster)["slaves"]]
        assert HOST not in cluster.out("m1", f"cat {RECORD}")
    finally:
        subprocess.run(["docker", "start", name], check=True, stdout=subprocess.DEVNULL, timeout=60)
    deadline = time.monotonic() + 60
    while cluster.run(HOST, "true").returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    # Its former identity is refused for good.
    cluster.out(HOST, "systemctl stop mesos-agent; rm -f /var/lib/mesos/agent/meta/slaves/latest")
    cluster.playbook(PLAYBOOK)
    assert agent(cluster, HOST)["active"]


def test_a_host_whose_agent_is_silent_is_not_removed_under_its_task(cluster: Cluster) -> None:
    """The masters list it no more after 75 s, and its tasks run on."""
    start(cluster, app("silent", "sleep 2999", **ON_HOST))
    cluster.out(HOST, "systemctl stop mesos-agent")
    try:
        until(lambda: agent(cluster, HOST), lambda seen: seen == {}, 150)
        said = words(cluster.playbook(REMOVE, variables={"mesos_remove_hosts": HOST}, succeeds=False))
        assert f"The masters have no agent of {HOST}, but processes of tasks run there: start mesos-agent there" in said
        said = words(cluster.playbook(DRAIN, variables={"mesos_drain_hosts": HOST, "mesos_drain_reason": "x"}, succeeds=False))
        assert "processes of tasks run there" in said
        assert cluster.run(HOST, "pgrep --full --exact 'sleep 2999'").returncode == 0
    finally:
        cluster.out(HOST, "systemctl start mesos-agent")
        until(lambda: agent(cluster, HOST), lambda seen: bool(seen.get("active")), 90)
        remove(cluster, "silent")
        # The stand-in of Marathon has replaced what it took for lost, and does not end what is back.
        cluster.run(HOST, "kill $(pgrep --full --exact 'sleep 2999')")
        until(lambda: running(cluster, "silent"), lambda seen: seen == [], 60)
