# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module mesos_host_facts on trees that stand for hosts."""

from __future__ import annotations

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
    assert found == {"cgroup": cgroup, "controllers": controllers, "nvml": False}


def test_nvidias_library(run, tmp_path):
    made(tmp_path, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
    assert run(mesos_host_facts, root=str(tmp_path))["ansible_facts"]["mesos_host"]["nvml"] is True
