# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent is drained under a running task, given back, and removed; nothing ends that a person did not name."""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest
from local import Cluster, changed
from mesos_site import agent, app, ask, remove, start, state, tasks, until

OWNS = (
    "playbooks/mesos_drain.yml",
    "playbooks/mesos_remove_agent.yml",
    "playbooks/mesos_resume.yml",
    "roles/mesos_agent/meta/manager.yml",
    "roles/mesos_agent/tasks/admin.yml",
    "roles/mesos_agent/tasks/hold.yml",
    "roles/mesos_agent/tasks/lost.yml",
    "roles/mesos_agent/tasks/mark.yml",
    "roles/mesos_agent/tasks/processes.yml",
    "roles/mesos_agent/tasks/re*.yml",
    "roles/mesos_agent/vars/main.yml",
    "roles/mesos_operations",
    "plugins/filter/mesos_operations.py",
    "plugins/module_utils/_mesos/agents.py",
    "plugins/modules/mesos_agent_*.py",
    "plugins/plugin_utils/_mesos/operations.py",
)

DRAIN, RESUME, REMOVE = "playbooks/mesos_drain.yml", "playbooks/mesos_resume.yml", "playbooks/mesos_remove_agent.yml"
PLAYBOOK = "playbooks/mesos.yml"
HOST = "gpu1"
NOTE = "/var/lib/deephdc/mesos_agent_held"
RECORD = "/var/lib/deephdc/mesos_accelerators"
ON_HOST = {"gpus": 1, "constraints": [["hostname", "LIKE", HOST]]}


def words(output: str) -> str:
    return " ".join(output.split())


@pytest.fixture(scope="module")
def task(cluster: Cluster) -> str:
    (made,) = start(cluster, app("train", "sleep 3000", **ON_HOST))
    return str(made["id"])


def is_away(cluster: Cluster) -> bool:
    return bool(agent(cluster, HOST).get("deactivated"))


def test_a_request_that_is_not_clear_is_refused(cluster: Cluster) -> None:
    said = words(cluster.playbook(DRAIN, variables={"mesos_drain_hosts": "m1"}, succeeds=False))
    assert "mesos_drain_hosts names m1, which is not in mesos_agents" in said and "mesos_drain_reason is not set" in said
    said = words(cluster.playbook(REMOVE, "--limit", HOST, variables={"mesos_remove_hosts": HOST}, succeeds=False))
    assert "Run mesos_remove_agent without --limit" in said


def test_a_drain_waits_for_a_task_and_ends_none(cluster: Cluster, task: str) -> None:
    wanted = {"mesos_drain_hosts": HOST, "mesos_drain_reason": "new fan", "mesos_drain_wait": 3}
    said = words(cluster.playbook(DRAIN, "--check", variables=wanted))
    assert f"task {task}" in said and not is_away(cluster), "only a prediction"
    said = words(cluster.playbook(DRAIN, variables=wanted, succeeds=False))
    assert "Nothing was ended and the agent stays away" in said and task in said
    assert is_away(cluster) and "drained: new fan" in cluster.out(HOST, f"cat {NOTE}")
    assert [one["id"] for one in tasks(cluster, "train")] == [task]
    assert ask(cluster, "marathon", "/v2/apps", app("late", "sleep 600", **ON_HOST)).status == 201
    time.sleep(6)
    assert tasks(cluster, "late") == []
    remove(cluster, "late")
    said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"mesos_drain_reason": "other"}))
    assert f"{HOST} was away before: drained: new fan" in said


def test_a_run_of_the_site_leaves_a_drained_agent_away(cluster: Cluster, task: str) -> None:
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster) and [one["id"] for one in tasks(cluster, "train")] == [task]


def test_a_host_is_given_back_with_all_its_gpus_only(cluster: Cluster, task: str) -> None:
    device = cluster.out(HOST, "find /var/lib/gpu_simulator/sys/bus/pci/devices -mindepth 1 -maxdepth 1 | sort | head -1")
    cluster.out(HOST, f"mv {device} /root/lost-device")
    try:
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert f"{HOST} stays as it is, because" in said and "is missing" in said and is_away(cluster)
    finally:
        cluster.out(HOST, f"mv /root/lost-device {device}")
    cluster.playbook(RESUME, variables={"mesos_resume_hosts": HOST})
    assert not is_away(cluster) and cluster.run(HOST, f"test -e {NOTE}").returncode == 1
    assert changed(cluster.playbook(RESUME, "--limit", HOST)) == []


