"""The role slurm_database."""

from __future__ import annotations

import pytest
from local import Cluster

OWNS = (
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
