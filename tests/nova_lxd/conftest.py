# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The driver with the Nova that is installed, and a fake LXD.

    VENV/bin/pytest tests/nova_lxd     VENV has nova and pytest

Nova is on compute hosts and in such virtual environments only; these tests are no part of the unit tests.
"""

from __future__ import annotations

import sys
import tempfile
import typing as t
import warnings
from pathlib import Path

import pytest

warnings.simplefilter("ignore")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/unit/nova_lxd"), str(Path(__file__).parent)]

import nova.conf  # noqa: E402  # because the path is complete only now
import nova.virt  # noqa: E402  # because the path is complete only now
from fake_lxd import FakeLXD  # noqa: E402  # because its folder is on the path only now
from nova import objects  # noqa: E402  # because the path is complete only now

nova.virt.__path__.append(str(ROOT / "roles/nova_lxd/files"))
objects.register_all()
CONF = nova.conf.CONF
CONF([], project="nova", default_config_files=[])


@pytest.fixture
def lxd() -> t.Iterator[FakeLXD]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        fake = FakeLXD(f"{folder}/socket")
        try:
            yield fake
        finally:
            fake.close()
