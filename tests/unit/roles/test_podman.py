# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""podman.sh, which all users of a host start: what another user puts below /tmp keeps it from nothing."""

from __future__ import annotations

import os
import pathlib
import pwd
import subprocess
import tempfile
import time
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
USER, OTHER = pwd.getpwnam("nobody"), 1


class Host:
    """A folder in the place of /tmp, and a podman that keeps what it is asked."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.note = folder / f"podman-run-{USER.pw_uid}/libpod/tmp/pause.pid"
        self.asked = folder / "asked"
        self.script = folder / "podman.sh"
        text = (ROOT / "roles/podman/files/podman.sh").read_text(encoding="utf-8")
        self.script.write_text(text.replace(" /tmp/", f" {folder}/").replace("/usr/bin/podman", f"{folder}/real"), encoding="utf-8")
        (folder / "real").write_text(f'#!/bin/sh\necho "$1" >> {self.asked}\n[ "$1" != ps ]\n', encoding="utf-8")
        (folder / "real").chmod(0o755)
        self.asked.touch()
        for path in (folder, self.asked):
            path.chmod(0o777)

    def put(self, kind: str, owner: int) -> None:
        self.note.parent.mkdir(parents=True)
        if kind == "pipe":
            os.mkfifo(self.note)
        else:
            self.note.write_text(f"{2**22 + 1}\n", encoding="ascii")  # no process has it
        for path in (self.note, *list(self.note.parents)[:3]):
            os.chown(path, owner, owner)

    def start(self) -> list[str]:
        """Start the script as the user; what podman was asked."""
        environment = {"PATH": os.environ["PATH"]}
        subprocess.run(["sh", self.script, "version"], check=False, env=environment, timeout=20, user=USER.pw_uid, group=USER.pw_gid)
        return self.asked.read_text(encoding="utf-8").split()


@pytest.fixture
def host() -> t.Iterator[Host]:
    if os.geteuid() != 0:
        pytest.skip("Only root can be another user")
    with tempfile.TemporaryDirectory() as name:
        yield Host(pathlib.Path(name))


def test_a_pipe_of_another_user_keeps_podman_from_nothing(host) -> None:
    host.put("pipe", OTHER)
    began = time.monotonic()
    assert host.start() == ["version"] and time.monotonic() - began < 10


@pytest.mark.parametrize(("owner", "asked"), [(USER.pw_uid, ["ps", "system", "version"]), (OTHER, ["version"])])
def test_podman_looks_anew_by_the_users_own_note_alone(host, owner, asked) -> None:
    host.put("file", owner)
    assert host.start() == asked
