# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent stays the same one where its host has a little less memory than before."""

from __future__ import annotations

from local import Cluster, changed
from mesos_agents_site import HOST, PLAYBOOK
from mesos_site import agent

OWNS = ("plugins/plugin_utils/_mesos/agent.py",)


def test_a_little_less_memory_does_not_make_another_agent(cluster: Cluster) -> None:
    """The agent has 64 MiB more than the host would get now, as after a boot with another kernel."""
    read = "sed -n 's/.*mem:\\([0-9]*\\).*/\\1/p' /etc/default/mesos-agent"
    memory = int(cluster.out(HOST, read))
    cluster.playbook(PLAYBOOK, variables={"mesos_agent_resources": {"mem": memory + 64}})
    former = agent(cluster, HOST)["id"]
    assert changed(cluster.playbook(PLAYBOOK)) == []
    assert agent(cluster, HOST)["id"] == former and int(cluster.out(HOST, read)) == memory + 64
    cluster.playbook(PLAYBOOK, variables={"mesos_agent_resources": {"mem": memory}})
