# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_backup copies a state whose jobs come and go."""

from __future__ import annotations

import os
import shutil
import threading

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_backup


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    for number in range(400):
        job = directory / f"hash.{number % 10}/job.{number}"
        job.mkdir(parents=True)
        (job / "script").write_text(f"#!/bin/sh\n# {number}\n")
        (job / "environment").write_bytes(b"HOME=/\0")
    (directory / "job_state").write_text("jobs")
    return directory


def test_jobs_that_end_while_the_state_is_copied_are_left_out(state, tmp_path):
    going = threading.Event()

    def end_jobs():
        for number in range(399):
            if not going.is_set():
                shutil.rmtree(state / f"hash.{number % 10}/job.{number}")

    thread = threading.Thread(target=end_jobs)
    thread.start()
    try:
        for number in range(20):
            slurm_backup.copy_state(str(state), str(tmp_path / f"copy{number}"))
    finally:
        going.set()
        thread.join()
    for number in range(20):
        copy = tmp_path / f"copy{number}"
        assert (copy / "job_state").read_text() == "jobs"
        assert (copy / "hash.9/job.399/script").read_text() == "#!/bin/sh\n# 399\n", "the last job never ended"


def test_a_directory_that_is_gone_between_listing_and_copying_is_left_out(state, tmp_path, monkeypatch):
    """The job's directory is listed, then removed before it is read: copytree failed there."""
    real = os.scandir

    def scandir(path):
        if str(path).endswith("job.7"):
            shutil.rmtree(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    slurm_backup.copy_state(str(state), str(tmp_path / "copy"))
    assert not (tmp_path / "copy/hash.7/job.7").exists()
    assert (tmp_path / "copy/hash.7/job.17/script").exists()


def test_a_file_that_is_replaced_while_it_is_listed_is_tried_again(state, tmp_path, monkeypatch):
    real, seen = slurm_backup.top_level, []

    def top_level(directory):
        seen.append(directory)
        if len(seen) == 1:
            raise FileNotFoundError(directory)
        return real(directory)

    monkeypatch.setattr(slurm_backup, "top_level", top_level)
    slurm_backup.copy_state(str(state), str(tmp_path / "copy"))
    assert (tmp_path / "copy/job_state").exists()


def test_a_script_that_cannot_be_read_is_an_error(state, tmp_path, monkeypatch):
    def walk(_top, onerror):
        onerror(PermissionError(13, "Permission denied"))
        yield from ()

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(PermissionError):
        slurm_backup.copy_state(str(state), str(tmp_path / "copy"))


@pytest.mark.parametrize("place", ["hash.1/job.1/script", "hash.1/job.1/other"])
def test_a_link_or_a_pipe_of_slurms_leads_root_nowhere(state, tmp_path, place):
    """Its content would be SLURM's own after a restore, and a pipe would keep root waiting."""
    secret = tmp_path / "secret"
    secret.write_text("of root")
    (state / place).unlink(missing_ok=True)
    (state / place).symlink_to(secret)
    with pytest.raises(ValueError, match="is a link"):
        slurm_backup.copy_state(str(state), str(tmp_path / "copy"))
    (state / place).unlink()
    os.mkfifo(state / place)
    with pytest.raises(ValueError, match="is no file"):
        slurm_backup.copy_state(str(state), str(tmp_path / "copy"))


def test_the_state_is_read_with_the_rights_of_its_service(state, tmp_path, monkeypatch):
    """A file whose place is exchanged for a link after it was listed."""
    if os.geteuid() != 0:
        pytest.skip("Only root can be another user")
    monkeypatch.setattr(slurm_backup, "USER", "nobody")
    with pytest.raises(PermissionError):
        slurm_backup.copy_state(str(state), str(tmp_path / "copy"))
