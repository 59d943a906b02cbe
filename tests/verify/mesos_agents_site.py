# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of drained, removed and closed agents of Mesos have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local import Cluster
from mesos_site import agent, app, ask, remove, start

DRAIN, RESUME, REMOVE = "playbooks/mesos_drain.yml", "playbooks/mesos_resume.yml", "playbooks/mesos_remove_agent.yml"
PLAYBOOK = "playbooks/mesos.yml"
HOST = "gpu1"
NOTE = "/var/lib/deephdc/mesos_agent_held"
RECORD = "/var/lib/deephdc/mesos_accelerators"
ON_HOST = {"gpus": 1, "constraints": [["hostname", "LIKE", HOST]]}
FIRST_GPU = "find /var/lib/gpu_simulator/sys/bus/pci/devices -mindepth 1 -maxdepth 1 | sort | head -1"


def words(output: str) -> str:
    return " ".join(output.split())


def is_away(cluster: Cluster) -> bool:
    return bool(agent(cluster, HOST).get("deactivated"))


def closed(cluster: Cluster, kind: str) -> None:
    """As an administrator does by the masters' interface: DEACTIVATE_AGENT or REACTIVATE_AGENT."""
    call = {"agent_id": {"value": agent(cluster, HOST)["id"]}}
    assert ask(cluster, "master", "/api/v1", {"type": kind, kind.lower(): call}).status == 200


@pytest.fixture(scope="module")
def task(cluster: Cluster) -> Iterator[str]:
    """A task of the application train, which runs on the host alone."""
    (made,) = start(cluster, app("train", "sleep 3000", **ON_HOST))
    yield str(made["id"])
    remove(cluster, "train")
