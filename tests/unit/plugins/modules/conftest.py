# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run a module as Ansible would, in this process, and fake the commands it calls."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from ansible.module_utils import basic


@pytest.fixture
def run(monkeypatch, capsys):
    """run(module, option=value, ...) gives the module's result.

    The raw text is in its key printed.
    """

    def run_module(module, **arguments):
        text = json.dumps({"ANSIBLE_MODULE_ARGS": arguments})
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", text.encode())
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)  # ansible-core 2.19 and newer
        with pytest.raises(SystemExit):
            module.main()
        printed = capsys.readouterr().out
        return {**json.loads(printed), "printed": printed}

    return run_module


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """fake(name, script) puts a shell script into PATH before everything else.

    Each call is a line of fake.calls().
    """
    directory = tmp_path / "fake_commands"
    directory.mkdir()
    log = directory / "calls.log"
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")

    def add(name, script="exit 0"):
        file = directory / name
        file.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >> {log}\n{script}\n', encoding="utf-8")
        file.chmod(0o755)

    add.calls = lambda: log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return add


class Kubectl:
    """A kubectl that answers from the file of a cluster; see fake_kubectl.py."""

    def __init__(self, directory, fake):
        self._path = directory / "cluster.json"
        self.calls = fake.calls
        program = directory / "fake_kubectl.py"
        program.write_text(pathlib.Path(__file__).with_name("fake_kubectl.py").read_text(encoding="utf-8"), encoding="utf-8")
        self._made = lambda: fake("kubectl", f'exec {sys.executable} -S -E {program} "$@"')

    @property
    def cluster(self):
        return json.loads(self._path.read_text(encoding="utf-8"))

    @cluster.setter
    def cluster(self, given):
        """Set the cluster, and forget the calls so far."""
        self._path.write_text(json.dumps({"nodes": [], "pods": [], **given}), encoding="utf-8")
        self._made()
        (self._path.parent / "fake_commands/calls.log").unlink(missing_ok=True)


@pytest.fixture
def kubectl(tmp_path, fake):
    return Kubectl(tmp_path, fake)
