# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Tasks of Marathon and Chronos: who gets no GPU, who waits, and who is refused; a job of Chronos opens its own."""

from __future__ import annotations

import time

import pytest
from local import Cluster
from mesos_site import AGENTS, LOOK, STAY, app, ask, devices, metrics, sandbox, start, tasks, until

OWNS = (
    "roles/chronos/tasks",
    "roles/marathon/files",
    "roles/marathon/tasks",
    "plugins/filter/mesos.py",
    "plugins/filter/mesos_frameworks.py",
    "plugins/plugin_utils/_mesos/agent.py",
    "plugins/plugin_utils/_mesos/chronos.py",
    "plugins/plugin_utils/_mesos/frameworks.py",
    "plugins/plugin_utils/_mesos/marathon.py",
    "tests/data/mesos/chronos.yml",
    "tests/data/mesos/marathon.yml",
    "tests/stand_ins/mesos/apps.py",
    "tests/stand_ins/mesos/chronos.py",
    "tests/stand_ins/mesos/jobs.py",
    "tests/stand_ins/mesos/resources.py",
    "tests/stand_ins/mesos/tasks.py",
    "tests/verify/mesos_site.py",
)

pytestmark = pytest.mark.usefixtures("clean")


def test_a_task_without_gpus_opens_none_and_goes_to_no_gpu(cluster: Cluster) -> None:
    """Marathon's gpu_scheduling_behavior is restricted, and all agents here have GPUs."""
    done = ask(cluster, "marathon", "/v2/apps", app("none", LOOK + STAY))
    assert done.status == 201
    time.sleep(10)
    assert tasks(cluster, "none") == []


def test_more_than_there_are_wait(cluster: Cluster) -> None:
    start(cluster, app("all", "sleep 600", gpus=1, instances=3))
    assert ask(cluster, "marathon", "/v2/apps", app("late", "sleep 600", gpus=1)).status == 201
    time.sleep(8)
    assert tasks(cluster, "late") == []
    queue = ask(cluster, "marathon", "/v2/queue").content["queue"]
    assert [one["app"]["id"] for one in queue] == ["/late"]
    assert metrics(cluster)["master/gpus_used"] == 3
    assert ask(cluster, "marathon", "/v2/apps/all?force=true", {"instances": 2}, "PUT").status == 200
    until(lambda: tasks(cluster, "late"), lambda seen: len(seen) == 1)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"container": {"type": "DOCKER", "docker": {"image": "debian"}}}, 422),
        ({"gpus": 0.5}, 422),
        ({"gpus": -1}, 422),
    ],
)
def test_what_can_never_run_is_refused_at_once(cluster: Cluster, change: dict, status: int) -> None:
    assert ask(cluster, "marathon", "/v2/apps", {**app("wrong", "true", gpus=1), **change}).status == status


def test_a_task_gets_no_rights_by_a_program_of_its_own(cluster: Cluster) -> None:
    """A set-uid program of an image, or of a folder of the host, makes no user root."""
    (task,) = start(cluster, app("rights", f"grep NoNewPrivs /proc/self/status; {STAY.lstrip('; ')}", gpus=1))
    assert until(lambda: sandbox(cluster, task), lambda seen: "nobody" in seen, 20).split()[:2] == ["NoNewPrivs:", "1"]


def test_a_task_of_root_does_not_run(cluster: Cluster) -> None:
    assert ask(cluster, "marathon", "/v2/apps", {**app("root", "id -un; sleep 61", gpus=1), "user": "root"}).status == 201

    def failure() -> str:
        return str(ask(cluster, "marathon", "/v2/apps/root").content["app"].get("lastTaskFailure", {}).get("message", ""))

    said = until(failure, bool, 30)
    assert "Not authorized to launch task root." in said and "under user 'root'" in said
    assert [one for one in tasks(cluster, "root") if one["state"] == "TASK_RUNNING"] == []
    for host in AGENTS:
        # The bracket keeps the question itself out of the answer.
        assert cluster.run(host, "pgrep -f '[s]leep 61'").returncode == 1, host


def test_chronos_runs_a_job_with_a_gpu(cluster: Cluster) -> None:
    job = {
        "name": "batch",
        "command": f"{LOOK}; id -un",
        "schedule": "R1//PT24H",
        "cpus": 0.1,
        "mem": 32,
        "gpus": 1,
        "runAsUser": "nobody",
        "owner": "ada@site.test",
    }
    # Sandboxes of a run before this one stay.
    for host in AGENTS:
        cluster.out(host, "touch /root/began")
    done = ask(cluster, "chronos", "/v1/scheduler/iso8601", job)
    assert done.status == 204, done.text

    def ended() -> dict:
        (found,) = ask(cluster, "chronos", "/v1/scheduler/jobs/search?name=batch").content
        return dict(found)

    until(ended, lambda seen: seen["successCount"] == 1, 90)
    wrote = "".join(
        cluster.run(host, "find /var/lib/mesos/agent/slaves -path '*batch*' -name stdout -newer /root/began -exec cat {} +").stdout
        for host in AGENTS
    )
    assert devices(wrote).count("yes") == 1 and "nobody" in wrote
    assert ask(cluster, "chronos", "/v1/scheduler/job/batch", method="DELETE").status == 204