def test_what_another_one_deactivated_is_left(cluster: Cluster) -> None:
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": "DEACTIVATE_AGENT", "deactivate_agent": call}).status == 200
    try:
        said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"mesos_drain_reason": "x"}))
        assert "was deactivated by an administrator" in said
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "no run of mesos_drain did that" in said and is_away(cluster)
    finally:
        assert ask(cluster, "master", "/api/v1", {"type": "REACTIVATE_AGENT", "reactivate_agent": call}).status == 200


def test_tasks_end_where_a_person_says_so(cluster: Cluster, task: str) -> None:
    """Marathon starts its own elsewhere, where the application may be there."""
    (moving,) = start(cluster, app("moves", "sleep 3000", gpus=1))
    where = moving["host"]
    wanted = {"mesos_drain_hosts": where, "mesos_drain_reason": "fan", "mesos_drain_wait": 60, "mesos_drain_end_tasks": True}
    cluster.playbook(DRAIN, variables=wanted)
    try:
        until(lambda: [one["host"] for one in tasks(cluster, "moves")], lambda seen: seen != [] and seen != [where], 60)
    finally:
        cluster.playbook(RESUME, "--limit", where)
        remove(cluster, "moves")


def test_an_agent_with_a_task_does_not_leave(cluster: Cluster) -> None:
    until(lambda: tasks(cluster, "train"), lambda seen: len(seen) == 1, 90)
    said = words(cluster.playbook(REMOVE, variables={"mesos_remove_hosts": HOST, "mesos_remove_wait": 1}, succeeds=False))
    assert "Not removed, because there is still task" in said and agent(cluster, HOST)
    said = words(cluster.playbook(REMOVE, variables={"mesos_remove_hosts": HOST, "mesos_remove_dead": HOST}, succeeds=False))
    assert "named in mesos_remove_dead, but it answers" in said


def test_a_removal_that_was_killed_is_completed(cluster: Cluster) -> None:
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


def test_a_host_that_left_can_join_again(cluster: Cluster) -> None:
    cluster.playbook(PLAYBOOK)
    assert agent(cluster, HOST)["active"] and HOST in cluster.out("m1", f"cat {RECORD}")
    until(lambda: tasks(cluster, "train"), lambda seen: len(seen) == 1, 90)


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
    remove(cluster, "train")


def closed(cluster: Cluster, kind: str) -> None:
    """As an administrator does by the masters' interface: DEACTIVATE_AGENT or REACTIVATE_AGENT."""
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": kind, kind.lower(): call}).status == 200


def test_a_repair_leaves_away_what_an_administrator_deactivated(cluster: Cluster) -> None:
    device = cluster.out(HOST, "find /var/lib/gpu_simulator/sys/bus/pci/devices -mindepth 1 -maxdepth 1 | sort | head -1")
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


def test_an_agent_that_becomes_another_one_is_closed_as_the_former_one_was(cluster: Cluster) -> None:
    cluster.playbook(DRAIN, variables={"mesos_drain_hosts": HOST, "mesos_drain_reason": "new fan", "mesos_drain_wait": 60})
    former = agent(cluster, HOST)["id"]
    wanted = {"mesos_agent_attributes": {"rack": "r1"}}
    cluster.playbook(PLAYBOOK, variables=wanted)
    assert agent(cluster, HOST)["id"] != former and is_away(cluster)
    assert cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
    # A run that was killed before it could close the new one.
    closed(cluster, "REACTIVATE_AGENT")
    cluster.out(HOST, f"echo 'as the former agent' >>{NOTE}")
    cluster.playbook(PLAYBOOK, variables=wanted)
    assert is_away(cluster) and cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster)
    cluster.playbook(RESUME, "--limit", HOST)
    assert not is_away(cluster)


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
