"""The role slurm_node."""

from __future__ import annotations

import pytest
from local import Cluster

OWNS = ("roles/slurm_node",)

CACHE = "/var/lib/slurm/slurmd/conf-cache"


@pytest.mark.parametrize("host", ["gpu1", "gpu2"], indirect=True)
def test_node_is_configless(host):
    assert host.service("slurmd").is_running
    assert host.service("slurmd").is_enabled
    assert not host.file("/etc/slurm/slurm.conf").exists


@pytest.mark.parametrize("name", ["slurm.conf", "gres.conf", "cgroup.conf"])
def test_nodes_run_what_the_controller_has(cluster: Cluster, name: str):
    wanted = cluster.out("ctl", f"sha256sum < /etc/slurm/{name}")
    for node in ("gpu1", "gpu2"):
        assert cluster.out(node, f"sha256sum < {CACHE}/{name}") == wanted, node


def test_health_check_is_silent_on_a_healthy_node_and_only_root_changes_it(cluster: Cluster):
    program = "/usr/local/libexec/deephdc/slurm_gpu_health"
    assert cluster.out("gpu1", f"{program} && stat -c '%U %a' {program}") == "root 755"


def test_one_host_speaks_german_and_has_another_time(cluster: Cluster):
    """All of this scenario was done on it: what modules read of its commands, they read nevertheless."""
    said = cluster.out("gpu2", "sudo sh -c 'date +%Z; ls /nowhere 2>&1; apt-cache policy slurmd'", user="operator")
    assert said.startswith("JST") and "Datei oder Verzeichnis nicht gefunden" in said and "Installationskandidat" in said
