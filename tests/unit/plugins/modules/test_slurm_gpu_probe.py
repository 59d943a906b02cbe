# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_gpu_probe: what a job must print, and what it prints when something is wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_gpu_probe

DEVICES = {
    "gpu1": [
        {"gres_type": "a100", "files": ["/dev/nvidia0"]},
        {"gres_type": "a100", "files": ["/dev/nvidia1"]},
        {"gres_type": "t4", "files": ["/dev/nvidia2"]},
    ],
    "mig1": [
        {"gres_type": "a100_1g.10gb", "files": ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"]},
        {"gres_type": "a100_1g.10gb", "files": ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"]},
    ],
    "cpu1": [],
}
ALL = {node: sorted({path for device in own for path in device["files"]}) for node, own in DEVICES.items()}


def probe(gres_type=None):
    return {"partition": "gpu", "gres_type": gres_type}


def answer(node, *opened, **others):
    seen = {path: "opens" if path in opened else "EPERM" for path in ALL[node]}
    return "PROBE " + json.dumps([node, {**seen, **others}])


def judge(gres_type, output):
    return slurm_gpu_probe.judge(probe(gres_type), output, DEVICES)


@pytest.mark.parametrize(
    ("gres_type", "output", "shown"),
    [
        ("a100", answer("gpu1", "/dev/nvidia1"), "on gpu1: /dev/nvidia1 opens, 2 other denied"),
        ("t4", "module loaded\n" + answer("gpu1", "/dev/nvidia2") + "\n", "on gpu1: /dev/nvidia2 opens, 2 other denied"),
        (None, answer("gpu1"), "on gpu1: no device opens, 3 other denied"),
        (None, answer("cpu1"), "on cpu1: no device opens, 0 other denied"),
        (
            "a100_1g.10gb",
            answer("mig1", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"),
            "on mig1: /dev/nvidia-caps/nvidia-cap3, /dev/nvidia-caps/nvidia-cap4, /dev/nvidia0 opens, 2 other denied",
        ),
    ],
)
def test_right_answers(gres_type, output, shown):
    assert judge(gres_type, output) == (True, shown)


@pytest.mark.parametrize(
    ("gres_type", "output", "shown"),
    [
        ("a100", answer("gpu1", *ALL["gpu1"]), "on gpu1 the job could open /dev/nvidia0, /dev/nvidia1, /dev/nvidia2, it should have been "),
        ("a100", answer("gpu1", "/dev/nvidia0", "/dev/nvidia1"), "on gpu1 the job could open /dev/nvidia0, /dev/nvidia1, "),
        (
            "a100",
            answer("gpu1", "/dev/nvidia2"),
            "on gpu1 the job could open /dev/nvidia2, it should have been ['/dev/nvidia0'] or ['/dev/nvidia1']",
        ),
        ("a100", answer("gpu1"), "on gpu1 the job could open no device, it should have been "),
        (None, answer("gpu1", "/dev/nvidia0"), "on gpu1 the job could open /dev/nvidia0, it should have been []"),
        (
            "a100_1g.10gb",
            answer("mig1", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap4"),
            "on mig1 the job could open ",
        ),
        ("a100", answer("cpu1"), "on cpu1 the job could open no device, it should have been "),
        (
            "a100",
            answer("gpu1", "/dev/nvidia0", **{"/dev/nvidia1": "EACCES", "/dev/nvidia2": "ENOENT"}),
            "on gpu1 a device could not be tried (/dev/nvidia1: EACCES, /dev/nvidia2: ENOENT)",
        ),
        ("a100", "", "the job ended without its answer: no output"),
        ("a100", "line one\nline two", "the job ended without its answer: line one line two"),
        ("a100", f"{answer('gpu1')}\n{answer('gpu1')}", "the job ended without its answer: "),
    ],
)
def test_wrong_answers(gres_type, output, shown):
    good, said = judge(gres_type, output)
    assert good is False and said.startswith(shown)


def test_program_of_the_job(tmp_path):
    """The program itself, as a job runs it.

    A directory stands for a device that can't be opened for writing.
    """
    (tmp_path / "device").touch()
    (tmp_path / "denied").mkdir()
    lines = [f"a100 0000:0{number}:00.0 {tmp_path / name}" for number, name in enumerate(("device", "denied", "absent"))]
    (tmp_path / "gpu_devices").write_text("# made by a test\n" + "\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", slurm_gpu_probe.PROGRAM, str(tmp_path / "gpu_devices")],
        env={**os.environ, "SLURMD_NODENAME": "gpu1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("PROBE ") and done.stdout.count("\n") == 1
    node, seen = json.loads(done.stdout[len("PROBE ") :])
    assert node == "gpu1"
    assert {os.path.basename(path): result for path, result in seen.items()} == {
        "device": "opens",
        "denied": errno.errorcode[errno.EISDIR],
        "absent": errno.errorcode[errno.ENOENT],
    }


def test_command_asks_for_one_gpu_of_the_type_or_for_none():
    with_gpu = slurm_gpu_probe.command(probe("a100"), 30, [])
    assert {"--partition=gpu", "--gres=gpu:a100:1", "--immediate=30", "--ntasks=1"} <= set(with_gpu)
    assert not [word for word in slurm_gpu_probe.command(probe(), 30, []) if word.startswith("--gres")]


# --- the module ---


def srun(fake, out="", err="", code=0):
    fake("srun", f"cat <<'END'\n{out}\nEND\ncat >&2 <<'END'\n{err}\nEND\nexit {code}")


def test_proofs_are_listed(run, fake):
    srun(fake, answer("gpu1", "/dev/nvidia0"))
    result = run(slurm_gpu_probe, probes=[probe("a100")], devices=DEVICES)
    assert (result["changed"], result["busy"]) == (False, [])
    assert result["proved"] == ["gpu: a100 on gpu1: /dev/nvidia0 opens, 2 other denied"]


def test_wrong_answer_fails(run, fake):
    srun(fake, answer("gpu1", "/dev/nvidia0"))
    failed = run(slurm_gpu_probe, probes=[{"partition": "gpu"}], devices=DEVICES)
    assert failed["failed"] and failed["msg"].startswith("gpu: no GPU: on gpu1 the job could open /dev/nvidia0")


@pytest.mark.parametrize(
    "said",
    [
        "srun: error: Unable to allocate resources: Requested nodes are busy",
        "srun: error: Unable to allocate resources: Immediate execution impossible, insufficient priority",
        "srun: error: Unable to allocate resources: Connection timed out",
    ],
)
def test_busy_nodes_are_no_failure(run, fake, said):
    srun(fake, err=said, code=1)
    result = run(slurm_gpu_probe, probes=[probe("a100")], devices=DEVICES)
    assert "failed" not in result and (result["proved"], result["busy"]) == ([], ["gpu: a100"])


def test_no_job_goes_to_hosts_that_the_run_has_lost(run, fake):
    srun(fake, err="srun: error: Unable to allocate resources: Requested node configuration is not available", code=1)
    probes = [{"partition": "gpu", "gres_type": "a100", "exclude": "cloud[1-2]"}]
    result = run(slurm_gpu_probe, probes=probes, devices=DEVICES, away=["gpu1"])
    assert "failed" not in result and result["busy"] == ["gpu: a100"]
    assert "--exclude=cloud[1-2],gpu1" in str(fake.calls())
    assert run(slurm_gpu_probe, probes=probes, devices=DEVICES)["failed"], "a partition that could never run it"


def test_refused_job_tells_slurms_reason(run, fake):
    srun(fake, err="srun: error: Unable to allocate resources:\n Invalid generic resource (gres) specification", code=1)
    failed = run(slurm_gpu_probe, probes=[probe("a100")], devices=DEVICES)
    assert failed["msg"] == (
        "gpu: a100: SLURM did not run the job: srun: error: Unable to allocate resources: Invalid generic resource (gres) specification"
    )


def test_check_mode_runs_no_job(run, fake):
    srun(fake, code=1)
    result = run(slurm_gpu_probe, probes=[probe("a100")], devices=DEVICES, _ansible_check_mode=True)
    assert (result["proved"], result["busy"], fake.calls()) == ([], [], [])


SRUN = """#!/bin/sh
for word; do case $word in --partition=*) partition=${word#*=};; --immediate=*) patience=${word#*=};; esac; done
date +%s.%N >> PLACE/$partition.$patience
case $partition in
full*) sleep "$(awk "BEGIN {print $patience / 10}")"; echo "srun: error: Requested nodes are busy" >&2; exit 1;;
late) [ "$patience" -gt 3 ] || { echo "Immediate execution impossible" >&2; exit 1; };;
bad) echo "srun: error: Invalid account" >&2; exit 1;;
esac
echo 'PROBE ["cpu1", {}]'
"""


@pytest.fixture
def full_nodes(fake, tmp_path):
    fake("srun", SRUN.replace("PLACE", str(tmp_path)).split("\n", 1)[1])
    return lambda: sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".3", ".15"))


def test_probes_for_full_nodes_wait_side_by_side(full_nodes):
    """On full nodes ten probes waited 150 s."""
    probes = [{"partition": f"full{number}", "gres_type": None, "exclude": None} for number in range(6)]
    began = time.monotonic()
    answers = slurm_gpu_probe.run_all([*probes, {"partition": "free", "gres_type": None}, {"partition": "late", "gres_type": None}], 15, [])
    took = time.monotonic() - began
    assert [code for code, _out, _err in answers] == [1] * 6 + [0, 0]
    assert took < 6 * 1.5, took  # six in a row would take 9 s beside the first look
    assert full_nodes() == sorted(
        [*(f"full{number}.{patience}" for number in range(6) for patience in (3, 15)), "free.3", "late.3", "late.15"]
    )


def test_what_slurm_refuses_is_not_asked_again(full_nodes):
    ((code, _out, err),) = slurm_gpu_probe.run_all([{"partition": "bad", "gres_type": None}], 15, [])
    assert code == 1 and "Invalid account" in err and full_nodes() == ["bad.3"]
