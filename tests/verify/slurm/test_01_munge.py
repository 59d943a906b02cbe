"""The role munge."""

from __future__ import annotations

import base64

import pytest
from local import Cluster, changed
from slurm_jobs import submit

OWNS = (
    "roles/munge/tasks/main.yml",
    "roles/munge/vars",
)

MEMBERS = ["ctl", "login", "gpu1", "gpu2"]


@pytest.mark.parametrize("host", MEMBERS, indirect=True)
def test_key_is_private_and_the_daemon_stays(host):
    key = host.file("/etc/munge/munge.key")
    assert (key.user, key.group, key.mode) == ("munge", "munge", 0o400)
    assert host.service("munge").is_running
    assert host.service("munge").is_enabled


def test_hosts_believe_each_other(cluster: Cluster):
    credential = cluster.out("login", "munge -n", user="ada")
    for name in MEMBERS:
        assert "Success" in cluster.out(name, f"echo '{credential}' | unmunge"), name
    forged = cluster.run("gpu1", "echo 'MUNGE:AwQFAAB1bm1hZGU6' | unmunge")
    assert forged.returncode != 0


def test_another_key_on_a_part_of_the_hosts_is_refused(cluster: Cluster):
    """The key was installed, the node went down, its job ended."""
    key = cluster.out("gpu1", "sha256sum /etc/munge/munge.key")
    job = submit(cluster, "--nodelist=gpu1", "sleep 300")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    other = {"munge_key": base64.b64encode(b"x" * 128).decode()}
    try:
        for options in (["--limit", "gpu1"], ["--limit", "ctl", "--tags", "munge"], ["--limit", "gpu1", "--check"]):
            said = cluster.playbook("playbooks/slurm.yml", *options, variables=other, succeeds=False)
            assert "munge_key is not the key that the controller ctl has, and this run leaves out " in " ".join(said.split())
            assert changed(said) == [] and other["munge_key"] not in said
        assert cluster.out("gpu1", "sha256sum /etc/munge/munge.key") == key
        cluster.playbook("playbooks/slurm.yml", "--limit", "gpu1", "--tags", "munge")
        assert cluster.out("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    finally:
        cluster.out("ctl", f"scancel {job}")
        cluster.until("ctl", f"squeue -h -j {job} | wc -l", "0")
