"""The role slurm_login."""

from __future__ import annotations

from local import Cluster

OWNS = ("roles/slurm_login",)


def test_users_see_the_cluster_and_no_daemon_runs_there(cluster: Cluster):
    assert "gpu:a100:2" in cluster.out("login", "sinfo -h -N -o '%N %G'", user="ada")
    assert cluster.run("login", "command -v slurmd slurmctld").returncode != 0


def test_login_host_has_the_controllers_configuration(cluster: Cluster):
    assert cluster.out("login", "cat /etc/slurm/slurm.conf") == cluster.out("ctl", "cat /etc/slurm/slurm.conf")
