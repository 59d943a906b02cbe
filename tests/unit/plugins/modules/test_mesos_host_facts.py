# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module mesos_host_facts on trees that stand for hosts."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import mesos_host_facts


def made(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


@pytest.mark.parametrize(
    ("paths", "cgroup", "controllers"),
    [
        (["cgroup.controllers", "cgroup.procs"], 2, []),
        (["cpu,cpuacct/cgroup.procs", "devices/cgroup.procs", "systemd/cgroup.procs", "memory/x"], 1, ["cpu", "cpuacct", "devices"]),
        (["unified/cgroup.procs", "unified/cgroup.controllers", "freezer/cgroup.procs"], 1, ["freezer"]),
        ([], 0, []),
    ],
)
def test_control_groups(run, tmp_path, paths, cgroup, controllers):
    made(tmp_path, *(f"sys/fs/cgroup/{path}" for path in paths))
    found = run(mesos_host_facts, root=str(tmp_path))["ansible_facts"]["mesos_host"]
    assert found == {"cgroup": cgroup, "controllers": controllers, "nvml": False, "agent_disk_mib": 0}


def test_nvidias_library(run, tmp_path):
    made(tmp_path, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
    assert run(mesos_host_facts, root=str(tmp_path))["ansible_facts"]["mesos_host"]["nvml"] is True


# Of a real agent that reckoned its disk itself (tests/real_mesos).
RECORD = base64.b64decode(
    "CQEAAAoEZ3B1MRoWCgRjcHVzEAAaCQkAAAAAAAAwQDIBKhoVCgNtZW0QABoJCQAAAAAAwO5AMgEqGhYKBGRpc2sQABoJCQAAAAAA"
    "AM5AMgEqGhgKBXBvcnRzEAEiCgoICJjyARCA+gEyASoqGAoKZ3B1X3ZlbmRvchADKggKBm52aWRpYSokChJncHVfZHJpdmVyX3Zl"
    "cnNpb24QAyoMCgo1NTAuMTYzLjAxKhgKCWdwdXNfYTEwMBAAGgkJAAAAAAAAAEAqFgoHZ3B1c190NBAAGgkJAAAAAAAA8D8yKQon"
    "Mzk4ZTkxZjUtMzc4ZC00NjNlLTgxYmQtYzk3NTY4ZGQ1MmMyLVMwOAFAynU="
)


@pytest.mark.parametrize(
    ("record", "mib"),
    [(RECORD, 15360), (RECORD[:-1], 0), (RECORD[:4], 0), (b"", 0), (b"\x02\0\0\0\x1a\x7f", 0), (b"\x01\0\0\0\xff", 0), (b"\0\0\0\0", 0)],
)
def test_disk_of_the_agent(run, tmp_path, record, mib):
    path = tmp_path / "var/lib/mesos/agent/meta/slaves/latest/slave.info"
    path.parent.mkdir(parents=True)
    path.write_bytes(record)
    assert run(mesos_host_facts, root=str(tmp_path))["ansible_facts"]["mesos_host"]["agent_disk_mib"] == mib
