# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A worker that joins in a run that is killed, and the next run."""

from __future__ import annotations

import os
import random

import pytest
from kubernetes_site import PLAYBOOK, Site, recap

OWNS = ("roles/kubernetes_node/tasks/join.yml",)


@pytest.mark.parametrize("number", range(2))
def test_a_killed_run_is_completed_by_the_next(site: Site, number: int):
    """A worker that is made again, killed at a random task."""
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6)) + number
    print(f"KILL_SEED={seed}")
    site.kubectl("delete node gpu2 --ignore-not-found")
    site.out(
        "gpu2", "kubeadm reset --force >/dev/null 2>&1; rm -f /etc/cni/net.d/10-deephdc.conflist; ip link delete cni0 2>/dev/null; true"
    )
    chance = random.Random(seed)
    task = site.killed_playbook(PLAYBOOK, chance, 45, "--skip-tags", "install")
    print(f"killed at {task}")
    site.playbook(PLAYBOOK)
    assert site.node("gpu2")["metadata"]["labels"]["accelerators.deephdc.org/t4"] == "2"
    said = site.playbook(PLAYBOOK)
    for host in ("cp1", "gpu1", "gpu2"):
        assert "changed=0" in recap(said, host), said[-4000:]
