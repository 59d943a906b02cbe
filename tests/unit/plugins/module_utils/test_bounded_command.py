# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands that hang, fail, or leave children behind."""

from __future__ import annotations

import pathlib
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.bounded_command import TimeBudget, find_command, run_bounded
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather

HANGING = {
    "sleeps": "exec sleep 60",
    "ignores SIGTERM": "trap '' TERM HUP INT; while :; do sleep 60; done",
    "leaves a child that holds the pipes": "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ >{pid}; exec sleep 60\" & sleep 0.1; wait",
}


def ends(pid: int) -> bool:
    """Whether a process that was killed is gone, or a zombie, within two seconds."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("script", HANGING.values(), ids=HANGING)
def test_hanging_nvidia_smi_costs_the_timeout_only(simulate, commands, tmp_path, script):
    pid = tmp_path / "pid"
    commands("nvidia-smi", script.replace("{pid}", str(pid)))
    root = simulate({"type": "a100", "count": 2})
    began = time.monotonic()
    entries = gather(str(root), timeout=0.5)
    assert time.monotonic() - began < 1.5
    for entry in entries:
        assert [found["problem"] for found in entry["health"]] == ["nvidia_smi_timeout"]
        assert entry["type"] == "a100" and entry["device_files"] and entry["driver_version"]
    if pid.exists():
        assert ends(int(pid.read_text()))


def test_a_command_that_ends_is_not_kept_by_its_child(commands, tmp_path):
    pid = tmp_path / "pid"
    command = commands("forks", f"sh -c 'echo $$ >{pid}; exec sleep 60' & sleep 0.1; echo done")
    began = time.monotonic()
    result = run_bounded([str(command)], TimeBudget(10))
    assert (result.rc, result.stdout, result.timed_out) == (0, b"done\n", False)
    assert time.monotonic() - began < 5
    assert ends(int(pid.read_text()))


def test_all_commands_share_the_time(simulate, commands):
    commands("nvidia-smi", "exec sleep 60")
    commands("rocm-smi", "exec sleep 60")
    root = simulate({"type": "a100"}, {"type": "mi100"})
    root.remove(root.device("0000:02:00.0", "serial_number"))
    began = time.monotonic()
    nvidia, amd = gather(str(root), timeout=0.6)
    assert time.monotonic() - began < 1.5
    assert nvidia["health"][0]["problem"] == "nvidia_smi_timeout"
    assert amd["health"][0]["problem"] == "rocm_smi_timeout" and amd["memory_mib"] == 32752


def test_output_errors_and_return_value(commands):
    command = commands("fails", "echo out; echo err >&2; exit 14")
    assert run_bounded([str(command)], TimeBudget(10)) == (14, b"out\n", b"err\n", False)


def test_a_command_that_writes_for_ever_is_ended(simulate, commands):
    commands("nvidia-smi", "exec yes")
    (entry,) = gather(str(simulate({"type": "a100"})), timeout=20)
    assert [found["problem"] for found in entry["health"]] == ["nvidia_smi_failed"]


def test_a_command_that_cannot_be_started(tmp_path):
    result = run_bounded([str(tmp_path / "none")], TimeBudget(10))
    assert result.rc is None and not result.timed_out and b"No such file" in result.stderr


def test_find_command(commands, tmp_path, monkeypatch):
    command = commands("nvidia-smi", "exit 0")
    (tmp_path / "not").mkdir()
    (tmp_path / "not" / "nvidia-smi").write_text("not executable")
    monkeypatch.setenv("PATH", f"/nonexistent:{tmp_path / 'not'}:{command.parent}")
    assert find_command("nvidia-smi") == str(command)
    assert find_command("rocm-smi") is None
