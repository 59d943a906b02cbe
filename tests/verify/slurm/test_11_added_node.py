"""A node more while a job runs; then it is removed again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from local import ROOT, Cluster
from slurm_jobs import UNTIL_TOLD, ended, submit, tell
from slurm_site import SITE, forget

OWNS = (
    "roles/slurm_cluster/tasks/plan.yml",
    "plugins/plugin_utils/_slurm/plan.py",
    "molecule/slurm/inventory/added_node.yml",
)

WITH_ADDED = ("hosts.yml", "added_node.yml")
SIMULATOR = str(ROOT / "playbooks/gpu_simulator.yml")


def started(cluster: Cluster, host: str, unit: str) -> str:
    return cluster.out(host, f"systemctl show -P ExecMainStartTimestampMonotonic {unit}")


@pytest.fixture
def gone_afterwards(cluster: Cluster) -> Iterator[None]:
    """gpu3 leaves the cluster, then it is removed."""
    yield
    cluster.playbook("playbooks/slurm_remove_node.yml", inventories=WITH_ADDED, variables={"slurm_remove_nodes": "gpu3"})
    subprocess.run(["docker", "rm", "--force", "--volumes", f"{cluster.label}-gpu3"], check=True, stdout=subprocess.DEVNULL)
    forget(cluster, "gpu3")


def test_a_node_is_added_under_limit_while_a_job_runs(cluster: Cluster, gone_afterwards: None):
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    before = {name: started(cluster, name, "slurmd") for name in ("gpu1", "gpu2")}
    lines = cluster.out("ctl", "grep -c . /etc/slurm/slurm.conf")

    cluster.playbook("molecule/shared/create.yml", SIMULATOR, inventories=WITH_ADDED)
    output = cluster.playbook(SITE, "--limit", "gpu3", inventories=WITH_ADDED)

    assert "gpu3" in cluster.out("login", "sinfo -h -N -o %N", user="ada")
    assert cluster.out("ctl", f"squeue -h -j {job} -o %T") == "RUNNING", output[-2000:]
    if cluster.release == "bookworm":  # from 23.11 on a reconfigured slurmd is a new process
        assert {name: started(cluster, name, "slurmd") for name in before} == before
    # gpu1 and gpu3 are equal and share a line; no node lost a device.
    assert cluster.out("ctl", "grep -c . /etc/slurm/slurm.conf") == lines
    wanted = cluster.out("ctl", "sha256sum < /etc/slurm/slurm.conf")
    for name in ("gpu1", "gpu2", "gpu3"):
        assert cluster.out(name, "sha256sum < /var/lib/slurm/slurmd/conf-cache/slurm.conf") == wanted, name
    # A job over old and new nodes: they know each other.
    assert cluster.out("login", "srun --time=1 --nodes=2 --nodelist=gpu2,gpu3 hostname | sort", user="ada").split() == ["gpu2", "gpu3"]
    tell(cluster, "gpu1", job)
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED"
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
