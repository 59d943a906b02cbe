# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_database_info."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_database_info


class Database:
    def __init__(self, _module):
        self.name = "slurm_acct_db"

    def tables(self):
        return ["cluster_table", "physics_job_table", "physics_assoc_table"]

    def query(self, statement, _database):
        return [["physics", "10.0.0.1"], ["empty", ""]] if "cluster_table" in statement else [["12"]]


@pytest.fixture
def database(monkeypatch):
    monkeypatch.setattr(slurm_database_info, "CONFIGURATION", __file__)
    monkeypatch.setattr(slurm_database_info, "Database", Database)


def test_clusters_and_their_jobs(run, database):
    found = run(slurm_database_info)
    assert found["clusters"] == {"physics": {"jobs": 12, "control_host": "10.0.0.1"}} and found["known"]


def test_a_database_that_is_not_there_yet_has_no_clusters(run, database, monkeypatch):
    monkeypatch.setattr(Database, "tables", lambda _self: [])
    found = run(slurm_database_info)
    assert found["clusters"] == {} and found["known"]
    monkeypatch.setattr(slurm_database_info, "CONFIGURATION", "/no/such/file")
    monkeypatch.setattr(slurm_database_info.AnsibleModule, "get_bin_path", lambda _self, _name: None)
    found = run(slurm_database_info)
    assert found["clusters"] == {} and found["known"]
    # Records may have been copied there.
    monkeypatch.setattr(slurm_database_info.AnsibleModule, "get_bin_path", lambda _self, name: f"/usr/sbin/{name}")
    assert run(slurm_database_info)["known"] is False


def test_a_database_that_does_not_answer_is_a_warning(run, database, monkeypatch):
    def tables(_self):
        raise ValueError("the accounting database does not answer: refused")

    said = []
    monkeypatch.setattr(Database, "tables", tables)
    monkeypatch.setattr(slurm_database_info.AnsibleModule, "warn", lambda _self, text: said.append(text))
    found = run(slurm_database_info)
    assert found["clusters"] == {} and found["known"] is False
    assert "does not answer" in said[0]
