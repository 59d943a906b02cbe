# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which agents an operator means, and what keeps one away."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import manager, operations
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

GROUPS = {
    "mesos_masters": ["ctl"],
    "marathon_lb": ["h3"],
    "mesos_agents": ["h1", "h2", "h3"],
    "rack": ["h2", "h3"],
}


def selected(wanted, in_play=("h1", "h2", "h3"), limited=False, leaves=False):
    return operations.selection(wanted, "mesos_drain_hosts", GROUPS, list(in_play), limited, leaves)


@pytest.mark.parametrize("wanted", [["rack", "h1"], "h1, rack", ["h3", "h2", "h1", "h1"]])
def test_hosts_and_groups_are_selected(wanted):
    assert selected(wanted) == {"hosts": ["h1", "h2", "h3"], "errors": []}


def test_the_limit_names_hosts_and_nothing_does_not():
    assert selected([], ["h2"], limited=True)["hosts"] == ["h2"]
    assert "is not set" in selected("")["errors"][0]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("h9", "mesos_drain_hosts names h9, which is not in mesos_agents: use the names of the inventory."),
        ("ctl", "mesos_drain_hosts names ctl, which is not in mesos_agents"),
        (["h1", 3], "must be a list of hosts or groups"),
        ({"h1": 1}, "must be a list of hosts or groups"),
    ],
)
def test_what_is_no_agent_is_refused(wanted, sentence):
    answer = selected(wanted)
    assert answer["hosts"] == [] and sentence in answer["errors"][0]


def test_a_host_outside_of_the_limit_is_refused():
    assert "which --limit leaves out" in selected("h1", ["h2"], limited=True)["errors"][0]


def test_a_host_with_another_part_may_be_drained_and_not_leave():
    assert selected("h3")["hosts"] == ["h3"]
    assert "h3, which has another part of the cluster, too" in selected("h3", leaves=True)["errors"][0]
    assert selected("h1", leaves=True)["hosts"] == ["h1"]


def test_what_does_not_leave_is_named():
    assert operations.not_leaving("h1, h2", "mesos_remove_dead", ["h1"]) == [
        "mesos_remove_dead names h2, which mesos_remove_hosts does not."
    ]
    assert operations.not_leaving(["h1"], "mesos_remove_dead", ["h1"]) == []
    assert operations.not_leaving({"h1": 1}, "mesos_remove_dead", ["h1"]) == ["mesos_remove_dead must be a list of hosts."]


def record(**hosts):
    return manager.PROMISES.text(hosts)


def variables(accelerators=(), **more):
    return {"ansible_facts": {"accelerators": list(accelerators)}, "seen": {"changed": False}, **more}


def test_a_host_that_lacks_a_promised_device_is_unfit():
    hostvars = {"h1": variables([gpu(0)]), "h2": variables([gpu(0), gpu(1)])}
    recorded = record(h1=[gpu(0), gpu(1)], h2=[gpu(0), gpu(1)])
    found = operations.unfit(["h1", "h2"], hostvars, "seen", recorded, "ctl")
    assert list(found) == ["h1"] and gpu(1)["pci_address"] in found["h1"] and "is missing" in found["h1"]
    assert operations.unfit(["h1"], hostvars, "seen", "", "ctl") == {}


@pytest.mark.parametrize(("seen", "why"), [({"unreachable": True, "msg": "no  route"}, "no route"), ({"failed": True}, "no answer")])
def test_a_host_that_can_not_be_read_is_unfit(seen, why):
    assert operations.unfit(["h1"], {"h1": {"seen": seen}}, "seen", "", "ctl") == {"h1": f"its accelerators can't be read ({why})"}


def test_devices_of_another_manager_are_no_loss():
    gone = gpu(1)
    allotment = {"mesos": {"devices": [gpu(0)["pci_address"]]}, "slurm": {"devices": [gone["pci_address"]]}}
    hostvars = {"h1": variables([gpu(0)], accelerator_allotment=allotment)}
    assert operations.unfit(["h1"], hostvars, "seen", record(h1=[gpu(0), gone]), "ctl") == {}


def test_a_record_without_a_host():
    text = operations.record_without(record(h1=[gpu(0)], h2=[gpu(1)]), ["h1", "other"], "ctl")
    assert list(manager.PROMISES.read(text, "ctl")["nodes"]) == ["h2"]
    assert text.startswith(manager.PROMISES.header)
    assert operations.record_without("", ["h1"], "ctl") == ""
    with pytest.raises(ValueError, match="on ctl is damaged"):
        operations.record_without("{", ["h1"], "ctl")
