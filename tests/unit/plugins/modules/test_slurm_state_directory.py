# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_state_directory, and what slurm_record_info returns about such a directory."""

from __future__ import annotations

import getpass
import os

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_record_info, slurm_state_directory

USER = getpass.getuser()


@pytest.fixture
def make(run):
    return lambda path, **options: run(slurm_state_directory, path=str(path), user=USER, patience=0.3, **options)


def test_directory_is_made_for_its_user_alone_and_once(make, tmp_path):
    path = tmp_path / "a/b"
    assert make(path, _ansible_check_mode=True)["changed"] and not path.exists()
    assert make(path)["changed"]
    assert oct(path.stat().st_mode)[-3:] == "700"
    assert not make(path)["changed"]
    path.chmod(0o755)
    assert make(path)["changed"]


def test_controllers_see_each_others_token(make, tmp_path):
    make(tmp_path / "one", token="5")
    assert not make(tmp_path / "one", token="5", token_of="c1").get("failed")
    assert make(tmp_path / "one", token="6", token_of="c1")["failed"], "a token of another run"
    refused = make(tmp_path / "two", token="5", token_of="c1")
    assert refused["failed"] and "is not the directory that c1 has under this path" in refused["msg"]


def test_full_file_system_is_one_sentence(make, tmp_path):
    os.symlink("/dev/full", tmp_path / ".deephdc_shared")
    sentence = make(tmp_path, token="5")["msg"]
    assert sentence.startswith(f"slurmctld can't write in {tmp_path} on this host (No space left on device): ")


def test_state_is_copied_whole_and_an_unfinished_copy_goes_first(make, run, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "hash.1/job.11").mkdir(parents=True)
    (old / "hash.1/job.11/script").write_text("#!/bin/sh", encoding="utf-8")
    (old / "clustername").write_text("physics", encoding="utf-8")
    (old / ".deephdc_copied_from").write_text("/elsewhere\n", encoding="utf-8")
    make(new)
    (new / "unfinished").write_text("", encoding="utf-8")
    result = make(new, copy_from=str(old))
    assert result["copied"] and result["changed"]
    assert (new / "hash.1/job.11/script").read_text(encoding="utf-8") == "#!/bin/sh"
    assert not (new / "unfinished").exists() and (old / "clustername").exists()

    conf, stamp = tmp_path / "slurm.conf", tmp_path / "stamp"
    conf.write_text(f"ClusterName=x\nStateSaveLocation={old}\n", encoding="utf-8")
    stamp.write_text(f"{old}\n", encoding="utf-8")
    state = run(slurm_record_info, path="/nonexistent", state_directory=str(new), conf=str(conf), stamp=str(stamp), user=USER)["state"]
    assert (state["has_state"], state["former"], state["copied_from"], state["started_with"]) == (True, str(old), str(old), str(old))
    assert state["former_is"] and state["former_mib"] == 1 and state["foreign"] == ""


def test_directory_of_somebody_else_is_told(run, tmp_path):
    (tmp_path / "letters").write_text("", encoding="utf-8")
    options = {"path": "/nonexistent", "conf": "/nonexistent", "stamp": "/nonexistent"}
    assert run(slurm_record_info, state_directory=str(tmp_path), user="daemon", **options)["state"]["foreign"] == USER
    assert run(slurm_record_info, state_directory=str(tmp_path / "absent"), user="daemon", **options)["state"]["foreign"] == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_a_link_in_the_place_of_the_directory_is_refused(make, tmp_path):
    """The user slurm owns the directory above: root would give it whatever the link leads to."""
    (tmp_path / "etc").mkdir(mode=0o755)
    (tmp_path / "slurm").mkdir()
    os.chown(tmp_path / "slurm", 65534, 65534)
    os.symlink(tmp_path / "etc", tmp_path / "slurm/slurmctld")
    refused = make(tmp_path / "slurm/slurmctld")
    assert refused["failed"] and "slurmctld is a link" in refused["msg"]
    assert oct((tmp_path / "etc").stat().st_mode)[-3:] == "755"
