# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The command that drains workers, given what SLURM's commands answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "roles/tosca_site/files/tosca_drain.sh"


@pytest.fixture
def slurm(tmp_path: Path):
    """A function: runs the command beside commands of SLURM that are lines of shell; they write what they were asked."""
    for name in ("scontrol", "squeue"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/asked\n. {tmp_path}/{name}.does\n')
        program.chmod(0o755)
    # Waits take no time.
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "sleep").chmod(0o755)

    def run(*words: str, scontrol: str = "", squeue: str = ""):
        (tmp_path / "scontrol.does").write_text(f"{scontrol}\n")
        (tmp_path / "squeue.does").write_text(f"{squeue}\n")
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", PROGRAM, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)
        asked = (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []
        return done.returncode, done.stdout + done.stderr, asked

    return run


def test_an_idle_worker_is_drained_at_once(slurm) -> None:
    code, said, asked = slurm("gpuwn-3")
    assert (code, said) == (0, "gpuwn-3 has no jobs and gets none: its machine can be removed\n")
    assert asked[1:] == [
        "scontrol update nodename=gpuwn-3 state=drain reason=leaves the deployment",
        "squeue --noheader --nodelist=gpuwn-3 --format=%i",
    ]


def test_it_waits_for_jobs(slurm, tmp_path: Path) -> None:
    """Twice there is one."""
    code, said, asked = slurm("gpuwn-3", "60", squeue=f"[ $(grep -c squeue {tmp_path}/asked) -gt 2 ] || echo 12")
    assert code == 0 and "can be removed" in said and len([one for one in asked if one.startswith("squeue")]) == 3


def test_the_reason_of_a_person_stays(slurm) -> None:
    code, _said, asked = slurm("gpuwn-3", scontrol="echo '   State=IDLE+DRAIN ThreadsPerCore=1 Reason=new fan'")
    assert code == 0 and [one for one in asked if "update" in one] == []


def test_it_names_the_jobs_that_stay(slurm) -> None:
    code, said, _asked = slurm("gpuwn-3", "0", squeue="echo 12; echo 13_4")
    assert (code, said) == (1, "After 0 s gpuwn-3 still runs the jobs 12 13_4: it gets no new ones. Run this again to wait on.\n")


@pytest.mark.parametrize(
    ("words", "options", "sentence"),
    [
        ((), {}, "usage: tosca_drain NAME [SECONDS]"),
        (("a", "1", "b"), {}, "usage: tosca_drain NAME [SECONDS]"),
        (("gpuwn-3", "soon"), {}, "'soon' is no number of seconds"),
        (("gpuwn-[3-4]",), {}, "'gpuwn-[3-4]' is no name of a worker: write one, as sinfo shows it"),
        (("gpuwn-9",), {"scontrol": "exit 1"}, "SLURM knows no worker gpuwn-9, or its controller does not answer: sinfo shows all of them"),
        (("gpuwn-3",), {"scontrol": "[ $1 = show ]"}, "SLURM does not drain gpuwn-3: run this as root"),
        (("gpuwn-3",), {"squeue": "exit 1"}, "SLURM does not say which jobs run on gpuwn-3: run this again"),
        (("gpuwn-3",), {"squeue": "echo 12; exit 1"}, "SLURM does not say which jobs run on gpuwn-3: run this again"),
    ],
)
def test_trouble_is_a_sentence(slurm, words, options, sentence: str) -> None:
    code, said, _asked = slurm(*words, **options)
    assert (code, said) == (1, f"{sentence}\n")
