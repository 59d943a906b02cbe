# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark is in no run of everything, so at least it must start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_benchmark_starts_and_refuses_an_unknown_section():
    done = subprocess.run([sys.executable, ROOT / "scripts/bench", "nonsense"], capture_output=True, text=True, check=False)
    assert "usage: scripts/bench" in done.stderr
