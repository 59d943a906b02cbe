"""A cluster is taken off its hosts, with its records: what was there before is there again, and nothing else."""

from __future__ import annotations

import pytest
from local import Cluster

OWNS = (
    "playbooks/slurm_uninstall.yml",
    "roles/munge/tasks/remove.yml",
    "roles/slurm_packages/tasks/main.yml",
    "roles/slurm_uninstall",
    "extensions/molecule/slurm_uninstall",
    "tests/verify/slurm_uninstall/list_of_host",
)

PLAYBOOK = "playbooks/slurm_uninstall.yml"
HOSTS = ("head", "login", "gpu1")
LEAVES = "the cluster is gone"


def listed(cluster: Cluster, host: str, file: str) -> set[str]:
    script = (cluster.inventory.parents[3] / "tests/verify/slurm_uninstall/list_of_host").read_text()
    cluster.out(host, f"cat > /root/list_of_host <<'EOF'\n{script}\nEOF\nbash /root/list_of_host {file}")
    return set(cluster.out(host, f"cat {file}").splitlines())


def before(cluster: Cluster, host: str) -> set[str]:
    return set(cluster.out(host, "cat /root/before").splitlines())


@pytest.fixture(scope="module")
def gone(cluster: Cluster) -> dict[str, set[str]]:
    """What each host has after everything was taken away, by its name."""
    cluster.playbook(
        PLAYBOOK, variables={"slurm_uninstall_cluster": f"gone_{cluster.release}", "slurm_uninstall_records": f"gone_{cluster.release}"}
    )
    return {host: listed(cluster, host, "/root/after") for host in HOSTS}


@pytest.mark.parametrize("host", HOSTS)
def test_everything_of_ours_went_and_everything_of_others_stayed(cluster: Cluster, gone: dict[str, set[str]], host: str):
    assert sorted(gone[host] - before(cluster, host)) == []
    assert sorted(before(cluster, host) - gone[host]) == []


def test_somebody_else_s_database_stayed(cluster: Cluster, gone: dict[str, set[str]]):
    assert cluster.out("head", "mariadb -N -e 'SHOW DATABASES'").split() == [
        "information_schema",
        "mysql",
        "performance_schema",
        "shop",
        "sys",
    ]
    assert cluster.out("head", "mariadb -N -e 'SHOW TABLES FROM shop'") == "sales"
    assert "slurm" not in cluster.out("head", "mariadb -N -e 'SELECT user FROM mysql.user'").split()
