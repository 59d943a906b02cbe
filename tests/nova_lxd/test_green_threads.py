# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""nova-compute is one process with green threads: an LXD that is silent must stop none but the one that asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fake_lxd import FakeLXD

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import eventlet
eventlet.monkey_patch()
import sys
import time
sys.path.insert(0, sys.argv[1])
from nova_lxd.client import Client
from nova_lxd.errors import LXDUnavailable

ticks = []

def tick():
    while True:
        ticks.append(time.monotonic())
        eventlet.sleep(0.1)

ticker = eventlet.spawn(tick)
try:
    Client(sys.argv[2], timeout=2).get()
except LXDUnavailable as error:
    print(error)
print(len(ticks))
"""


def test_a_silent_lxd_does_not_stop_other_green_threads(lxd: FakeLXD) -> None:
    lxd.deaf = True
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(ROOT / "roles/nova_lxd/files"), lxd.path]
    said, ticks = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.splitlines()
    assert "did not answer in 2 seconds" in said
    assert int(ticks) > 5
