# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent that is closed stays so: whoever did it, when it is repaired, and when it becomes another one."""

from __future__ import annotations

from local import Cluster
from mesos_agents_site import DRAIN, FIRST_GPU, HOST, NOTE, PLAYBOOK, RESUME, is_away, words
from mesos_site import agent, ask

OWNS = (
    "roles/mesos_agent/meta/manager.yml",
    "roles/mesos_agent/tasks/admin.yml",
    "roles/mesos_agent/tasks/hold.yml",
    "roles/mesos_agent/tasks/lost.yml",
    "roles/mesos_agent/tasks/mark.yml",
    "roles/mesos_agent/tasks/processes.yml",
    "roles/mesos_agent/tasks/re*.yml",
    "roles/mesos_agent/vars/main.yml",
    "plugins/module_utils/_mesos/agents.py",
    "plugins/modules/mesos_agent_hold.py",
)


def test_what_another_one_deactivated_is_left(cluster: Cluster) -> None:
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": "DEACTIVATE_AGENT", "deactivate_agent": call}).status == 200
    try:
        said = words(cluster.playbook(DRAIN, "--limit", HOST, variables={"mesos_drain_reason": "x"}))
        assert "was deactivated by an administrator" in said
        said = words(cluster.playbook(RESUME, "--limit", HOST, succeeds=False))
        assert "no run of mesos_drain did that" in said and is_away(cluster)
    finally:
        assert ask(cluster, "master", "/api/v1", {"type": "REACTIVATE_AGENT", "reactivate_agent": call}).status == 200


def closed(cluster: Cluster, kind: str) -> None:
    """As an administrator does by the masters' interface: DEACTIVATE_AGENT or REACTIVATE_AGENT."""
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": kind, kind.lower(): call}).status == 200


def test_a_repair_leaves_away_what_an_administrator_deactivated(cluster: Cluster) -> None:
    device = cluster.out(HOST, FIRST_GPU)
    closed(cluster, "DEACTIVATE_AGENT")
    cluster.out(HOST, f"mv {device} /root/lost-device")
    try:
        assert "is missing" in words(cluster.playbook(PLAYBOOK, succeeds=False))
    finally:
        cluster.out(HOST, f"mv /root/lost-device {device}")
    assert cluster.run(HOST, f"test -e {NOTE}").returncode == 1
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster)
    closed(cluster, "REACTIVATE_AGENT")


def test_an_agent_that_becomes_another_one_is_closed_as_the_former_one_was(cluster: Cluster) -> None:
    cluster.playbook(DRAIN, variables={"mesos_drain_hosts": HOST, "mesos_drain_reason": "new fan", "mesos_drain_wait": 60})
    former = agent(cluster, HOST)["id"]
    wanted = {"mesos_agent_attributes": {"rack": "r1"}}
    cluster.playbook(PLAYBOOK, variables=wanted)
    assert agent(cluster, HOST)["id"] != former and is_away(cluster)
    assert cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
    # A run that was killed before it could close the new one.
    closed(cluster, "REACTIVATE_AGENT")
    cluster.out(HOST, f"echo 'as the former agent' >>{NOTE}")
    cluster.playbook(PLAYBOOK, variables=wanted)
    assert is_away(cluster) and cluster.out(HOST, f"cat {NOTE}").splitlines()[1:] == ["drained: new fan"]
    cluster.playbook(PLAYBOOK)
    assert is_away(cluster)
    cluster.playbook(RESUME, "--limit", HOST)
    assert not is_away(cluster)
