# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What has to be written to the nodes of a cluster: pure functions.

They compare it with what the API has of the nodes.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import lost
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import dra, manifests, vendor_plugins

PREFIX = f"{manifests.DOMAIN}/"
# Of nodes whose GPUs we offer, and the taints that these may have.
OFFERING = (manifests.PLUGIN_LABEL, dra.LABEL, *map(vendor_plugins.label, vendor_plugins.PLUGINS))
TAINTS = (manifests.TAINT, *map(manifests.taint, vendor_plugins.RESOURCES))

Object = t.Mapping[str, t.Any]


def patches(nodes: t.Sequence[Object], planned: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The merge patches that make the nodes what the plan says.

    None for a node that is right.

    Labels with our prefix that the plan does not have are taken away, and so is our taint of a node whose
    GPUs we offered. Labels and taints of others stay. A node that the plan does not have is left as it is.

    :param nodes: as the API lists them. planned: what the filter kubernetes_plan returned.
    :raises ValueError: one of them is something else.
    """
    if not isinstance(nodes, (list, tuple)) or not all(isinstance(node, t.Mapping) and _is_named(node.get("metadata")) for node in nodes):
        raise ValueError("The nodes must be a list of objects with metadata.name, as kubernetes.core.k8s_info returns them.")
    if not isinstance(planned, t.Mapping) or not {"nodes", "unfit"} <= set(planned):
        raise ValueError("The plan must be a dictionary with nodes and unfit, as the filter kubernetes_plan returns it.")
    by_name = {node["metadata"]["name"]: node for node in nodes}
    found = []
    for wanted in planned["nodes"]:
        node = by_name.get(wanted["name"])
        reason = planned["unfit"].get(wanted["host"], "")
        if node and not reason and wanted["host"] in (planned.get("unsure") or []):
            # A tool that gives no answer says nothing good either: what was lost stays lost.
            reason = (node["metadata"].get("annotations") or {}).get(lost.LOST) or ""
        changes = _changes(node, wanted, reason) if node else {}
        if changes:
            metadata = {"name": wanted["name"], **changes.pop("metadata", {})}
            found.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, **changes})
    return found


def _is_named(metadata: t.Any) -> bool:
    return isinstance(metadata, t.Mapping) and isinstance(metadata.get("name"), str)


def _changes(node: Object, wanted: Object, reason: str) -> dict[str, t.Any]:
    labels, spec = node["metadata"].get("labels") or {}, node.get("spec") or {}
    changed = {name: value for name, value in wanted["labels"].items() if labels.get(name) != value}
    changed.update(dict.fromkeys((name for name in labels if name.startswith(PREFIX) and name not in wanted["labels"]), None))
    found: dict[str, t.Any] = {}
    if changed:
        found.setdefault("metadata", {})["labels"] = changed
    taints = spec.get("taints") or []
    # A node can't have two of one key and effect; for the pods' tolerations one value is as good as another.
    missing = [taint for taint in wanted["taints"] if not any(_same(taint, one, "key", "effect") for one in taints)]
    # Ours only where we offered the node's GPUs: another operator of GPUs may write the same one.
    leaving = [taint for taint in TAINTS if not any(_same(taint, one, "key") for one in wanted["taints"])]
    surplus = [one for one in taints if any(_same(taint, one, *taint) for taint in leaving)] if set(OFFERING) & set(labels) else []
    if missing or surplus:
        # A merge patch replaces the whole list.
        found.setdefault("spec", {})["taints"] = [*(one for one in taints if one not in surplus), *missing]
    for part, values in lost.changes(node, reason).items():
        found.setdefault(part, {}).update(values)
    return found


def _same(one: Object, other: Object, *keys: str) -> bool:
    return all((one.get(key) or "") == (other.get(key) or "") for key in keys)
