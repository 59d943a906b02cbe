# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent that was closed to become another one, and is to stay as it is after all."""

from __future__ import annotations

from local import Cluster
from mesos_agents_site import HOST, NOTE, ON_HOST, PLAYBOOK, is_away, words
from mesos_site import app, remove, start, tasks

OWNS = (
    "roles/mesos_agent/tasks/taken_back.yml",
    "roles/mesos_agent/vars/main.yml",
)


def test_a_change_that_is_taken_back_opens_the_agent_again(cluster: Cluster) -> None:
    """A mistaken attribute, while a task runs there."""
    (made,) = start(cluster, app("working", "sleep 3000", **ON_HOST))
    try:
        wanted = {"mesos_agent_attributes": {"rack": "r9"}, "mesos_agent_wait": 0.05}
        said = words(cluster.playbook(PLAYBOOK, variables=wanted, succeeds=False))
        assert f"{HOST} still has task {made['id']}" in said and "take the change back and run again" in said and is_away(cluster)
        cluster.playbook(PLAYBOOK)
        assert not is_away(cluster) and cluster.run(HOST, f"test -e {NOTE}").returncode == 1
        assert [one["id"] for one in tasks(cluster, "working")] == [made["id"]]
    finally:
        remove(cluster, "working")
