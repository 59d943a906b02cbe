# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs of the playbook that are killed, while a server works."""

from __future__ import annotations

import os
import random

from local import Cluster, changed
from openstack_users import Account

OWNS = ()

PLAYBOOK = "playbooks/openstack.yml"


def test_runs_that_are_killed_are_completed_by_the_next(cluster: Cluster, ada: Account) -> None:
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    server = ada.start("working", "a100")
    assert server["status"] == "ACTIVE"
    for number in range(4):
        # Each has something to change in all services.
        variables = {
            "openstack_cloud_workers": 1,
            "openstack_cloud_settings": {
                name: {"DEFAULT": {"debug": number % 2 == 0}} for name in ("keystone", "glance", "placement", "neutron", "nova")
            },
        }
        print(f"killed at {cluster.killed_playbook(PLAYBOOK, chance, 70, variables=variables)}")
    cluster.playbook(PLAYBOOK)
    assert changed(cluster.playbook(PLAYBOOK)) == []
    assert ada.show(server["id"])["status"] == "ACTIVE"
    ada.remove(server["id"])
