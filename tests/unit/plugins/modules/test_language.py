# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Modules read what commands print, which must not be in the language of the host or of the operator's terminal."""

from __future__ import annotations

import re
from pathlib import Path

import ansible_collections.deephdc.accelerators.plugins.modules.file_set as any_module
import pytest

# What names alone would not show: scripts/narrow.py.
READS = ("*",)

MODULES = Path(any_module.__file__).resolve().parent
READERS = re.compile(
    r"run_command\(|import .*\b(?:sacctmgr|apt_source|dpkg)\b|_slurm import (?:packages|database)\b"
    r"|\b(?:sacctmgr|packages|database|dpkg) import"
)
READING = [path for path in sorted(MODULES.glob("*.py")) if READERS.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", READING, ids=lambda path: path.stem)
def test_commands_speak_english(path):
    """'apt-cache policy' says Installationskandidat on a German host, which ended a run with a traceback."""
    text = path.read_text(encoding="utf-8")
    assert re.search(r"module = AnsibleModule\(", text)
    assert 'run_command_environ_update = {"LC_ALL": "C"}' in text


def test_no_module_reads_names_of_months():
    for path in sorted(MODULES.glob("*.py")):
        assert not re.search(r"strptime\([^)]*%[bB]", path.read_text(encoding="utf-8")), path.name
