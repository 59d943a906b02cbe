"""What users do, and what they can't do."""

from __future__ import annotations

import re
import time

from local import Cluster
from slurm_jobs import ended, look, opened, submit

OWNS = (
    "roles/slurm_cluster/tasks/validate.yml",
    "plugins/filter/slurm.py",
    "plugins/plugin_utils/_slurm/gres.py",
    "tests/verify/slurm_jobs.py",
)


def test_typed_gpu_gives_that_device_and_no_other(cluster: Cluster):
    job = submit(cluster, "--gres=gpu:t4:1", look())
    (row,) = ended(cluster, job)
    assert (row["State"], row["NodeList"]) == ("COMPLETED", "gpu2")
    types = cluster.out("gpu2", "awk '$1 == \"t4\" {print $3}' /etc/slurm/gpu_devices").split()
    assert len(opened(cluster, "gpu2", job)) == 1
    assert set(opened(cluster, "gpu2", job)) < set(types)


def test_two_jobs_on_one_node_have_different_devices(cluster: Cluster):
    jobs = [submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", look(8)) for _number in range(2)]
    rows = [ended(cluster, job)[0] for job in jobs]
    assert [row["State"] for row in rows] == ["COMPLETED", "COMPLETED"]
    devices = [opened(cluster, "gpu1", job) for job in jobs]
    assert sorted(devices) == [["/dev/nvidia0"], ["/dev/nvidia1"]]


def test_a_job_without_a_gpu_opens_none(cluster: Cluster):
    job = submit(cluster, "--nodelist=gpu1", look())
    ended(cluster, job)
    assert opened(cluster, "gpu1", job) == []


def test_array_of_gpu_jobs(cluster: Cluster):
    job = submit(cluster, "--array=0-3 --gres=gpu:a100:1", look())
    rows = ended(cluster, job, tasks=4)
    assert [row["State"] for row in rows] == ["COMPLETED"] * 4
    for row in rows:
        assert len(opened(cluster, row["NodeList"], job, row["JobID"].split("_")[1])) == 1


def refused(cluster: Cluster, options: str, user: str = "ada") -> str:
    """SLURM's words for a request that it must refuse at once."""
    began = time.monotonic()
    done = cluster.run("login", f"timeout 20 sbatch {options} --wrap true", user=user)
    assert done.returncode not in (0, 124), done.stdout
    assert time.monotonic() - began < 10
    assert cluster.out("ctl", f"squeue -h -t PENDING,RUNNING -u {user}") == ""
    return done.stderr


def test_too_many_gpus_are_refused_at_submission(cluster: Cluster):
    assert "Requested node configuration is not available" in refused(cluster, "--gres=gpu:a100:3")


def test_unknown_gpu_type_is_refused_at_submission(cluster: Cluster):
    assert re.search("Requested node configuration is not available|Invalid generic resource", refused(cluster, "--gres=gpu:h100:1"))


def test_more_time_than_the_partition_allows_is_refused_at_submission(cluster: Cluster):
    assert "time limit" in refused(cluster, "--partition=a100 --time=01:01:00").lower()


def test_more_memory_than_a_node_has_is_refused_at_submission(cluster: Cluster):
    assert re.search("[Mm]emory|Requested node configuration is not available", refused(cluster, "--mem=10T"))


def test_a_user_without_an_account_is_refused_at_submission(cluster: Cluster):
    assert "Invalid account" in refused(cluster, "", user="eve")


def test_accounting_has_gpu_seconds(cluster: Cluster):
    job = submit(cluster, "--gres=gpu:t4:2", "sleep 3")
    (row,) = ended(cluster, job)
    tres = dict(entry.split("=") for entry in row["AllocTRES"].split(","))
    assert (tres["gres/gpu"], tres["gres/gpu:t4"]) == ("2", "2")
    assert int(tres["gres/gpu:t4"]) * int(row["ElapsedRaw"]) >= 6


def test_a_failing_job_is_accounted_as_failed(cluster: Cluster):
    (row,) = ended(cluster, submit(cluster, "", "exit 3"))
    assert (row["State"], row["ExitCode"]) == ("FAILED", "3:0")
