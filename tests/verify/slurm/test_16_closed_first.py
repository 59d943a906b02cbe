"""A partition that goes is closed before a run looks for its jobs, and opened where it stays."""

from __future__ import annotations

import os
import signal
import subprocess

from local import Cluster
from slurm_jobs import UNTIL_TOLD, ended, submit, tell
from slurm_site import SITE, words

OWNS = ("plugins/modules/slurm_intake.py",)

NOTE = "/var/lib/deephdc/slurm_closed"
# Of a partition more, and of the site as it is.
MORE = {"slurm_cluster_partitions": [{"name": "all", "default": True, "max_time": "02:00:00"}, {"name": "a100", "gpu_types": ["a100"]}]}
MORE["slurm_cluster_partitions"].append({"name": "old"})
CLOSE, READ = "Keep new jobs from partitions", "Read the jobs again"
PLAN = "Choose the package source"


def state(cluster: Cluster) -> str:
    return cluster.out("ctl", "scontrol -o show partition old | grep -o ' State=[A-Z]*'").strip()


def test_no_job_comes_between_the_look_and_the_restart(cluster: Cluster):
    cluster.playbook(SITE, variables=MORE)
    seen: list[str] = []

    def late(line: str, process: subprocess.Popen[str]) -> None:
        """A user comes to the partition after the plan was made."""
        if PLAN in line and not seen:
            seen.append(submit(cluster, "--partition=old", UNTIL_TOLD))
            cluster.until("login", f"squeue -h -j {seen[0]} -o %T", "RUNNING")

    code, output = cluster.watched_playbook(SITE, late)
    assert code and "Jobs came to old while this run went on, which would end them: wait for them" in words(output), output[-3000:]
    assert cluster.out("login", f"squeue -h -j {seen[0]} -o %T") == "RUNNING" and state(cluster) == "State=UP"
    assert cluster.run("ctl", f"test -e {NOTE}").returncode == 1
    node = cluster.out("login", f"squeue -h -j {seen[0]} -o %N")
    tell(cluster, node, seen[0])
    assert [row["State"] for row in ended(cluster, seen[0])] == ["COMPLETED"]

    def killed(line: str, process: subprocess.Popen[str]) -> None:
        if f": {READ}" in line:
            os.killpg(process.pid, signal.SIGKILL)

    code, output = cluster.watched_playbook(SITE, killed)
    assert code == -signal.SIGKILL, output[-3000:]
    assert state(cluster) == "State=INACTIVE" and "partition old" in cluster.out("ctl", f"cat {NOTE}")
    refused = cluster.run("login", "sbatch --partition=old --wrap true", user="ada")
    assert refused.returncode and "partition" in refused.stderr.lower(), refused
    # It is back in the inventory.
    cluster.playbook(SITE, variables=MORE)
    assert state(cluster) == "State=UP" and cluster.run("ctl", f"test -e {NOTE}").returncode == 1
    # One that an administrator closed stays so, and goes.
    cluster.out("ctl", "scontrol update PartitionName=old State=DOWN")
    cluster.playbook(SITE, variables=MORE)
    assert state(cluster) == "State=DOWN"
    cluster.playbook(SITE)
    assert "old" not in cluster.out("ctl", "sinfo -h -o %P").split() and cluster.run("ctl", f"test -e {NOTE}").returncode == 1
