# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SLURM nodes and clusters for the tests of what is computed from them."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu


def node(name, accelerators=(), **changes):
    """A node of two sockets; its address is made of the number in its name."""
    number = int("".join(character for character in name if character.isdigit()) or 0)
    hardware = {"cpus": 64, "sockets": 2, "cores": 16, "threads": 2, "memory": 512000}
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {"name": name, "address": address, "accelerators": list(accelerators), "settings": {}, **hardware, **changes}


def gpus(count, **changes):
    return [gpu(number, **changes) for number in range(count)]


def cluster(**changes):
    return {
        "name": "physics",
        "controllers": [{"name": "head", "address": "10.255.0.1"}],
        "databases": [{"name": "store", "address": "10.255.0.2"}],
        "state_directory": "/var/lib/slurm/slurmctld",
        "partitions": [{"name": "batch", "default": True}],
        "settings": {},
        "cgroup_settings": {},
        "accept_hardware": [],
        **changes,
    }


def inventory_groups(nodes, **more):
    return {"slurm_nodes": [one["name"] for one in nodes], **more}
