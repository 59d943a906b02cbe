# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of the scenario gpu_host ask of the host gpu1: its driver, and whether its GPUs can be used."""

from __future__ import annotations

from local import Cluster

PLAYBOOK = "playbooks/gpu_hosts.yml"


def driver(cluster: Cluster) -> dict[str, str]:
    """Kernel to the version of the module that it would load."""
    found = {}
    for kernel in cluster.out("gpu1", "ls /boot | sed -n 's/^vmlinuz-//p'").split():
        found[kernel] = cluster.run("gpu1", f"modinfo -k {kernel} -F version nvidia").stdout.strip()
    return found


def told(output: str) -> str:
    """What a run said, without the line breaks of its output."""
    return " ".join(output.split())


def gpu_check(cluster: Cluster, succeeds: bool, *more: str, **variables: object) -> str:
    own = {"nvidia_driver_image": False, **variables}
    arguments = ("--tags", "gpu_check", *more)
    return " ".join(cluster.playbook(PLAYBOOK, *arguments, variables=own, succeeds=succeeds).split())
