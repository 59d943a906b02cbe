# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the plan and the roles write for Mesos is known to its programs.

The lists of flags are those of the stand-ins, which tests/real_mesos compares with the real programs. Those without a real program are in
tests/data/mesos, each with the file and line of its source.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import agent, manager
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils import mesos_examples

ROOT = Path(__file__).resolve().parents[4]
PARTS = ("chronos", "libprocess", "marathon")
FLAGS = ROOT / "tests/stand_ins/mesos/flags"
DATA = {part: yaml.safe_load((ROOT / f"tests/data/mesos/{part}.yml").read_text(encoding="utf-8")) for part in PARTS}
VARIABLE = re.compile(r"\b(?:MESOS|LIBPROCESS)_[A-Z0-9_]+\b")
# Of a host with everything that can be chosen.
CHOSEN = {
    "mesos_agent_attributes": {"rack": "r1"},
    "mesos_agent_resources": {"ports": "[31000-32000]"},
    "mesos_agent_devices": ["/dev/infiniband/uverbs0"],
    "mesos_agent_docker_registry": "https://registry.example.org",
    "mesos_agent_docker_config": "{}",
}


def known(part: str) -> set[str]:
    """The environment that a daemon reads; a deprecated name is not written."""
    lines = (FLAGS / f"mesos-{part}.txt").read_text(encoding="utf-8").splitlines()
    flags = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    names = {f"MESOS_{name.upper()}" for name, kind in flags.items() if not kind.startswith("=")}
    return names | {name for name, entry in DATA["libprocess"].items() if not entry.get("deprecated")}


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("part", ["master", "agent"])
def test_the_plan_writes_flags_that_mesos_knows(part, tls):
    hosts = mesos_examples.hosts()
    hosts["gpu1"].update(CHOSEN)
    plan = manager.plan(mesos_examples.site(hosts, tls=tls))
    assert not plan["errors"] and plan[part]
    assert {name for environment in plan[part].values() for name in environment} - known(part) == set()


@pytest.mark.parametrize("part", ["master", "agent"])
def test_the_roles_write_no_other_variable(part):
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / f"roles/mesos_{part}").rglob("*.yml")))
    assert set(VARIABLE.findall(text)) - known(part) - known("master") == set()


def test_what_makes_another_agent_is_known():
    assert set(agent.IDENTITY) - known("agent") == set()


def test_each_flag_has_a_source():
    lines = re.compile(r"(apache/mesos 1\.11\.0|mesosphere/(marathon|chaos) v[0-9.]+|mesos/chronos v3\.0\.2) \S+:[0-9]+")
    assert [name for part in DATA.values() for name, entry in part.items() if not lines.fullmatch(entry["source"])] == []
