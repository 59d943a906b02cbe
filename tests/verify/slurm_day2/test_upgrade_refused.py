"""The step between releases that would lose state and database is refused before anything is changed."""

from __future__ import annotations

import os

import pytest
from local import Cluster

OWNS = (
    "plugins/module_utils/_slurm/releases.py",
    "molecule/slurm_day2",
)

HOSTS = ("ctl1", "ctl2", "login", "gpu1", "gpu2")

pytestmark = pytest.mark.skipif(os.environ["LOCAL_RELEASE"] != "bookworm", reason="slurm_upgrade upgrades Debian 13")


def versions(cluster: Cluster) -> dict[str, str]:
    form = "'${Package} ${Version} ${db:Status-Status}\\n'"
    return {name: cluster.out(name, f"dpkg-query -W -f {form} 'slurm*' | sort; dpkg --audit; true") for name in HOSTS}


def test_slurm_22_05_is_not_upgraded_to_24_11(cluster: Cluster):
    before = versions(cluster)
    variables = {"slurm_packages_suite": "trixie", "slurm_packages_check_valid_until": False}
    output = " ".join(cluster.playbook("playbooks/slurm_upgrade.yml", variables=variables, succeeds=False).split())
    assert "SLURM 22.05 is installed, whose state and database 24.11 does not take over" in output
    assert "Upgrade the whole cluster to SLURM 23.11 and then to 24.11" in output
    assert versions(cluster) == before
    assert cluster.run("ctl1", "ls /etc/apt/*/deephdc-slurm*").returncode != 0, "nothing was changed"
