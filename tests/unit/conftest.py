# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts, fake commands and vendors' documents for the tests of gpu_facts."""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import typing as t

import hypothesis
import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.tree import Link, device_nodes, expand, simulated_tree

# An example takes longer than hypothesis's deadline when the machine is busy. Here, as it must be before tests are read.
hypothesis.settings.register_profile("no_deadline", deadline=None)
hypothesis.settings.load_profile("no_deadline")

DATA = pathlib.Path(__file__).parent.parent / "data"


class SimulatedRoot:
    """A device tree in a temporary directory, made from a list of devices, that a test can damage."""

    def __init__(self, path: pathlib.Path, devices: list[dict[str, t.Any]]) -> None:
        self.path = path
        self.devices = expand(devices)
        for name, content in simulated_tree(devices).items():
            if isinstance(content, Link):
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).symlink_to(content.target)
            elif content is None:
                (path / name).mkdir(parents=True, exist_ok=True)
            else:
                self.write(name, content)
        for node in device_nodes(devices):
            self.write(f"dev/{node.name}", "")

    def __str__(self) -> str:
        return str(self.path)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, whatever was there before."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def remove(self, name: str) -> None:
        """Remove a file or a link."""
        (self.path / name).unlink()

    def device(self, address: str, name: str) -> str:
        """The path of a file of a PCI device, relative to the root."""
        return f"sys/bus/pci/devices/{address}/{name}"


@pytest.fixture
def simulate(tmp_path: pathlib.Path, commands: object) -> t.Callable[..., SimulatedRoot]:
    """Make a simulated host from devices, with no vendor's command: simulate({"type": "a100", "count": 2})."""
    return lambda *devices: SimulatedRoot(tmp_path / "root", list(devices))


@pytest.fixture
def commands(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str, str], pathlib.Path]:
    """Put a shell script into PATH, where no vendor's command of this machine is."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))

    def add(name: str, script: str) -> pathlib.Path:
        file = directory / name
        file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        file.chmod(0o755)
        return file

    return add


@pytest.fixture
def nvidia_smi(commands: t.Callable[[str, str], pathlib.Path]) -> t.Callable[..., None]:
    """Install an nvidia-smi that answers with documents of tests/data, or with bytes."""

    def install(document: str | bytes, listing: str = "/dev/null", rc: int = 0, said: str = "") -> None:
        file = DATA / "nvidia_smi" / document if isinstance(document, str) else None
        if file is None:
            assert isinstance(document, bytes)
            file = commands("document", "").with_name("document")
            file.write_bytes(document)
        lists = DATA / "nvidia_smi" / listing
        commands("nvidia-smi", f'if [ "$*" = "-L" ]; then exec cat "{lists}"; fi\ncat "{file}"\necho "{said}"\nexit {rc}')

    return install


if os.environ.get("UNITS_READ"):  # set by scripts/checks.py when all tests run
    opened: set[str] = set()
    sys.addaudithook(lambda event, words: opened.add(str(words[0])) if event == "open" else None)

    @pytest.fixture(autouse=True)
    def reads_what_it_names(request: pytest.FixtureRequest) -> t.Iterator[None]:
        """A run of few tests leaves out those that can't reach a change (scripts/narrow.py), so they must name what they read."""
        narrow()
        opened.clear()
        yield
        read = sorted(opened)
        root = str(request.config.rootpath)
        names = {os.path.relpath(os.path.realpath(name), root) for name in read if name.startswith("/")}
        # Hypothesis reads all modules that are loaded, such as those of narrow() itself.
        names = {name for name in names if not name.startswith("scripts/")}
        missing = narrow().unnamed(str(request.path.relative_to(root)), names)
        assert not missing, f"this file of tests reads {', '.join(missing)}, and names it nowhere: scripts/narrow.py would leave it out"

    @functools.cache
    def narrow() -> t.Any:
        from narrow import Narrow
        from plan import Plan

        return Narrow(Plan(pathlib.Path(__file__).parents[2]))
