"""A backup brings back a cluster whose controllers and database are gone, with its running job."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess

from local import Cluster, changed
from slurm_jobs import ended, look, submit, tell
from slurm_operations import STATE, backed_up, running, saved
from slurm_site import INSTALLED, SITE

OWNS = (
    "playbooks/slurm_restore.yml",
    "plugins/module_utils/_host/as_user.py",
    "plugins/module_utils/_slurm/database.py",
    "plugins/module_utils/_slurm/restored_state.py",
    "plugins/modules/slurm_restore.py",
)

RESTORE = "playbooks/slurm_restore.yml"
LEAVES = "the controllers are other hosts, without the packages of the image"


def address(cluster: Cluster, host: str) -> str:
    return cluster.out(host, "hostname --ip-address")


def test_a_cluster_comes_back_on_empty_hosts_with_its_running_job(cluster: Cluster):
    job = running(cluster, "gpu1")
    saved(cluster, job)
    backup = backed_up(cluster)
    before = cluster.out("login", "sacctmgr -nP show assoc format=account,user,grptres | sort")
    addresses = {name: address(cluster, name) for name in ("ctl1", "ctl2")}
    for name in addresses:  # their shared state goes with the last of them
        subprocess.run(["docker", "rm", "--force", "--volumes", f"{cluster.label}-{name}"], check=True, stdout=subprocess.DEVNULL)
    cluster.out("db", "mariadb -e 'drop database slurm_acct_db'")
    # Docker gives the lowest free address. A job's steps report its end to the controllers' addresses of when it started.
    for name in sorted(addresses, key=lambda name: ipaddress.ip_address(addresses[name])):
        # Really empty: without the packages that the scenario's hosts begin with.
        cluster.playbook("molecule/shared/create.yml", "--limit", f"localhost,{name}", variables={"local_packages": []})
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
    assert changed(cluster.playbook(SITE, *INSTALLED)) == []
    shutil.rmtree(cluster.state / "backups")
