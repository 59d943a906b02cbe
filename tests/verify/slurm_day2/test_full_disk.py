"""The file system of slurmctld's state is full."""

from __future__ import annotations

from local import Cluster, changed
from slurm_jobs import ended, look, submit
from slurm_site import SITE

OWNS = (
    "plugins/module_utils/_slurm/state.py",
    "plugins/modules/slurm_record_info.py",
)


def test_full_disk_is_named_before_anything_is_changed_and_a_second_run_heals(cluster: Cluster):
    variables = {"slurm_cluster_memory_reserve_mib": 1536}
    before = cluster.out("ctl1", "sha256sum /etc/slurm/*.conf")
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", "sleep 20")
    cluster.until("ctl1", f"squeue -h -j {job} -o %T", "RUNNING")
    cluster.out("ctl1", "dd if=/dev/zero of=/srv/slurm/other bs=1M 2>/dev/null; true")
    try:
        assert cluster.out("ctl1", "df --output=avail -m /srv/slurm | tail -1").strip() == "0"
        # slurmctld goes on with what runs, and takes no new job.
        assert "I/O error writing script" in cluster.run("login", "sbatch --wrap=hostname", user="ada").stderr
        output = cluster.playbook(SITE, variables=variables, succeeds=False)
        text = " ".join(output.split())
        assert "ctl1: the file system of /srv/slurm/state has 0 MiB free, but slurmctld needs 16 MiB to save its state" in text
        assert changed(output) == []
        assert cluster.out("ctl1", "sha256sum /etc/slurm/*.conf") == before
    finally:
        cluster.out("ctl1", "rm /srv/slurm/other")
    assert changed(cluster.playbook(SITE, "--tags", "slurm_cluster")) == []
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED"
    job = submit(cluster, "--gres=gpu:a100:1", look())
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
