"""Backups are made while jobs run, and bring back a cluster whose controllers and database are gone, with its running job."""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from local import Cluster, changed
from slurm_jobs import UNTIL_TOLD, ended, look, submit, tell

OWNS = (
    "playbooks/slurm_backup.yml",
    "playbooks/slurm_restore.yml",
    "roles/slurm_backup",
    "plugins/module_utils/_slurm/backup.py",
    "plugins/module_utils/_slurm/database.py",
    "plugins/module_utils/_slurm/restored_state.py",
    "plugins/modules/slurm_backup.py",
    "plugins/modules/slurm_database_info.py",
    "plugins/modules/slurm_restore.py",
    "tests/verify/slurm_day2/backups.yml",
)

SITE = "playbooks/slurm.yml"
BACKUP = "playbooks/slurm_backup.yml"
RESTORE = "playbooks/slurm_restore.yml"
DIRECTORY = "/var/backups/slurm"
STATE = "/srv/slurm/state"


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> str:
    """A GPU job that runs until a test ends it."""
    number = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1", UNTIL_TOLD)
    cluster.until("ctl1", f"squeue -h -j {number} -o %T", "RUNNING")
    # slurmctld saves its state some seconds after a change.
    since = cluster.out("ctl1", f"date +%s; sleep 1; scontrol update JobId={number} Comment=saved")
    cluster.out("ctl1", f"until [ $(stat -c %Y {STATE}/job_state) -gt {since} ]; do sleep 0.3; done")
    return number


@pytest.fixture(scope="module")
def backup(cluster: Cluster, job: str) -> Path:
    """The newest backup on the control node, made while a job runs."""
    copies = cluster.state / "backups"
    shutil.rmtree(copies, ignore_errors=True)
    cluster.playbook(BACKUP)
    cluster.playbook(BACKUP, variables={"slurm_backup_fetch": str(copies), "slurm_backup_keep": 1})
    (made,) = copies.iterdir()
    return made


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
        assert sentence in " ".join(output.split())
        assert [text for text in changed(output) if "Copy this host's part of the backup" not in text] == []
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"


def address(cluster: Cluster, host: str) -> str:
    return cluster.out(host, "hostname --ip-address")


def test_a_cluster_comes_back_on_empty_hosts_with_its_running_job(cluster: Cluster, backup: Path, job: str):
    before = cluster.out("login", "sacctmgr -nP show assoc format=account,user,grptres | sort")
    addresses = {name: address(cluster, name) for name in ("ctl1", "ctl2")}
    for name in addresses:  # their shared state goes with the last of them
        subprocess.run(["docker", "rm", "--force", "--volumes", f"{cluster.label}-{name}"], check=True, stdout=subprocess.DEVNULL)
    cluster.out("db", "mariadb -e 'drop database slurm_acct_db'")
    # Docker gives the lowest free address. A job's steps report its end to the controllers' addresses of when it started.
    for name in sorted(addresses, key=lambda name: ipaddress.ip_address(addresses[name])):
        # Really empty: without the packages that the scenario's hosts begin with.
        cluster.playbook("extensions/molecule/default/create.yml", "--limit", f"localhost,{name}", variables={"local_packages": []})
    assert {name: address(cluster, name) for name in addresses} == addresses
    assert cluster.run("ctl1", f"test -e {STATE}/job_state").returncode != 0

    cluster.playbook(RESTORE, "--skip-tags", "validate", variables={"slurm_restore_from": str(backup)})
    assert cluster.out("login", f"squeue -h -j {job} -o %T") == "RUNNING"
    assert cluster.out("login", "sacctmgr -nP show assoc format=account,user,grptres | sort") == before
    tell(cluster, "gpu1", job)
    (row,) = ended(cluster, job)
    assert row["State"] == "COMPLETED" and "gres/gpu:a100=1" in row["AllocTRES"]
    assert "survived" in cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    assert int(submit(cluster, "--gres=gpu:a100:1", look())) > int(job), "numbers go on"
    assert changed(cluster.playbook(SITE, "--skip-tags", "install,validate")) == []
