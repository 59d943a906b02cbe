"""Check mode on a cluster says what a run would change."""

from __future__ import annotations

from local import Cluster, changed
from slurm_site import INSTALLED, NODES, SITE


def test_check_mode_on_a_cluster_predicts_nothing(cluster: Cluster):
    assert changed(cluster.playbook(SITE, "--check", "--diff", *INSTALLED)) == []


def test_check_mode_predicts_slurmctld_s_restart_and_none_of_slurmd(cluster: Cluster):
    """It was the other way round: the nodes fetch what is new, and slurmctld is started again."""
    settings = {"HealthCheckInterval": 5, "SlurmdTimeout": 30, "SlurmctldDebug": "info", "MessageTimeout": 20}
    predicted = changed(cluster.playbook(SITE, "--check", *NODES, variables={"slurm_cluster_settings": settings}))
    tasks = {line.split(" : ", 1)[1].rsplit(":", 1)[0] for line in predicted}
    assert tasks == {
        "Write the controllers' configuration",
        "Keep slurmctld running on the cluster's configuration",
        "Write the login hosts' configuration",
    }
