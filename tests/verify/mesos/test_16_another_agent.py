# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent that becomes another one."""

from __future__ import annotations

from local import Cluster
from mesos_agents_site import DRAIN, HOST, NOTE, PLAYBOOK, RESUME, closed, is_away
from mesos_site import agent

OWNS = (
    "roles/mesos_agent/tasks/processes.yml",
    "roles/mesos_agent/tasks/renew.yml",
)


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
