"""The role slurm_database."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from local import Cluster, changed
from slurm_site import SITE, words

OWNS = (
    "plugins/plugin_utils/_slurm/databases.py",
    "roles/slurm_database/tasks",
    "roles/slurm_database/templates",
)


@pytest.mark.parametrize("host", ["ctl"], indirect=True)
def test_daemons_run_and_their_configuration_is_private(host):
    for unit in ("mariadb", "slurmdbd"):
        assert host.service(unit).is_running, unit
        assert host.service(unit).is_enabled, unit
    conf = host.file("/etc/slurm/slurmdbd.conf")
    assert (conf.user, conf.group, conf.mode) == ("slurm", "slurm", 0o600)
    assert "StoragePass" not in conf.content_string


@pytest.mark.parametrize("host", ["ctl"], indirect=True)
def test_database_listens_for_this_host_only(host):
    addresses = {line.split()[3] for line in host.check_output("ss -Hltn sport = :3306").splitlines()}
    assert addresses <= {"127.0.0.1:3306"}


def test_only_slurm_gets_into_the_database(cluster: Cluster):
    query = "mariadb --user=slurm slurm_acct_db -e 'show tables'"
    assert "acct_table" in cluster.out("ctl", f"runuser -u slurm -- {query}")
    assert cluster.run("ctl", query, user="ada").returncode != 0


def test_the_account_slurm_has_no_more_rights_than_it_needs(cluster: Cluster):
    rights = cluster.out("ctl", 'mariadb --skip-column-names -e "show grants for slurm@localhost"')
    assert "ON *.*" not in rights.replace("GRANT USAGE ON *.*", "")
    assert "unix_socket" in rights.lower()


def test_another_database_is_refused_because_its_records_begin_anew(cluster: Cluster):
    started = cluster.out("ctl", "systemctl show --property=ActiveEnterTimestamp slurmdbd")
    said = cluster.playbook(SITE, "--tags", "slurm_database", variables={"slurm_database_name": "other"}, succeeds=False)
    assert (
        "slurmdbd on ctl keeps its records in the database slurm_acct_db, but slurm_database_name is other, where the accounting would "
        "begin empty and slurmctld would refuse to start: set slurm_database_name to slurm_acct_db." in words(said)
    )
    assert changed(said) == []
    assert cluster.out("ctl", "systemctl show --property=ActiveEnterTimestamp slurmdbd") == started
    assert cluster.out("ctl", "mariadb --skip-column-names -e 'show databases like \"other\"'") == ""


def test_a_database_that_lacks_the_cluster_is_refused(cluster: Cluster):
    """As after its host was installed again: the cluster was added once more, and slurmctld did not start again."""
    cluster.out("ctl", "mariadb slurm_acct_db -e 'update cluster_table set deleted = 1'")
    try:
        said = cluster.playbook(SITE, succeeds=False)
    finally:
        cluster.out("ctl", "mariadb slurm_acct_db -e 'update cluster_table set deleted = 0'")
    assert "but the accounting database does not know this cluster: its records are lost" in words(said), said[-3000:]
    assert changed(said) == []


def test_another_host_is_refused_because_its_records_begin_anew(cluster: Cluster, tmp_path: Path):
    inventory = yaml.safe_load((cluster.inventory / "hosts.yml").read_text())
    inventory["all"]["children"]["slurm_databases"]["hosts"] = {"login": {}}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory))
    for more in ((), ("--check",)):
        said = cluster.playbook(SITE, *more, inventories=(str(path),), succeeds=False)
        assert "but slurm_databases means login (" in words(said) and "where it would begin empty" in words(said), said[-3000:]
        assert changed(said) == []
    assert cluster.run("login", "command -v slurmdbd").returncode == 1
