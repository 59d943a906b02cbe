"""A controller moves to another host: a running job lives on and is accounted, numbers go on, the former slurmctld stays away."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, look, opened, submit, tell
from slurm_site import INSTALLED, SITE, words

OWNS = (
    "playbooks/slurm_move_controller.yml",
    "roles/slurm_backup/tasks/move*.yml",
    "plugins/plugin_utils/_slurm/controllers.py",
)

MOVE = "playbooks/slurm_move_controller.yml"
FROM = {"slurm_move_from": "old"}
LEAVES = "the host that was bare is a controller"


@pytest.fixture(scope="module")
def moved(cluster: Cluster) -> tuple[str]:
    """The inventory with the new controller."""
    inventory = yaml.safe_load((cluster.inventory / "hosts.yml").read_text())
    inventory["all"]["children"]["slurm_controllers"] = {"hosts": {"new": {}}}
    path = Path(cluster.state) / "moved.yml"
    path.write_text(yaml.safe_dump(inventory))
    return (str(path),)


@pytest.fixture
def job(cluster: Cluster) -> Iterator[str]:
    number = submit(cluster, "--gres=gpu:a100:1", UNTIL_TOLD)
    cluster.until("old", f"squeue -h -j {number} -o %T", "RUNNING")
    yield number
    cluster.run("login", f"scancel {number}", user="ada")


def test_another_controller_alone_is_refused(cluster: Cluster, job: str, moved: tuple[str]):
    """It cancelled the job, and numbers began at 1 again."""
    output = cluster.playbook(SITE, inventories=moved, succeeds=False)
    said = words(output)
    assert f"The cluster move_{cluster.release} has run " in said and "but new in slurm_controllers has no state of it" in said
    assert "slurm_move_controller" in said
    assert changed(output) == []
    assert cluster.out("old", f"squeue -h -j {job} -o %T") == "RUNNING"


def test_nonsense_is_refused(cluster: Cluster, moved: tuple[str]):
    for variables, inventories, sentence in (
        ({}, moved, "slurm_move_from is not set, or not in the inventory"),
        ({"slurm_move_from": "nobody"}, moved, "slurm_move_from is not set, or not in the inventory"),
        (FROM, ("hosts.yml",), "old is in slurm_controllers: name the new controller there"),
        ({"slurm_move_from": "gpu1"}, moved, "gpu1 has no state of slurmctld in /var/lib/slurm/slurmctld"),
    ):
        said = words(cluster.playbook(MOVE, variables=variables, inventories=inventories, succeeds=False))
        assert sentence in said, sentence
    assert cluster.out("old", "systemctl is-active slurmctld") == "active"


def killed_at(cluster: Cluster, moved: tuple[str], task: str) -> None:
    def kill(line: str, process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [") and task in line:
            os.killpg(process.pid, signal.SIGKILL)

    code, output = cluster.watched_playbook(MOVE, kill, inventories=moved, variables=FROM)
    assert code == -signal.SIGKILL, output[-3000:]


def test_it_moves_under_a_running_job_though_runs_are_killed_and_is_not_taken_back_by_mistake(
    cluster: Cluster, job: str, moved: tuple[str]
):
    for task in ("Save the state of the former controller", "Write the units that forward to", "Keep slurmctld running on"):
        killed_at(cluster, moved, task)
        assert cluster.out("gpu1", "pgrep -fc '[s]lurmstepd: .*batch|[s]lurmstepd: \\[[0-9]+.batch'") != "0", task
    output = cluster.playbook(MOVE, inventories=moved, variables=FROM)
    assert "old must stay up until 1 jobs that began before the move have ended" in words(output)
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"
    assert cluster.out("login", "scontrol ping").startswith("Slurmctld(primary) at new is UP")
    assert cluster.run("old", "systemctl is-active slurmctld").stdout.strip() == "inactive"
    assert cluster.run("old", "systemctl is-enabled slurmctld").stdout.strip() == "disabled"

    other = submit(cluster, "--gres=gpu:a100:1", look())
    assert int(other) > int(job), "numbers go on"
    assert ended(cluster, other)[0]["State"] == "COMPLETED"
    assert len(opened(cluster, "gpu1", other)) == 1, "the running job keeps its GPU"

    # An older inventory: its state is whole, and every job that began since would end.
    said = cluster.playbook(SITE, succeeds=False)
    assert "old is in slurm_controllers, but its state moved to new" in words(said)
    assert changed(said) == []

    # The job's processes know only the former controller's address.
    tell(cluster, "gpu1", job)
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED" and "gres/gpu:a100=1" in row["AllocTRES"]
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    clusters = cluster.out("new", "sacctmgr -nP list clusters format=Cluster").split()
    assert clusters == [f"move_{cluster.release}"]

    # Once it has ended, nothing passes on any more, and all is as it should be.
    cluster.playbook(MOVE, inventories=moved, variables=FROM)
    assert cluster.run("old", "ls /etc/systemd/system/deephdc-slurmctld-forward*; ss -Hltn 'sport = 6817'").stdout == ""
    assert changed(cluster.playbook(SITE, *INSTALLED, inventories=moved)) == []
