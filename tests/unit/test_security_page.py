# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The tests that docs/security.md names are there."""

from __future__ import annotations

import re
from pathlib import Path

# What names alone would not show: scripts/narrow.py.
READS = ("*",)
ROOT = Path(__file__).resolve().parents[2]


def test_each_sentence_has_a_test_that_exists() -> None:
    found, missing = 0, []
    for line in (ROOT / "docs/security.md").read_text(encoding="utf-8").splitlines():
        path = ""
        for word in re.findall(r"`([^`]+)`", line):
            if word.endswith(".py"):
                path = word
            elif word.startswith("test_"):
                found += 1
                text = (ROOT / "tests" / path).read_text(encoding="utf-8") if path else ""
                missing += [] if re.search(rf"^ *def {word}\(", text, re.M) else [f"{path}: {word}"]
    assert missing == [] and found > 20
