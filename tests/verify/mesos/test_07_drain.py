# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent is drained under a running task, and given back; nothing ends that a person did not name."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from local import Cluster, changed
from mesos_agents_site import DRAIN, FIRST_GPU, HOST, NOTE, ON_HOST, PLAYBOOK, RESUME, is_away, task, words
from mesos_site import app, ask, remove, start, tasks, until

OWNS = (
    "playbooks/mesos_drain.yml",
    "playbooks/mesos_resume.yml",
    "roles/mesos_operations",
    "plugins/filter/mesos_operations.py",
    "plugins/module_utils/_mesos/agents.py",
    "plugins/modules/mesos_agent_hold.py",
    "plugins/plugin_utils/_mesos/operations.py",
    "tests/verify/mesos_agents_site.py",
)

__all__ = ["task"]


@pytest.fixture(scope="module")
def drained(cluster: Cluster, task: str) -> Iterator[str]:
    """What a drain says that waits for the task in vain; the host is given back by the last test, or at the end."""
    wanted = {"mesos_drain_hosts": HOST, "mesos_drain_reason": "new fan", "mesos_drain_wait": 3}
    said = words(cluster.playbook(DRAIN, "--check", variables=wanted))
    assert f"task {task}" in said and not is_away(cluster), "only a prediction"
    yield words(cluster.playbook(DRAIN, variables=wanted, succeeds=False))
    if is_away(cluster):
        cluster.playbook(RESUME, "--limit", HOST)


def test_a_drain_that_is_not_clear_is_refused(cluster: Cluster) -> None:
    said = words(cluster.playbook(DRAIN, variables={"mesos_drain_hosts": "m1"}, succeeds=False))
    assert "mesos_drain_hosts names m1, which is not in mesos_agents" in said and "mesos_drain_reason is not set" in said


def test_a_drain_waits_for_a_task_and_ends_none(cluster: Cluster, task: str, drained: str) -> None:
    assert "Nothing was ended and the agent stays away" in drained and task in drained
    assert is_away(cluster) and "drained: new fan" in cluster.out(HOST, f"cat {NOTE}")
    assert [one["id"] for one in tasks(cluster, "train")] == [task]
    assert ask(cluster, "marathon", "/v2/apps", app("late", "sleep 600", **ON_HOST)).status == 201
    time.sleep(6)
    assert tasks(cluster, "late") == []
    remove(cluster, "late")
    said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"mesos_drain_reason": "other"}))
    assert f"{HOST} was away before: drained: new fan" in said


@pytest.mark.usefixtures("drained")
def test_a_run_of_the_site_leaves_a_drained_agent_away(cluster: Cluster, task: str) -> None:
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster) and [one["id"] for one in tasks(cluster, "train")] == [task]


@pytest.mark.usefixtures("drained")
def test_a_host_is_given_back_with_all_its_gpus_only(cluster: Cluster) -> None:
    device = cluster.out(HOST, FIRST_GPU)
    cluster.out(HOST, f"mv {device} /root/lost-device")
    try:
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert f"{HOST} stays as it is, because" in said and "is missing" in said and is_away(cluster)
    finally:
        cluster.out(HOST, f"mv /root/lost-device {device}")
    cluster.playbook(RESUME, variables={"mesos_resume_hosts": HOST})
    assert not is_away(cluster) and cluster.run(HOST, f"test -e {NOTE}").returncode == 1
    assert changed(cluster.playbook(RESUME, "--limit", HOST)) == []


@pytest.mark.usefixtures("task")
def test_tasks_end_where_a_person_says_so(cluster: Cluster) -> None:
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
