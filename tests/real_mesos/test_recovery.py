# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The real agent after each change that the role can make: the same one with its tasks, or one that never starts again."""

from __future__ import annotations

import base64

import program
import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.checkpoint import disk_mib
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.agent import identity_changes, settled, with_disk

ANOTHER = "Incompatible agent info detected"
SAME = "Re-registered with master"
RESOURCES, ATTRIBUTES = "MESOS_RESOURCES", "MESOS_ATTRIBUTES"
RECORD = "base64 --wrap=0 /srv/mesos/agents/0/*/meta/slaves/latest/slave.info"


def changed(variable: str, **parts: str | None) -> dict[str, str]:
    """What the roles write, with other parts of a variable; None takes one out."""
    present = dict(one.split(":", 1) for one in program.settings()[variable].split(";"))
    return {variable: ";".join(f"{name}:{value}" for name, value in {**present, **parts}.items() if value is not None)}


def after(mesos, before: dict[str, str], now: dict[str, str], disk: str = "20g", grown: str = "20g") -> str:
    """Start an agent, then start it again with a change, and return what it says."""
    mesos.start(before, disk=disk)
    mesos.agents()
    mesos.start(now, disk=grown)
    return mesos.until(ANOTHER, SAME)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {}, SAME),
        (changed(RESOURCES, disk="9000"), {RESOURCES: "disk:9000;" + program.settings()[RESOURCES]}, SAME),
        ({}, changed(RESOURCES, mem="62912"), ANOTHER),
        ({}, changed(RESOURCES, cpus="8"), ANOTHER),
        ({}, changed(ATTRIBUTES, gpu_driver_version="580.1"), ANOTHER),
        ({}, changed(ATTRIBUTES, rack="r1"), ANOTHER),
        ({}, {"MESOS_HOSTNAME": "gpu9"}, ANOTHER),
    ],
)
def test_what_makes_another_agent(mesos, before, now, said):
    """The table of identity_changes is what the real agent compares."""
    assert after(mesos, before, now) == said
    whole = program.settings()
    assert bool(identity_changes({**whole, **before}, {**whole, **now})) == (said == ANOTHER)


def test_an_agent_that_became_another_one_by_the_role_registers(mesos):
    """The role takes away the link by which it knows itself; a sandbox of a former task stays."""
    mesos.start()
    (former,) = mesos.agents()
    mesos.stop()
    mesos.run("rm /srv/mesos/agents/0/*/meta/slaves/latest")
    mesos.start(changed(RESOURCES, cpus="8"))
    mesos.until("Registered with master")
    assert former["id"] not in {one["id"] for one in mesos.agents()}


@pytest.mark.parametrize(
    "wanted",
    [
        changed(RESOURCES, disk="9000"),
        changed(RESOURCES, disk="9000", mem="62912"),
        {**changed(RESOURCES, disk="9000"), **changed(ATTRIBUTES, gpu_driver_version="580.1")},
        changed(RESOURCES, disk="20000"),
    ],
    ids=["none", "memory", "driver", "disk"],
)
def test_what_the_role_writes_after_a_new_kernel_driver_or_disk_keeps_the_agent(mesos, wanted):
    whole = program.settings()
    before = changed(RESOURCES, disk="9000")
    now = settled({**whole, **wanted}, {**whole, **before}, {})
    assert after(mesos, before, now, grown="30g") == SAME


def test_an_agent_without_a_disk_is_another_one_when_its_file_system_grew(mesos):
    assert after(mesos, {}, {}, grown="30g") == ANOTHER


def test_such_an_agent_gets_the_disk_of_its_own_record(mesos):
    mesos.start()
    mesos.agents()
    whole = program.settings()
    recorded = disk_mib(base64.b64decode(mesos.run(RECORD)))
    present = with_disk(whole, recorded)
    now = settled({**whole, **changed(RESOURCES, disk="20000")}, present, {})
    assert identity_changes(present, now) == []
    mesos.start({RESOURCES: now[RESOURCES]})
    assert mesos.until(ANOTHER, SAME) == SAME
    mesos.start({RESOURCES: now[RESOURCES]}, disk="30g")
    assert mesos.until(ANOTHER, SAME) == SAME
