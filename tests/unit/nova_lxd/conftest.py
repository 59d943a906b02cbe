# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A fake LXD on a socket, and the driver's client for it. The driver is on no path of Python's before its role puts it there."""

from __future__ import annotations

import sys
import tempfile
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
for folder in (ROOT / "roles/nova_lxd/files", Path(__file__).parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from fake_lxd import FakeLXD  # noqa: E402  # because its folder is on the path only now
from nova_lxd.client import Client  # noqa: E402  # because its folder is on the path only now


@pytest.fixture
def lxd() -> t.Iterator[FakeLXD]:
    # pytest's folders are too deep for the 107 characters of a socket's path
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        fake = FakeLXD(f"{folder}/socket")
        try:
            yield fake
        finally:
            fake.close()


@pytest.fixture
def client(lxd: FakeLXD) -> Client:
    return Client(lxd.path, timeout=5, patience=10)
