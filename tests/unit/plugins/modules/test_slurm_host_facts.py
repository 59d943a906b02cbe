# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_host_facts."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_host_facts


@pytest.fixture
def packages(fake):
    fake("dpkg-query", 'echo "slurmd slurm-wlm 24.11.5-4 installed"')
    for command in ("dpkg", "systemctl", "apt-get"):
        fake(command)


def test_facts_have_the_names_that_setup_gives_them(run, packages):
    """Those that the plan reads: it would take a host without them for one that was never read."""
    result = run(slurm_host_facts, _ansible_check_mode=True, accelerators=False)
    facts = result["ansible_facts"]
    wanted = {"hostname", "distribution", "distribution_major_version", "os_family", "memtotal_mb", "processor_vcpus", "architecture"}
    assert {name for name in wanted if f"ansible_{name}" not in facts} == set()
    assert facts["slurm_packages"]["release"] == "24.11"
    assert result["distribution_python"] is False  # that of the tests is a virtual environment's
    assert (result["changed"], result["names"], "accelerators" in facts) == (False, ["slurmd"], False)


def test_accelerators_are_those_of_gpu_facts(run, packages, simulate):
    result = run(slurm_host_facts, root=str(simulate({"type": "a100", "count": 2})))
    assert [device["type"] for device in result["ansible_facts"]["accelerators"]] == ["a100", "a100"]


@pytest.mark.parametrize("program, seen", [("echo '[\"/dev/nvidia0\"]'", ["/dev/nvidia0"]), ("echo broken >&2; exit 1", [])])
def test_what_is_closed_to_jobs_is_what_the_guard_tried(run, packages, fake, simulate, monkeypatch, tmp_path, program, seen):
    root = str(simulate({"type": "a100", "count": 1}))
    assert run(slurm_host_facts, root=root)["ansible_facts"]["closed_to_jobs"] == []
    fake("gpu_guard", program)
    monkeypatch.setattr(slurm_host_facts, "GUARD", str(tmp_path / "fake_commands/gpu_guard"))
    assert run(slurm_host_facts, root=root)["ansible_facts"]["closed_to_jobs"] == seen
