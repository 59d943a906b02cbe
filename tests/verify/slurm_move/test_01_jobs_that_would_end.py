"""Changes that would end a running job are refused, with its owner, before a host is changed; also in check mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, submit, tell
from slurm_site import INSTALLED, SITE, words

OWNS = (
    "plugins/module_utils/_slurm/jobs.py",
    "plugins/modules/slurm_record_info.py",
    "plugins/plugin_utils/_slurm/partitions.py",
    "molecule/slurm_move",
)

ONE_PARTITION = [{"name": "all", "default": True, "max_time": "02:00:00"}]


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> Iterator[str]:
    number = submit(cluster, "--partition=debug --gres=gpu:a100:1 --time=20", UNTIL_TOLD)
    cluster.until("old", f"squeue -h -j {number} -o %T", "RUNNING")
    yield number
    cluster.run("login", f"scancel {number}", user="ada")
    cluster.until("old", "squeue -h | wc -l", "0")


def refused(cluster: Cluster, *arguments: str, **variables: Any) -> str:
    output = cluster.playbook(SITE, *arguments, variables=variables, succeeds=False)
    assert changed(output) == []
    return words(output)


@pytest.mark.parametrize("mode", [[], ["--check"]], ids=["run", "check"])
def test_a_partition_with_a_job_is_not_taken_away(cluster: Cluster, job: str, mode: list[str]):
    said = refused(cluster, *mode, slurm_cluster_partitions=ONE_PARTITION)
    assert f"The partition debug is not in slurm_cluster_partitions any more, which would end job {job} of ada" in said
    assert "name debug in slurm_cluster_end_jobs_in" in said
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"


def test_a_confirmation_names_the_partition(cluster: Cluster, job: str):
    for confirmation in ("true", "all"):
        said = refused(cluster, slurm_cluster_partitions=ONE_PARTITION, slurm_cluster_end_jobs_in=[confirmation])
        assert "The partition debug is not in slurm_cluster_partitions any more" in said


def test_unknown_is_not_none(cluster: Cluster, job: str):
    """While slurmctld does not answer, it is not known that the partition is empty."""
    cluster.out("old", "systemctl stop slurmctld")
    try:
        said = refused(cluster, "--check", slurm_cluster_partitions=ONE_PARTITION)
    finally:
        cluster.out("old", "systemctl start slurmctld")
    assert "slurmctld does not answer, so nobody knows whether jobs are in it" in said
    cluster.until("old", "scontrol ping", "is UP")


def test_a_cluster_is_not_renamed(cluster: Cluster, job: str):
    said = refused(cluster, slurm_cluster_name="renamed")
    assert f"slurm_cluster_name is renamed, but old runs the cluster move_{cluster.release}, and a cluster can't be renamed" in said
    clusters = cluster.out("old", "sacctmgr -nP list clusters format=Cluster").split()
    assert clusters == [f"move_{cluster.release}"]


def test_gpus_do_not_change_under_a_job(cluster: Cluster, job: str, tmp_path: Path):
    cluster.out("gpu1", "mv /dev/nvidia1 /dev/gone1")
    try:
        said = refused(cluster, slurm_cluster_accept_hardware=["gpu1"])
    finally:
        cluster.out("gpu1", "mv /dev/gone1 /dev/nvidia1")
        # If the health check has seen it; else SLURM refuses.
        cluster.run("old", "scontrol update NodeName=gpu1 State=RESUME")
    assert f"Node gpu1 would change from gpu:a100:2 to gpu:a100:1 while job {job} of ada is on it" in said


def test_an_empty_partition_goes_and_a_named_one_with_its_jobs(cluster: Cluster, job: str):
    tell(cluster, "gpu1", job)
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
    cluster.playbook(SITE, *INSTALLED, variables={"slurm_cluster_partitions": ONE_PARTITION})
    assert cluster.out("login", "sinfo -h -o %R") == "all"
    cluster.playbook(SITE, *INSTALLED)
    other = submit(cluster, "--partition=debug --time=20", UNTIL_TOLD)
    cluster.until("old", f"squeue -h -j {other} -o %T", "RUNNING")
    wanted = {"slurm_cluster_partitions": ONE_PARTITION, "slurm_cluster_end_jobs_in": ["debug"]}
    cluster.playbook(SITE, *INSTALLED, variables=wanted)
    # SLURM ends it, which is what the refusal says; a batch job would begin again once it has its partition.
    cluster.until("gpu1", "pgrep -fc '[s]lurmstepd: .*batch' || true", "0", seconds=90)
    cluster.playbook(SITE, *INSTALLED)
    cluster.out("old", f"scancel {other}")
    cluster.until("old", "squeue -h | wc -l", "0")
