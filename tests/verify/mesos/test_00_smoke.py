# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""From a deployed cluster to a user's GPU: agents offer theirs by type, and a task of Marathon opens its own and no other."""

from __future__ import annotations

import pytest
from local import Cluster
from mesos_site import AGENTS, LOOK, STAY, app, devices, looked, metrics, start, state

OWNS = (
    "playbooks/mesos.yml",
    "roles/chronos",
    "roles/marathon",
    "roles/marathon_lb",
    "roles/mesos_agent",
    "roles/mesos_cluster",
    "roles/mesos_master",
    "roles/zookeeper",
    "plugins/filter/mesos_cluster.py",
    "plugins/module_utils/_mesos/api.py",
    "plugins/module_utils/_mesos/checkpoint.py",
    "plugins/modules/mesos_host_facts.py",
    "plugins/modules/mesos_offers.py",
    "plugins/plugin_utils/_mesos",
    "molecule/mesos",
    "tests/stand_ins/mesos",
)

pytestmark = pytest.mark.usefixtures("clean")


def test_agents_offer_their_gpus_by_type(cluster: Cluster) -> None:
    seen = {one["hostname"]: one for one in state(cluster)["slaves"]}
    assert {name: one["resources"]["gpus"] for name, one in seen.items()} == AGENTS
    assert seen["gpu1"]["attributes"]["gpus_a100"] == 2 and seen["gpu2"]["attributes"]["gpus_t4"] == 1
    counted = metrics(cluster)
    assert (counted["master/gpus_total"], counted["master/gpus_used"]) == (3, 0)


def test_a_task_opens_its_gpu_alone(cluster: Cluster) -> None:
    (task,) = start(cluster, app("one", LOOK + STAY, gpus=1, constraints=[["hostname", "LIKE", "gpu1"]]))
    seen = looked(cluster, task)
    assert sorted(devices(seen)) == ["no", "yes"] and "nobody" in seen
