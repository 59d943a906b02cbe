"""From the deployed cluster to a user's job with a GPU, which accounting knows."""

from __future__ import annotations

import json

from local import Cluster
from slurm_jobs import ended, look, opened, submit

EPERM = 1


def test_a_job_opens_its_gpu_and_not_the_other_one_and_is_accounted(cluster: Cluster):
    assert cluster.out("login", "sinfo -h -N -p all -o '%N %T'", user="ada").splitlines() == ["gpu1 idle", "gpu2 idle"]
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", look())
    (row,) = ended(cluster, job)
    assert (row["State"], row["NodeList"], row["ExitCode"]) == ("COMPLETED", "gpu1", "0:0")
    assert "gres/gpu:a100=1" in row["AllocTRES"]
    seen = json.loads(cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out"))
    assert set(seen) == {"/dev/nvidia0", "/dev/nvidia1"}
    (mine,) = opened(cluster, "gpu1", job)
    assert {path: error for path, error in seen.items() if path != mine} == {({*seen} - {mine}).pop(): EPERM}
