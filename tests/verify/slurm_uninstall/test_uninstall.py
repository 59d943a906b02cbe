"""A cluster is taken off its hosts: not under a job, not by a wrong name.

What was there before is there again, and nothing else.
"""

from __future__ import annotations

import random

import pytest
from local import ROOT, Cluster, changed
from slurm_jobs import UNTIL_TOLD, submit, tell
from slurm_site import SITE, words

OWNS = (
    "playbooks/slurm_uninstall.yml",
    "roles/munge/tasks/remove.yml",
    "roles/slurm_packages/tasks/main.yml",
    "roles/slurm_uninstall",
    "molecule/slurm_uninstall",
    "tests/verify/slurm_uninstall/list_of_host",
)

PLAYBOOK = "playbooks/slurm_uninstall.yml"
HOSTS = ("head", "login", "gpu1")
LEAVES = "the cluster is gone"


def name(cluster: Cluster) -> str:
    return f"gone_{cluster.release}"


def refused(cluster: Cluster, sentence: str, *arguments: str, **variables: str) -> None:
    output = cluster.playbook(PLAYBOOK, *arguments, variables=variables, succeeds=False)
    assert sentence in words(output), output[-2000:]
    assert cluster.out("head", "systemctl is-active slurmctld slurmdbd").split() == ["active", "active"]
    assert cluster.out("head", "sinfo -h -o %a") == "up"


def test_a_job_is_not_ended(cluster: Cluster):
    job = submit(cluster, "--gres=gpu:a100:1", UNTIL_TOLD)
    cluster.until("head", f"squeue -h -j {job} -o %T", "RUNNING")
    refused(cluster, f"There are still 1 jobs: {job} of ada (RUNNING)", slurm_uninstall_cluster=name(cluster))
    refused(cluster, f"There are still 1 jobs: {job} of ada (RUNNING)", "--check", slurm_uninstall_cluster=name(cluster))
    assert cluster.out("head", f"squeue -h -j {job} -o %T") == "RUNNING"
    tell(cluster, "gpu1", job)
    cluster.until("head", "squeue -h | wc -l", "0")


def listed(cluster: Cluster, host: str, file: str) -> set[str]:
    script = (ROOT / "tests/verify/slurm_uninstall/list_of_host").read_text()
    cluster.out(host, f"cat > /root/list_of_host <<'EOF'\n{script}\nEOF\nbash /root/list_of_host {file}")
    return set(cluster.out(host, f"cat {file}").splitlines())


def before(cluster: Cluster, host: str) -> set[str]:
    return set(cluster.out(host, "cat /root/before").splitlines())


def test_records_stay_unless_they_are_named(cluster: Cluster):
    """Killed once on the way, and completed by the next run; then the cluster comes back with what it knew."""
    variables = {"slurm_uninstall_cluster": name(cluster)}
    last = submit(cluster, "--gres=gpu:a100:1", "true")
    cluster.until("head", "squeue -h | wc -l", "0")
    assert last in cluster.out("head", "sacct -n -X -a -P -o JobID -S now-1hour").splitlines()
    cluster.killed_playbook(PLAYBOOK, random.Random(), 14, variables=variables)
    cluster.playbook(PLAYBOOK, variables=variables)
    for host in HOSTS:
        assert cluster.out(host, "ls /usr/sbin/slurm* /usr/bin/squeue /etc/munge/munge.key 2>/dev/null || true") == ""
        # What the host had before is needed as long as there are records.
        assert cluster.out(host, "ls /var/lib/deephdc") == "slurm_found"
    assert cluster.out("head", "ls /var/lib/slurm/slurmctld/job_state")
    assert "slurm_acct_db" in cluster.out("head", "mariadb -N -e 'SHOW DATABASES'")
    output = cluster.playbook(PLAYBOOK, variables=variables)
    assert changed(output) == []
    cluster.playbook(SITE)
    job = submit(cluster, "--gres=gpu:a100:1", "true")
    assert int(job) > int(last), "numbers began anew"
    assert last in cluster.out("head", "sacct -n -X -a -P -o JobID -S now-1hour").splitlines()
    cluster.until("head", "squeue -h | wc -l", "0")


@pytest.fixture(scope="module")
def gone(cluster: Cluster) -> dict[str, set[str]]:
    """What each host has after everything was taken away, by its name."""
    cluster.playbook(PLAYBOOK, variables={"slurm_uninstall_cluster": name(cluster), "slurm_uninstall_records": name(cluster)})
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
