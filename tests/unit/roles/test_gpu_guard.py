# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program of the role gpu_guard.

What a kernel does with its words is tried in tests/verify/kubernetes/test_beside_slurm.py.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "roles/gpu_guard/files/gpu_guard.py"
ZERO = os.stat("/dev/zero").st_rdev


@pytest.fixture
def guard(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu_guard", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "devices").mkdir()
    monkeypatch.setattr(module, "DEVICES", str(tmp_path / "devices"))
    monkeypatch.setattr(module, "WANTED", str(tmp_path / "gpu_guard"))
    monkeypatch.setattr(module, "state", {}, raising=False)
    # In place of a kernel: what devices.deny and devices.allow had written last.
    monkeypatch.setattr(module, "states", lambda group, paths: {path: module.state.get(path, "open") for path in paths})
    kernel = {"devices.deny": "closed", "devices.allow": "open"}
    monkeypatch.setattr(module, "write", lambda group, name, path: module.state.update({path: kernel[name]}))
    return module


def call(module, monkeypatch, text: str, *arguments: str) -> None:
    Path(module.WANTED).write_text(text, encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["gpu_guard", *arguments])
    module.main()


TEXT = "# Made by a role\nclosed /dev/zero\nopen /dev/full\n"


def test_it_says_what_it_changed_and_nothing_the_second_time(guard, monkeypatch, capsys):
    call(guard, monkeypatch, TEXT)
    assert capsys.readouterr().out == "closed /dev/zero\n"
    call(guard, monkeypatch, TEXT)
    assert capsys.readouterr().out == ""
    call(guard, monkeypatch, TEXT, "--show")
    assert capsys.readouterr().out == '["/dev/zero"]\n'
    call(guard, monkeypatch, TEXT, "--lift")
    assert capsys.readouterr().out == "opened /dev/zero\n"
    call(guard, monkeypatch, TEXT, "--show")
    assert capsys.readouterr().out == "[]\n"


def test_a_file_that_moved_to_slurm_opens(guard, monkeypatch, capsys):
    call(guard, monkeypatch, TEXT)
    call(guard, monkeypatch, "closed /dev/full\nopen /dev/zero\n")
    assert capsys.readouterr().out.splitlines() == ["closed /dev/zero", "closed /dev/full", "opened /dev/zero"]


def test_a_device_of_a_job_is_left_to_it(guard, monkeypatch, capsys):
    """This process has the device open, as a process of a job would."""
    (Path(guard.group_of_jobs()) / "job_7").mkdir(parents=True)
    (Path(guard.group_of_jobs()) / "job_7/cgroup.procs").write_text(f"{os.getpid()}\n")
    with open("/dev/zero", "rb"):
        with pytest.raises(SystemExit, match="of SLURM uses /dev/zero: wait for it"):
            call(guard, monkeypatch, TEXT)
        assert guard.state == {}
        call(guard, monkeypatch, TEXT, "--start")
        assert guard.state == {} and "uses /dev/zero" in capsys.readouterr().out, "slurmd starts"
    call(guard, monkeypatch, TEXT)
    assert guard.state == {"/dev/zero": "closed"}


def test_slurms_own_variables_say_that_a_job_has_the_gpu(guard, monkeypatch, tmp_path):
    """Before a program of it has opened the device.

    SLURM's numbers are not those of the files.
    """
    (tmp_path / "gpu_devices").write_text("# Made by a role\na100 0000:02:00.0 /dev/nvidia1 0\na100 0000:03:00.0 /dev/nvidia2 1\n")
    monkeypatch.setattr(guard, "SCHEDULED", str(tmp_path / "gpu_devices"))
    monkeypatch.setattr(guard, "processes", lambda group: ["11"])
    monkeypatch.setattr(guard, "has_open", lambda pid, device: False)
    monkeypatch.setattr(guard, "number", lambda path: (195, 1))
    for own, job in (
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"}, "7"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "0"}, "7"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1,10"}, None),
        ({}, None),
    ):
        monkeypatch.setattr(guard, "variables", lambda pid, own=own: own)
        assert guard.user_of("/group", "/dev/nvidia1") == job
        assert guard.user_of("/group", "/dev/nvidia0") is None, "SLURM does not have it"


def test_a_program_that_does_not_know_says_so(guard, monkeypatch, capsys):
    for text, why in (("shut /dev/zero\n", "has the line 'shut /dev/zero'"), ("closed /dev/nothing\n", "No such file")):
        with pytest.raises(SystemExit, match=why):
            monkeypatch.setattr(guard, "states", lambda group, paths: {path: guard.number(path) and "open" for path in paths})
            call(guard, monkeypatch, text)
    monkeypatch.setattr(guard, "DEVICES", "/nonexistent")
    with pytest.raises(SystemExit, match="control groups of version 2"):
        call(guard, monkeypatch, TEXT, "--start")
    call(guard, monkeypatch, TEXT, "--show")
    assert capsys.readouterr().out.splitlines()[-1] == "[]"


def test_a_device_that_stays_open_is_an_error(guard, monkeypatch):
    monkeypatch.setattr(guard, "write", lambda group, name, path: None)
    with pytest.raises(SystemExit, match="jobs can still open /dev/zero"):
        call(guard, monkeypatch, TEXT)


def test_a_host_where_nothing_can_be_closed_is_given_back(guard, monkeypatch, capsys):
    """Control groups of version 2: the host could not be given back."""
    monkeypatch.setattr(guard, "DEVICES", "/nonexistent")
    call(guard, monkeypatch, TEXT, "--lift")
    assert capsys.readouterr().out == "" and guard.state == {}


def test_control_groups_that_can_not_be_seen_are_no_answer(guard, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(guard, "DEVICES", str(tmp_path / "file/devices"))
    with pytest.raises(SystemExit, match="Not a directory"):
        call(guard, monkeypatch, TEXT, "--lift")
