# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""One container with the real Mesos for all tests; each test starts the programs as it wants them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import program  # noqa: E402 - because the folder, which is no package, was put on the path above


def printed(*command: str) -> str:
    return subprocess.run(command, cwd=program.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture(scope="session")
def container():
    label = f"real-mesos-{printed('scripts/checkout-name')}"
    name = f"deephdc-{label}"
    subprocess.run(["docker", "rm", "-fv", name], check=False, capture_output=True)
    try:
        yield program.Mesos(name, f"deephdc.accelerators={label}", printed("scripts/image", program.IMAGE))
    finally:
        subprocess.run(["docker", "rm", "-fv", name], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def mesos(container):
    """Programs that never ran."""
    container.forget()
    return container
