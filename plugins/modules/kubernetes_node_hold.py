#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep new pods from a node of Kubernetes and wait for those that run there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_node_hold
version_added: 0.1.0
short_description: Cordon a Kubernetes node and wait for its pods, or uncordon it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Cordons a node and waits for its pods, or uncordons a node that it cordoned before.
  - Pods of services (of a ReplicaSet or a StatefulSet) are evicted, as they start elsewhere; disruption budgets are respected.
    No other pod is ended, as the work of a job would be lost.
  - Pods of DaemonSets, static pods and finished pods are not waited for.
  - What the module does is recorded in an annotation of the node, see O(mark). A node that an administrator cordoned
    has no such annotation, and stays as it is. A node that is cordoned because it lost a device also stays cordoned.
  - Marks are independent of each other. A node gets pods again when its last mark is gone.
requirements:
  - kubectl
notes:
  - Runs on a host with the administrator's kubeconfig, such as one of the control plane.
attributes:
  check_mode:
    description: Predicts the change and reads which pods run there. Moves none and does not wait.
    support: full
  diff_mode:
    description: Shows whether the node takes pods.
    support: full
options:
  name:
    description: The node's name.
    type: str
    required: true
  state:
    description:
      - A V(held) node gets no new pods.
      - A V(released) node gets pods again if this module cordoned it.
    type: str
    choices: [held, released]
    required: true
  mark:
    description:
      - Who holds the node. Each mark has its own annotation.
      - V(held) is for the role gpu_hold. The annotation is C(accelerators.deephdc.org/held).
      - V(drained) is for an administrator, by the playbook C(kubernetes_drain). The annotation is C(accelerators.deephdc.org/drained).
    type: str
    choices: [held, drained]
    default: held
  reason:
    description: Why it is held, one line; the value of the annotation. Needed for V(held).
    type: str
  unfit:
    description: What is wrong with the node's devices. If it is not empty, a node with the mark V(drained) is not released.
    type: str
    default: ""
  pods:
    description: Which pods are moved or waited for. V(all) pods of the node, as before a reboot, only pods with V(devices), or V(none).
    type: str
    choices: [all, devices, none]
    default: all
  wait:
    description: Seconds to wait until none of these pods runs there; 0 does not wait.
    type: float
    default: 0.0
  kubeconfig:
    description: File with the address of the API and the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
"""

EXAMPLES = r"""
- name: Keep new pods from a node, and wait an hour for those that run there
  deephdc.accelerators.kubernetes_node_hold:
    name: gpu1
    state: held
    reason: "gpu_hold: nvidia_driver"
    wait: 3600

- name: Give the node back
  deephdc.accelerators.kubernetes_node_hold:
    name: gpu1
    state: released

- name: Keep new pods from a node for an administrator
  deephdc.accelerators.kubernetes_node_hold:
    name: gpu1
    state: held
    mark: drained
    reason: new power supply
"""

RETURN = r"""
known:
  description: Whether there is a node of this name.
  type: bool
  returned: success
held:
  description: Whether this module holds the node after the call, or would in check mode.
  type: bool
  returned: success
kept:
  description: A sentence if an administrator cordoned the node, else empty.
  type: str
  returned: success
reason:
  description: The value of the annotation that holds the node now, empty if none does. An annotation that was there before stays.
  type: str
  returned: success
  sample: new power supply
left:
  description: Why a node with the mark V(drained) is not released, or stays cordoned for another reason. Else empty.
  type: str
  returned: success
  sample: gpu1 stays cordoned, because it lost a device (t4 at 0000:41:00.0 is missing).
moved:
  description: Pods of services that were evicted.
  type: list
  elements: str
  returned: success
  sample: ["pod web/front-5d9-x2 of ReplicaSet front-5d9"]
summary:
  description: The pods that run there after the wait, in words.
  type: list
  elements: str
  returned: success
  sample: ["pod physics/train-4xk of Job train"]
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import pods
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.lost import DRAINED, HELD, LOST

POLL = 2  # seconds
MARKS = {"held": HELD, "drained": DRAINED}
TRIES = 10


class Conflict(Refused):
    """The node has changed since it was read."""


def running(kubectl: Kubectl, name: str, which: str) -> list[dict]:
    """The users' pods of a node; with devices, only those that asked for one."""
    found = kubectl.listed("pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}")
    return [pod for pod in found if pods.is_users(pod) and (which == "all" or pods.has_device(pod))]


