# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a node that lost a promised GPU gets: pure functions.

A run of the playbook and the check on each node say it with the same words, so that neither changes what the other wrote.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding

# Why a node is cordoned: it lost a promised device, the role gpu_hold took it, an administrator drained it.
LOST = "accelerators.deephdc.org/lost"
HELD = "accelerators.deephdc.org/held"
DRAINED = "accelerators.deephdc.org/drained"

EVENT = "AcceleratorLost"
EVENT_AFTER = "AcceleratorBack"
NAMESPACE = "default"  # where events of nodes are
COMPONENT = "deephdc.accelerators"


def reason(problems: Sequence[Finding]) -> str:
    """Why the node of one host is cordoned; empty where nothing is lost."""
    return "; ".join(f"{problem} ({problem.layer})" for problem in problems)


def own(devices: Sequence[Mapping[str, Any]], given: Optional[Sequence[str]]) -> List[Dict[str, Any]]:
    """The devices of a host that Kubernetes may have, as the plan sees them.

    :param given: what an allotment gives it, by PCI address or UUID of a MIG instance; None gives all.
    """
    found = []
    for device in devices:
        if given is None or device["pci_address"] in given:
            found.append(dict(device))
            continue
        instances = [one for one in (device.get("mig") or {}).get("devices") or [] if one.get("uuid") in given]
        if instances:
            found.append({**device, "mig": {**device["mig"], "devices": instances}})
    return found


def changes(node: Mapping[str, Any], lost: str) -> Dict[str, Dict[str, Any]]:
    """What to merge into a node, by metadata and spec; empty where it is right.

    A node that an administrator cordoned stays as it is. One that is held or drained stays cordoned when its devices are back.

    :param node: as the API has it. lost: what the function reason returned.
    """
    spec, notes = node.get("spec") or {}, node["metadata"].get("annotations") or {}
    is_away, was_lost, is_held = bool(spec.get("unschedulable")), LOST in notes, bool({HELD, DRAINED} & set(notes))
    if lost and (notes.get(LOST) != lost or not is_away) and not (is_away and not was_lost and not is_held):
        return {"metadata": {"annotations": {LOST: lost}}, "spec": {"unschedulable": True}}
    if was_lost and not lost:
        return {"metadata": {"annotations": {LOST: None}}, **({} if is_held else {"spec": {"unschedulable": None}})}
    return {}


def event_name(node: str) -> str:
    return f"{node}.accelerator-lost"


def message(lost: str) -> str:
    """As much of a reason as an event may have."""
    return lost[:1024]


def event(node: str, lost: str, now: str) -> Dict[str, Any]:
    """The event of a node: what it lost, or that nothing is lost any more.

    :param lost: what the function reason returned. now: in ISO 8601, UTC.
    """
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(node), "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": "deephdc.accelerators"}},
        "type": "Warning" if lost else "Normal",
        "reason": EVENT if lost else EVENT_AFTER,
        "message": message(lost) if lost else "No promised GPU is lost any more.",
        # kubectl describe node looks for its name in the place of the uid.
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "source": {"component": COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
