"""Backups are made while jobs run; a damaged one is refused, and so is a restore on a cluster that lives."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local import Cluster, changed
from slurm_jobs import tell
from slurm_operations import backed_up, completed, running, saved
from slurm_site import words

OWNS = (
    "playbooks/slurm_backup.yml",
    "roles/slurm_backup",
    "plugins/module_utils/_host/service_file.py",
    "plugins/module_utils/_slurm/backup.py",
    "plugins/modules/slurm_backup.py",
    "plugins/modules/slurm_database_info.py",
    "tests/verify/slurm_day2/backups.yml",
)

RESTORE = "playbooks/slurm_restore.yml"
DIRECTORY = "/var/backups/slurm"


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> Iterator[str]:
    """A GPU job that runs until the tests have ended."""
    number = running(cluster, "gpu1")
    saved(cluster, number)
    yield number
    tell(cluster, "gpu1", number)
    completed(cluster, number)


@pytest.fixture(scope="module")
def backup(cluster: Cluster, job: str) -> Iterator[Path]:
    """The newest backup on the control node, made while a job runs."""
    made = backed_up(cluster)
    assert {path.stat().st_mode & 0o077 for path in (made, *made.rglob("*"))} == {0}
    yield made
    cluster.out("ctl1", f"rm -r {DIRECTORY}")
    shutil.rmtree(cluster.state / "backups")


def test_a_backup_is_whole_private_and_the_newest_is_kept(cluster: Cluster, backup: Path):
    assert cluster.out("ctl1", f"ls {DIRECTORY}") == backup.name
    seen = cluster.out("ctl1", f"stat -c '%U %a' {DIRECTORY} {DIRECTORY}/* {DIRECTORY}/*/*").splitlines()
    assert set(seen) == {"root 700", "root 600"}
    assert backup.stat().st_mode & 0o77 == 0
    manifest = json.loads((backup / "ctl1/manifest.json").read_text())
    table = f"day2_{cluster.release}_job_table"
    assert manifest["rows"][table] == int(cluster.out("db", f"mariadb -N slurm_acct_db -e 'select count(*) from {table}'"))
    assert manifest["rows"][f"day2_{cluster.release}_assoc_table"] >= 4
    assert "job_state" in subprocess.check_output(["tar", "tzf", str(backup / "ctl1/state.tar.gz")], text=True)


def test_twenty_backups_while_jobs_come_and_go(cluster: Cluster):
    """slurmctld removes the folder of a job that ends: with two ends in a second, 4 of 20 backups failed."""
    churn = "while [ ! -e /tmp/churn_ends ]; do sbatch --quiet --output=/dev/null --time=1 --mem=10 --wrap true; sleep 0.1; done"
    cluster.out("login", f"rm -f /tmp/churn_ends; systemd-run --quiet --uid ada --unit churn bash -c '{churn}'")
    first = cluster.out("login", "sbatch --parsable --output=/dev/null --wrap true", user="ada")
    try:
        output = cluster.playbook("tests/verify/slurm_day2/backups.yml")
    finally:
        cluster.out("login", "touch /tmp/churn_ends; systemctl stop churn; scancel --user=ada --name=wrap", timeout=60)
    assert changed(output) == ["Back up: ctl1"] * 20
    last = cluster.out("login", "sbatch --parsable --output=/dev/null --wrap true", user="ada")
    assert int(last) - int(first) > 40, "there was no churn"
    (one, _other) = cluster.out("ctl1", "ls /var/backups/churn").split()
    assert "job_state" in cluster.out("ctl1", f"tar tzf /var/backups/churn/{one}/state.tar.gz; rm -r /var/backups/churn")


def test_a_damaged_backup_and_a_living_cluster_are_refused(cluster: Cluster, backup: Path, job: str, tmp_path: Path):
    damaged = tmp_path / backup.name.replace("2", "1", 1)
    shutil.copytree(backup, damaged)
    with (damaged / "ctl1/database.sql.gz").open("ab") as file:
        file.write(b"x")
    for source, sentence in (
        (damaged, "database.sql.gz is damaged, its checksum is not that of the manifest"),
        (backup, "Nothing was restored: the accounting database has"),
    ):
        output = cluster.playbook(RESTORE, variables={"slurm_restore_from": str(source)}, succeeds=False)
        assert sentence in words(output)
        assert [text for text in changed(output) if "Copy this host's part of the backup" not in text] == []
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"
