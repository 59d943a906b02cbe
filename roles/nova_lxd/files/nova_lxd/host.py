# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a compute host has, in Nova's words."""

from __future__ import annotations

import re
from typing import Any

from .client import Client

Resources = dict


def resources(client: Client, pool: str) -> Resources:
    """Read the host's processors, memory in MiB and disk in GiB, and LXD's version."""
    answer = client.get("resources")
    space = client.get("storage-pools", pool, "resources")["space"]
    total, used = int(space.get("total") or 0), int(space.get("used") or 0)
    return {
        "vcpus": int(answer["cpu"]["total"]),
        "vcpus_used": 0,  # Nova counts servers itself
        "memory_mb": int(answer["memory"]["total"]) >> 20,
        "memory_mb_used": int(answer["memory"]["used"]) >> 20,
        "local_gb": total >> 30,
        "local_gb_used": used >> 30,
        "disk_available_least": max(0, total - used) >> 30,
        "hypervisor_type": "lxd",
        "hypervisor_version": version_number(client.get()["environment"]["server_version"]),
    }


def version_number(version: Any) -> int:
    """Compute the number that Nova compares: 5.0.2 gives 5000002."""
    parts = [int(part) for part in re.findall(r"\d+", str(version))[:3]]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return major * 1000000 + minor * 1000 + patch


def architecture(client: Client) -> str:
    """Read LXD's name for the processors' architecture."""
    return str(client.get()["environment"]["kernel_architecture"])
