"""Records of the accounting on the site's own server."""

from __future__ import annotations

from local import Cluster, changed
from slurm_jobs import ended, submit
from slurm_site import SITE

OWNS = ("roles/slurm_database/tasks/configure.yml",)

FILES = "sha256sum /etc/slurm/slurmdbd.conf; systemctl show -P ActiveEnterTimestampMonotonic slurmdbd"


def test_a_wrong_password_is_tried_before_it_is_written(cluster: Cluster):
    """It was in slurmdbd's file on all hosts, and slurmdbd down at its next start."""
    before = [cluster.out(host, FILES) for host in ("ctl1", "ctl2")]
    for options in ([], ["--limit", "ctl1"]):
        said = cluster.playbook(SITE, *options, variables={"slurm_database_storage_password": "wrong-and-secret"}, succeeds=False)
        assert "Access denied for user" in said and "wrong-and-secret" not in said
        assert changed(said) == []
    assert [cluster.out(host, FILES) for host in ("ctl1", "ctl2")] == before
    job = submit(cluster, "--nodelist=gpu1", "true")
    assert ended(cluster, job)[0]["State"] == "COMPLETED"
