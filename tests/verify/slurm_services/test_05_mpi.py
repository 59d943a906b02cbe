"""The role slurm_mpi: programs that run on two nodes at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from local import Cluster
from slurm_jobs import ended, submit

OWNS = (
    "playbooks/slurm_mpi.yml",
    "roles/slurm_mpi",
    "molecule/slurm_services",
    "tests/verify/slurm_services/ring.c",
)

SOURCE = (Path(__file__).parent / "ring.c").read_text(encoding="utf-8")


@pytest.fixture(scope="module", autouse=True)
def program(cluster: Cluster):
    """Built by a user on the login host.

    The hosts share no home, so jobs take it to their nodes.
    """
    cluster.out("login", f"cat > ring.c <<'END'\n{SOURCE}END\nmpicc -o ring ring.c", user="ada")
    yield
    cluster.run("login", "rm -f ring ring.c job.sh", user="ada")
    for node in ("gpu1", "gpu2"):
        cluster.run(node, "rm -f /tmp/ring.* /tmp/job-*.out")


def ring(cluster: Cluster, start: str) -> list[list[str]]:
    """What each rank said: rank, size, host, number, device."""
    # sbcast runs on the first node, whose copy of the program is the one that sbatch has not: it comes inside of the script.
    encoded = cluster.out("login", "base64 -w0 ring", user="ada")
    program = f"""cd /tmp
base64 -d > ring.$SLURM_JOB_ID.local <<PROGRAM
{encoded}
PROGRAM
chmod +x ring.$SLURM_JOB_ID.local
sbcast ring.$SLURM_JOB_ID.local /tmp/ring.$SLURM_JOB_ID
{start} /tmp/ring.$SLURM_JOB_ID"""
    job = submit(cluster, "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1 --mem=1G --gpus-per-task=1 --time=2", program)
    (row,) = ended(cluster, job)
    output = cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    assert row["State"] == "COMPLETED", output
    return sorted(line.split()[1:] for line in output.splitlines() if line.startswith("RING "))


def test_four_ranks_on_two_nodes_pass_a_message_each_with_a_gpu_of_its_own(cluster: Cluster):
    said = ring(cluster, "srun --mpi=pmix")
    assert [words[:2] for words in said] == [[str(rank), "4"] for rank in range(4)]
    assert said[0][3] == "4"
    assert sorted((words[2], words[4]) for words in said) == [
        (host, device) for host in ("gpu1", "gpu2") for device in ("/dev/nvidia0", "/dev/nvidia1")
    ]
