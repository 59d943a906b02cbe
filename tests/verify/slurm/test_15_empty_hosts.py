"""From hosts where nothing is installed to a user's job: check mode, the deployment with all packages, a second run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fingerprint import state
from local import ROOT, Cluster, changed
from slurm_jobs import ended, look, opened, submit
from slurm_site import SITE

OWNS = ()

HOSTS = ("ctl", "login", "gpu1", "gpu2")
BARE = {"local_packages": []}


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """The hosts of the inventory once more, with names and facts of their own; scripts/scenario removes what a killed run leaves."""
    hosts = Cluster()
    hosts.label, hosts.state = f"{hosts.label}-empty", tmp_path
    remove = [str(ROOT / "scripts/engine"), "--clean-label", hosts.label]
    subprocess.run(remove, check=True)
    hosts.playbook("molecule/shared/create.yml", "molecule/slurm/prepare.yml", variables=BARE)
    yield hosts
    subprocess.run(remove, check=True)


def test_empty_hosts_become_a_cluster_after_a_check_that_changes_nothing(empty: Cluster):
    names = [f"{empty.label}-{name}" for name in HOSTS]
    before = [state(name) for name in names]
    assert not [line for lines in before for line in lines if " munge" in line or "slurm" in line], "something is installed"
    empty.playbook(SITE, "--check")
    assert [state(name) for name in names] == before

    # Nothing is written while GPUs are missing that must be there.
    said = " ".join(empty.playbook(SITE, variables={"slurm_cluster_required_gpus": 6}, succeeds=False).split())
    assert "slurm_cluster_required_gpus is 6, but SLURM can give 5 GPUs to jobs. The nodes have gpu1: 2 x NVIDIA A100" in said
    assert [state(name) for name in names] == before

    said = empty.playbook(SITE, variables={"slurm_cluster_required_gpus": 5})
    assert changed(said)
    said = " ".join(said.split())
    assert "has 2 nodes and 5 GPUs (3 a100, 2 t4)." in said and "A first job there: srun --gres=gpu:1 nvidia-smi -L" in said
    job = submit(empty, "--gres=gpu:t4:1", look())
    (row,) = ended(empty, job)
    assert (row["State"], row["NodeList"]) == ("COMPLETED", "gpu2") and "gres/gpu:t4=1" in row["AllocTRES"]
    assert len(opened(empty, "gpu2", job)) == 1
    assert changed(empty.playbook(SITE)) == []
