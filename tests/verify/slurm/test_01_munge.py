"""The role munge."""

from __future__ import annotations

import pytest
from local import Cluster

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
