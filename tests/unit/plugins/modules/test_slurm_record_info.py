# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_record_info."""

from __future__ import annotations

import os

from ansible_collections.deephdc.accelerators.plugins.modules import slurm_record_info


def test_record_is_read_as_it_is(run, tmp_path):
    file = tmp_path / "record.json"
    assert run(slurm_record_info, path=str(file), _ansible_check_mode=True)["record"] == ""
    file.write_text('{"nodes": {"größe": []}}\n', encoding="utf-8")
    result = run(slurm_record_info, path=str(file))
    assert (result["changed"], result["record"]) == (False, '{"nodes": {"größe": []}}\n')


def test_damaged_record_is_left_to_the_plan(run, tmp_path):
    file = tmp_path / "record.json"
    file.write_bytes(b'{"nodes": \xff')
    assert run(slurm_record_info, path=str(file))["record"] == '{"nodes": \ufffd'


CONF = "ClusterName=physics\nPartitionName=DEFAULT State=UP\nPartitionName=batch Nodes=gpu[1-2]\n"


def test_jobs_cluster_and_partitions_of_the_present_configuration(run, fake, tmp_path):
    conf = tmp_path / "slurm.conf"
    fake("squeue", "printf '%s\\n' '17|alice|batch|gpu[1-2]' '18|bob|batch,long|'")
    assert run(slurm_record_info, conf=str(conf))["jobs"] == {"partitions": {}, "nodes": {}}, "not configured yet"
    conf.write_text(CONF)
    found = run(slurm_record_info, conf=str(conf))
    assert (found["cluster"], found["partitions"]) == ("physics", ["batch"])
    assert found["jobs"]["partitions"] == {
        "batch": {"count": 2, "some": ["17 of alice", "18 of bob"]},
        "long": {"count": 1, "some": ["18 of bob"]},
    }
    assert sorted(found["jobs"]["nodes"]) == ["gpu1", "gpu2"]
    fake("squeue", "exit 1")
    assert run(slurm_record_info, conf=str(conf))["jobs"] is None, "unknown is not none"


def test_what_can_not_be_read_is_not_absent(run, tmp_path, monkeypatch):
    """With ansible_become: false a live cluster had "no state", and the advice was to begin without it."""
    state = tmp_path / "slurmctld"
    state.mkdir()
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    options = {"conf": str(conf), "state_directory": str(state), "stamp": "/nonexistent", "moved": "/nonexistent"}
    real, refused = os.stat, {"path": ""}

    def stat(path, *args, **words):
        if str(path) == refused["path"]:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **words)

    monkeypatch.setattr(os, "stat", stat)
    assert run(slurm_record_info, path="/nonexistent", **options)["state"]["has_state"] is False
    refused["path"] = str(state / "clustername")
    found = run(slurm_record_info, path="/nonexistent", **options)
    assert found["failed"] and found["unreadable"] == refused["path"]
    assert "Read the host as root (ansible_become: true)" in found["msg"]
    found = run(slurm_record_info, path=str(tmp_path), **options)
    assert found["failed"] and found["unreadable"] == str(tmp_path), "a folder is no record"
