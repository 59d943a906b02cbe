# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A node of a SLURM cluster as the plan has it.

That is its hardware, and the units of its accelerators, computed once.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Unit, units


class Node(t.TypedDict):
    """One member of the group slurm_nodes, as the facts and the inventory describe it."""

    name: str
    address: str
    cpus: int
    sockets: int
    cores: int
    threads: int
    memory: int
    accelerators: list[dict[str, t.Any]]
    settings: dict[str, t.Any]
    allotment: t.Any  # accelerator_allotment of the host
    gpu_sharing: str | None  # the host's own word, which its partitions may have too
    state: str  # what SLURM takes it for before it registers: CLOUD is a node that exists only while jobs need it


class PlannedNode(Node):
    """A node whose devices are settled; everything else is made of its units."""

    units: list[Unit]
    sharing: str


def planned(node: Node, accelerators: list[dict[str, t.Any]]) -> PlannedNode:
    """Settle a node's devices.

    :raises ValueError: two of them share a file; one sentence.
    """
    try:
        return {**node, "accelerators": accelerators, "units": units(accelerators), "sharing": "exclusive"}
    except ValueError as error:
        raise ValueError(f"Node {node['name']}: {error}") from error


def is_cloud(node: Node) -> bool:
    return node.get("state") == "CLOUD"


def types_of(nodes: t.Iterable[PlannedNode]) -> list[str]:
    """The GPU types of the nodes, sorted, each once."""
    return sorted({unit.type for node in nodes for unit in node["units"]})
