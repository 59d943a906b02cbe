# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that runs playbooks with secrets in a private folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "roles/tosca_site/files/tosca_run.sh"
INPUT = b'{"all": {}}\n{"munge_key": !unsafe "a\\nb {{ c }}"}\n'


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    """Something in the place of ansible-playbook: shows what it was given, and lives as long as the file stay is there."""
    made = tmp_path / "ansible-playbook"
    made.write_text(
        "#!/bin/bash\n"
        'echo "$@" >"$TMPDIR/words"; cat "$2" "${4#@}" >"$TMPDIR/read"; umask >"$TMPDIR/umask"\n'
        'stat --format=%a "$(dirname "$2")" "$2" "${4#@}" >"$TMPDIR/modes"\n'
        'while [ -e "$TMPDIR/stay" ]; do sleep 0.1; done\nexit 7\n'
    )
    made.chmod(0o755)
    return made


def start(folder: Path, *words: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", PROGRAM, *words], stdin=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}, umask=0o022)


def run(folder: Path, *words: str | Path) -> int:
    started = start(folder, *words)
    started.communicate(INPUT if words else None, timeout=30)
    return started.returncode


def left(folder: Path) -> list[Path]:
    return sorted(folder.glob("deephdc-tosca-*"))


def test_the_playbooks_get_both_files_and_no_other_user_does(tmp_path: Path, playbook: Path) -> None:
    assert run(tmp_path, playbook, "a.b.slurm", "a.b.oidc_proxy") == 7
    words = (tmp_path / "words").read_text().split()
    assert words[0] == "--inventory" and words[2] == "--extra-vars" and words[4:] == ["a.b.slurm", "a.b.oidc_proxy"]
    assert (tmp_path / "read").read_bytes() == INPUT
    assert (tmp_path / "modes").read_text().split() == ["700", "600", "600"]
    assert int((tmp_path / "umask").read_text(), 8) == 0o022, "what playbooks make on this machine is for services, too"
    assert len(left(tmp_path)) == 1
    assert run(tmp_path) == 0 and left(tmp_path) == []


def test_what_a_killed_run_left_goes_with_the_next_and_a_live_run_keeps_its_own(tmp_path: Path, playbook: Path) -> None:
    (tmp_path / "stay").touch()
    live = start(tmp_path, playbook, "a")
    killed = start(tmp_path, playbook, "b")
    for one in (live, killed):
        assert one.stdin
        one.stdin.write(INPUT)
        one.stdin.close()
    deadline = time.monotonic() + 30
    while len([folder for folder in left(tmp_path) if (folder / "variables.yml").exists()]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # The process is the playbooks' own, so nothing goes on behind it.
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(timeout=30) == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while len(left(tmp_path)) > 1:
        assert run(tmp_path) == 0 and time.monotonic() < deadline
    (kept,) = left(tmp_path)
    assert (kept / "variables.yml").exists()
    (tmp_path / "stay").unlink()
    assert live.wait(timeout=30) == 7
    assert run(tmp_path) == 0 and left(tmp_path) == []


def test_links_are_left_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "file").touch()
    (tmp_path / "deephdc-tosca-x").symlink_to(there)
    assert run(tmp_path) == 0
    assert (there / "file").exists() and (tmp_path / "deephdc-tosca-x").is_symlink()