def evict(kubectl: Kubectl, pod: dict) -> str:
    """Ask for a pod to be moved.

    Empty if that is done, else why its disruption budget does not let it go now.
    """
    meta = {key: pod["metadata"][key] for key in ("name", "namespace")}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    try:
        kubectl("create", "--raw", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction", "--filename=-", given=eviction)
    except Refused as refused:
        said = str(refused)
        if "disruptionbudget" in said.lower().replace(" ", ""):
            return said
        if "not found" not in said:
            raise Refused(f"{pods.sentence(pod)}: {said}") from refused
    return ""


def empty(kubectl: Kubectl, module: AnsibleModule, name: str) -> tuple[list[str], list[str]]:
    """Move services, and wait for all other pods; who was moved, and who is left."""
    until = time.monotonic() + module.params["wait"]
    moved: dict[str, str] = {}
    while True:
        left = running(kubectl, name, module.params["pods"])
        if module.check_mode:
            return [], [pods.sentence(pod) for pod in left]
        kept: dict[str, str] = {}
        for pod in left:
            number = pod["metadata"]["uid"]
            if pods.is_service(pod) and number not in moved:
                kept[number] = evict(kubectl, pod)
                if not kept[number]:
                    moved[number] = pods.sentence(pod)
        if not left or time.monotonic() >= until:
            reasons = [kept.get(pod["metadata"]["uid"]) for pod in left]
            return list(moved.values()), [pods.sentence(pod) + (f" ({why})" if why else "") for pod, why in zip(left, reasons)]
        time.sleep(min(POLL, max(0.0, until - time.monotonic())))


def patch(kubectl: Kubectl, module: AnsibleModule, node: dict, reason: str | None, is_away: bool) -> None:
    """Write annotation and state in one step.

    :raises Conflict: the node has changed since it was read, so another program may have marked it.
    """
    if module.check_mode:
        return
    version = node["metadata"].get("resourceVersion")
    metadata = {"annotations": {MARKS[module.params["mark"]]: reason}, **({"resourceVersion": version} if version else {})}
    wanted = {"metadata": metadata, "spec": {"unschedulable": is_away or None}}
    try:
        kubectl("patch", "node", node["metadata"]["name"], "--type=merge", "--patch", module.jsonify(wanted))
    except Refused as refused:
        if "the object has been modified" in str(refused):
            raise Conflict(str(refused)) from refused
        raise


def shown(name: str, was_away: bool, is_away: bool) -> dict:
    return {"before": f"{name} takes pods: {not was_away}\n", "after": f"{name} takes pods: {not is_away}\n"}


def why_not_ready(node: dict) -> str:
    """What the API says of a node that takes no pods whether it is cordoned or not.

    Empty if it is ready or was never seen.
    """
    conditions = (node.get("status") or {}).get("conditions") or []
    ready: dict = next((one for one in conditions if one["type"] == "Ready"), {"status": "True"})
    return "" if ready["status"] == "True" else ready.get("message") or ready.get("reason") or "no reason given"


def hold(kubectl: Kubectl, module: AnsibleModule, name: str, node: dict) -> dict:
    notes, was_away = node["metadata"].get("annotations") or {}, bool(node["spec"].get("unschedulable"))
    mark = MARKS[module.params["mark"]]
    result: dict = {"changed": False, "diff": shown(name, was_away, True)}
    if was_away and not {*MARKS.values(), LOST} & set(notes):
        result["kept"] = f"{name} was cordoned already and stays so"
    else:
        result["held"] = True
        result["reason"] = notes.get(mark) or module.params["reason"]
        result["changed"] = mark not in notes or not was_away
        if result["changed"]:
            patch(kubectl, module, node, result["reason"], is_away=True)
    if module.params["pods"] != "none":
        result["moved"], result["summary"] = empty(kubectl, module, name)
        result["changed"] = result["changed"] or bool(result["moved"])
    return result


def why_cordoned(name: str, notes: dict, was_away: bool) -> str:
    """Why a node stays cordoned without the mark of a drain."""
    for mark, words in ((LOST, "it lost a device"), (MARKS["held"], "the role gpu_hold holds it")):
        if mark in notes:
            return f"{name} stays cordoned, because {words} ({notes[mark]})."
    return (
        f"{name} stays cordoned, because no run of kubernetes_drain did that: 'kubectl uncordon {name}' gives it back." if was_away else ""
    )


def release(kubectl: Kubectl, module: AnsibleModule, name: str, node: dict) -> dict:
    notes, was_away = node["metadata"].get("annotations") or {}, bool(node["spec"].get("unschedulable"))
    mark = MARKS[module.params["mark"]]
    by_administrator = mark == MARKS["drained"]
    unready = why_not_ready(node) if by_administrator else ""
    unready = unready and f"{name} stays as it is, because it is not ready ({unready}): start kubelet there, then run again."
    if mark not in notes:
        # Users can't have one that is not ready either, and who asks for it wants to know.
        left = (why_cordoned(name, notes, was_away) or unready) if by_administrator else ""
        return {"diff": shown(name, was_away, was_away), "left": left}
    others = {key: value for key, value in notes.items() if key in {*MARKS.values(), LOST} - {mark}}
    if by_administrator:
        left = module.params["unfit"] and f"{name} stays as it is, because {module.params['unfit']}: repair it, then run again."
        left = left or unready
        if left:
            return {"diff": shown(name, was_away, was_away), "left": left, "reason": notes[mark]}
    patch(kubectl, module, node, None, is_away=bool(others))
    left = why_cordoned(name, others, True) if by_administrator and others else ""
    return {"changed": True, "diff": shown(name, was_away, bool(others)), "left": left}


def changed_node(kubectl: Kubectl, module: AnsibleModule, name: str) -> dict:
    """Hold or release the node, from what it is now."""
    for attempt in range(TRIES):
        node = kubectl.find("node", name)
        if not node:
            return {}
        try:
            return {"known": True, **(hold if module.params["state"] == "held" else release)(kubectl, module, name, node)}
        except Conflict:
            if attempt == TRIES - 1:
                raise
            time.sleep(POLL / 10)
    return {}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["held", "released"], "required": True},
            "mark": {"type": "str", "choices": list(MARKS), "default": "held"},
            "reason": {"type": "str"},
            "unfit": {"type": "str", "default": ""},
            "pods": {"type": "str", "choices": ["all", "devices", "none"], "default": "all"},
            "wait": {"type": "float", "default": 0.0},
            **OPTIONS,
        },
        required_if=[("state", "held", ["reason"])],
        supports_check_mode=True,
    )
    kubectl, name = Kubectl(module), module.params["name"]
    result: dict = {"changed": False, "known": False, "held": False, "kept": "", "reason": "", "left": "", "moved": [], "summary": []}
    try:
        result.update(changed_node(kubectl, module, name))
    except Refused as refused:
        module.fail_json(msg=f"Kubernetes refused it: {refused}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
