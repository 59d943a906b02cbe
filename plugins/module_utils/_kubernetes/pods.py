# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the pods of a node are, for who must take the node from its users."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

Pod = Mapping[str, Any]

# Controllers that start a pod again elsewhere when it is evicted, without work that would be lost.
SERVICES = ("ReplicaSet", "ReplicationController", "StatefulSet")
MIRROR = "kubernetes.io/config.mirror"


def owner(pod: Pod) -> Dict[str, str]:
    """Kind and name of the pod's controller; empty where it has none."""
    found: Mapping[str, Any] = next((one for one in pod["metadata"].get("ownerReferences") or [] if one.get("controller")), {})
    return {"kind": str(found.get("kind") or ""), "name": str(found.get("name") or "")}


def is_users(pod: Pod) -> bool:
    """Return whether a pod runs and would end with its node's users.

    Such a pod has not finished, and is neither a DaemonSet's nor kubelet's own.
    """
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not is_over and owner(pod)["kind"] != "DaemonSet" and MIRROR not in (pod["metadata"].get("annotations") or {})


def has_device(pod: Pod) -> bool:
    """Whether a pod asked for a device, as an extended resource or by a claim."""
    spec = pod["spec"]
    if spec.get("resourceClaims"):
        return True
    containers: Sequence[Mapping[str, Any]] = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [name for one in containers for name in (one.get("resources") or {}).get("limits") or {}]
    return any("/" in name and not name.split("/")[0].endswith("kubernetes.io") for name in names)


def is_service(pod: Pod) -> bool:
    """Whether a pod may be moved: its controller starts it elsewhere."""
    return owner(pod)["kind"] in SERVICES


def sentence(pod: Pod) -> str:
    """Whose pod it is, and whether it ends."""
    meta, controller = pod["metadata"], owner(pod)
    of = f" of {controller['kind']} {controller['name']}" if controller["name"] else ""
    # Its user, or a controller, asked for that, and may have given it years.
    until = meta.get("deletionTimestamp")
    ending = f", which was asked to end and may take until {until}" if until else ""
    return f"pod {meta['namespace']}/{meta['name']}{of}{ending}"
