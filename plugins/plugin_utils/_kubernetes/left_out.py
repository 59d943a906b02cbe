# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Nodes that a cluster has and the inventory lacks: pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.inventory import CONTROL_PLANE, WORKERS

# A node of the control plane has it, whatever its value.
LABEL = '"node-role.kubernetes.io/control-plane":'


def left_out(lines: t.Sequence[str], names: t.Collection[str]) -> dict[str, list[str]]:
    """Return what to say of nodes that no host of the inventory is.

    A node that is ready has pods, and new ones come: without its host in the inventory nothing looks after it. One that is not ready is
    perhaps gone for good, such as a machine that an orchestrator took away.

    :param lines: name, status (True where it is ready) and labels of each node, as the API has them. names: of hosts of the inventory.
    :returns: errors and warnings, sentences.
    :raises ValueError: a line is something else.
    """
    if not isinstance(lines, (list, tuple)) or not all(isinstance(line, str) for line in lines):
        raise ValueError("The nodes must be a list of texts, such as ['gpu-1 True {}'].")
    found: dict[str, list[str]] = {"errors": [], "warnings": []}
    for line in lines:
        name, _blank, rest = line.partition(" ")
        if name in names:
            continue
        status, _blank, labels = rest.partition(" ")
        if LABEL in labels:
            group, gone = CONTROL_PLANE, "replace it by a host with the same address, which takes over its place in etcd"
            away = f"run 'kubeadm reset' there, then 'kubectl delete node {name}'"
        else:
            group, gone = (
                WORKERS,
                "remove it by the playbook kubernetes_remove_node with kubernetes_remove_dead, while its host is in the group",
            )
            away = "run the playbook kubernetes_remove_node first"
        if status == "True":
            found["errors"].append(
                f"{name} is a node of the cluster and works, but no host of the inventory has this name: its pods would go on, and no run "
                f"looks after it. Put its host into {group} again. To take it away, {away}."
            )
        else:
            found["warnings"].append(
                f"{name} is a node of the cluster and not ready, and no host of the inventory has this name: it stays a node. "
                f"Put its host into {group} again. If it is gone for good, {gone}."
            )
    return found
