# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Events of nodes that lost a GPU, compared with what the API has: pure functions.

An annotation has the reason, too; an event is where people look first, with kubectl get events and describe node.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import lost

Object = t.Mapping[str, t.Any]


def changes(events: t.Sequence[Object], planned: t.Mapping[str, t.Any], now: str) -> list[dict[str, t.Any]]:
    """The events to write and those to remove, each with its state, present or absent.

    An event that is right is left.

    :param events: those with our reason, as the API lists them. planned: what the filter kubernetes_plan returned. now: in ISO 8601, UTC.
    :raises ValueError: one of them is something else.
    """
    if not isinstance(events, (list, tuple)) or not all(
        isinstance(one, t.Mapping) and isinstance(one.get("metadata"), t.Mapping) for one in events
    ):
        raise ValueError("The events must be a list of objects with metadata, as kubernetes.core.k8s_info returns them.")
    if not isinstance(planned, t.Mapping) or not {"unfit", "names"} <= set(planned):
        raise ValueError("The plan must be a dictionary with names and unfit, as the filter kubernetes_plan returns it.")
    wanted = {lost.event_name(planned["names"][host]): (planned["names"][host], reason) for host, reason in planned["unfit"].items()}
    there = {one["metadata"].get("name"): one for one in events if one.get("reason") == lost.EVENT}
    found: list[dict[str, t.Any]] = []
    for name, one in there.items():
        if name not in wanted or one.get("message") != lost.message(wanted[name][1]):
            found.append({"state": "absent", "definition": _identity(name)})
    for name, (node, reason) in sorted(wanted.items()):
        if there.get(name, {}).get("message") != lost.message(reason):
            found.append({"state": "present", "definition": lost.event(node, reason, now)})
    return found


def _identity(name: str) -> dict[str, t.Any]:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": lost.NAMESPACE}}
