#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Prove by real pods that Kubernetes gives a pod its GPU and no other."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_gpu_probe
version_added: 0.1.0
short_description: Run pods to prove that each gets its GPU and no other
author: deephdc.accelerators contributors (@deephdc)
description:
  - Runs a pod of a few seconds for each probe and checks what it printed, not only that it ended well.
    The pod opens the device that it was given, and makes device files for the others of that driver, none of which may open.
  - If a probe's node has the resource but takes no pod now, that is not a failure and is returned in RV(busy).
    If the node does not have the resource, the module fails.
  - All pods are removed at the end.
requirements:
  - kubectl
notes:
  - Runs on a host with the administrator's kubeconfig, such as one of the control plane.
attributes:
  check_mode:
    description: Runs no pod.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
options:
  probes:
    description: The pods to run.
    type: list
    elements: dict
    required: true
    suboptions:
      node:
        description: Name of the node to run on.
        type: str
        required: true
      resource:
        description: Name of the resource to ask for one of, such as V(nvidia.com/gpu).
        type: str
        required: true
      count:
        description: How many of it the node must show as allocatable. V(0) does not check that, as for dynamic resource allocation.
        type: int
        default: 1
  image:
    description: Image with C(sh), C(cat), C(ls), C(mknod) and C(stat).
    type: str
    required: true
  pull_policy:
    description: When the image is pulled.
    type: str
    choices: [Always, IfNotPresent, Never]
    default: IfNotPresent
  namespace:
    description: Namespace of the pods. It must exist.
    type: str
    default: deephdc-accelerators
  offer_patience:
    description: Seconds that a node may take until it has the resource, as the image of its device plugin may have to be pulled.
    type: int
    default: 300
  patience:
    description: Seconds that a pod may wait for free resources and for its image.
    type: int
    default: 60
  kubeconfig:
    description: File with the address of the API and the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
"""

EXAMPLES = r"""
- name: Prove that a pod gets its GPU
  deephdc.accelerators.kubernetes_gpu_probe:
    probes:
      - node: gpu1
        resource: nvidia.com/gpu
    image: docker.io/library/busybox:1.37
"""

RETURN = r"""
proved:
  description: What the pods showed, one line each.
  type: list
  elements: str
  returned: always
  sample: ["gpu1: nvidia.com/gpu: /dev/nvidia0 opens, 15 others are denied"]
busy:
  description: Probes whose pod found no place in time, with what the scheduler says.
  type: list
  elements: str
  returned: always
  sample: ["gpu1: nvidia.com/gpu: not proved: 0/3 nodes are available: 1 Insufficient nvidia.com/gpu."]
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused

POLL = 1  # seconds
LABEL = "accelerators.deephdc.org/probe"
# What a container runs. Opening a device without a driver behind it (a simulated one) says "No such device or address": it was let through.
PROGRAM = """
try() {
    if said=$(: 2>&1 <"$1") || case $said in *"No such device or address"*) true;; *) false;; esac; then echo opens; else echo "$said"; fi
}
for file in /dev/nvidia[0-9]*; do
    [ -c "$file" ] || continue
    echo "PROBE given $file $(try "$file")"
    major=$(printf %d "0x$(stat -c %t "$file")") own="$own $(printf %d "0x$(stat -c %T "$file")") "
done
[ -n "$own" ] || exit 0
for minor in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    case $own in *" $minor "*) continue;; esac
    said=$(mknod /tmp/other$minor c "$major" $minor 2>&1) || { echo "PROBE other $minor $said"; continue; }
    echo "PROBE other $minor $(try /tmp/other$minor)"
done
"""
# What both say of a device that a container may not open, or not even make a file for.
DENIED = "Operation not permitted"
# Reasons of a container that waits and will go on waiting.
STUCK = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerError", "CreateContainerConfigError")


def label(probe: dict) -> str:
    return f"{probe['node']}: {probe['resource']}"


def pod_of(probe: dict, number: int, params: dict) -> dict:
    """The pod of a probe."""
    container = {
        "name": "probe",
        "image": params["image"],
        "imagePullPolicy": params["pull_policy"],
        "command": ["sh", "-c", PROGRAM],
        "resources": {"limits": {probe["resource"]: 1, "cpu": "100m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "nodeSelector": {"kubernetes.io/hostname": probe["node"]},
        # Every node is proved, whatever it keeps its pods for.
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule", "key": probe["resource"].split("/")[0] + "/gpu"}],
        "containers": [container],
    }
    meta = {"generateName": f"gpu-probe-{number}-", "namespace": params["namespace"], "labels": {LABEL: "gpu"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def state_of(pod: dict) -> str:
    """over, stuck: REASON, or waiting."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return "over"
    for one in status.get("containerStatuses") or []:
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in STUCK:
            return f"stuck: {waiting['reason']}: {waiting.get('message') or ''}"
    return "waiting"


def why(pod: dict) -> str:
    """What scheduler or kubelet say about a pod that does not run or failed."""
    status = pod.get("status") or {}
    ended = [(one.get("state") or {}).get("terminated") or {} for one in status.get("containerStatuses") or []]
    found = [one.get("message") for one in status.get("conditions") or [] if one.get("status") == "False"]
    reasons = [status.get("message"), *(one.get("message") or one.get("reason") for one in ended), *found, status.get("reason")]
    return str(next(filter(None, reasons), "no reason is given"))


def judge(output: str) -> tuple[bool, str]:
    """Whether what the pod printed is right, and what it shows, in words."""
    lines = [(line + "   ").split(" ", 3)[1:] for line in output.splitlines() if line.startswith("PROBE ")]
    given = [(path, said.strip()) for kind, path, said in lines if kind == "given"]
    others = [(minor, said.strip()) for kind, minor, said in lines if kind == "other"]
    if len(given) != 1:
        return False, f"the pod has {len(given)} devices instead of 1: {', '.join(path for path, _said in given) or 'none in /dev'}"
    path, said = given[0]
    if said != "opens":
        return False, f"{path} does not open: {said}"
    foreign = [minor for minor, answer in others if answer == "opens"]
    if foreign:
        return False, f"devices of others open, too: number {', '.join(foreign)} beside {path}"
    untried = [f"{minor}: {answer}" for minor, answer in others if DENIED not in answer]
    if untried or not others:
        return False, f"devices of others could not be tried beside {path}: {', '.join(untried) or 'the image lacks a program'}"
    return True, f"{path} opens, {len(others)} others are denied"


def without(kubectl: Kubectl, probes: list[dict], seconds: int) -> dict[int, str]:
    """Return what is wrong with nodes that offer less than they should.

    A device plugin that does not run must not pass for a node in use.
    """
    until = time.monotonic() + seconds
    while True:
        offers = {node["metadata"]["name"]: (node.get("status") or {}).get("allocatable") or {} for node in kubectl.listed("nodes")}
        found = {}
        for number, probe in enumerate(probes):
            there = int(offers.get(probe["node"], {}).get(probe["resource"], 0))
            if there < probe["count"]:
                has, sees = (f"{there} of {probe['count']}", "too few devices") if there else ("none", "no device")
                found[number] = f"{label(probe)}: the node has {has}, so its device plugin does not run or sees {sees}"
        if not found or time.monotonic() >= until:
            return found
        time.sleep(POLL)


def wait_for(kubectl: Kubectl, names: list[str], params: dict) -> dict[str, dict]:
    """The pods when they are over, are stuck, or patience is at its end."""
    until = time.monotonic() + params["patience"]
    while True:
        there = kubectl.listed("pods", f"--namespace={params['namespace']}", f"--selector={LABEL}=gpu")
        found = {pod["metadata"]["name"]: pod for pod in there if pod["metadata"]["name"] in names}
        if not any(state_of(pod) == "waiting" for pod in found.values()) or time.monotonic() >= until:
            return found
        time.sleep(POLL)


def outcome(kubectl: Kubectl, pod: dict | None, params: dict) -> tuple[str, str]:
    """proved, busy or wrong, and what there is to say."""
    if pod is None:
        return "wrong", "the pod was removed before it ended"
    state = state_of(pod)
    if state == "over":
        if pod["status"]["phase"] == "Failed":
            return "wrong", f"the pod failed: {why(pod)}"
        is_right, said = judge(kubectl("logs", pod["metadata"]["name"], f"--namespace={params['namespace']}"))
        return "proved" if is_right else "wrong", said
    if state != "waiting":
        return "wrong", f"the pod does not start: {state[len('stuck: ') :]}"
    if pod["spec"].get("nodeName"):
        return "wrong", f"the pod did not end within {params['patience']} seconds: {why(pod)}"
    return "busy", f"not proved: {why(pod)}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "probes": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "node": {"type": "str", "required": True},
                    "resource": {"type": "str", "required": True},
                    "count": {"type": "int", "default": 1},
                },
            },
            "image": {"type": "str", "required": True},
            "pull_policy": {"type": "str", "choices": ["Always", "IfNotPresent", "Never"], "default": "IfNotPresent"},
            "namespace": {"type": "str", "default": "deephdc-accelerators"},
            "offer_patience": {"type": "int", "default": 300},
            "patience": {"type": "int", "default": 60},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    params, kubectl = module.params, Kubectl(module)
    proved: list[str] = []
    busy: list[str] = []
    wrong: list[str] = []
    if module.check_mode or not params["probes"]:
        module.exit_json(changed=False, proved=proved, busy=busy)
    of_pod: dict[str, dict] = {}
    try:
        missing = without(kubectl, params["probes"], params["offer_patience"])
        wrong += missing.values()
        try:
            for number, probe in enumerate(params["probes"]):
                if number in missing:
                    continue
                made = kubectl("create", "--filename=-", "--output=jsonpath={.metadata.name}", given=pod_of(probe, number, params))
                of_pod[made] = probe
            there = wait_for(kubectl, list(of_pod), params)
            for name, probe in of_pod.items():
                result, said = outcome(kubectl, there.get(name), params)
                {"proved": proved, "busy": busy, "wrong": wrong}[result].append(f"{label(probe)}: {said}")
        finally:
            if of_pod:
                kubectl("delete", "pods", f"--namespace={params['namespace']}", "--now", "--timeout=60s", "--ignore-not-found", *of_pod)
    except Refused as refused:
        module.fail_json(msg=f"Kubernetes refused it: {refused}", proved=proved, busy=busy)
    if wrong:
        module.fail_json(msg="\n".join(sorted(wrong)), proved=proved, busy=busy)
    module.exit_json(changed=False, proved=proved, busy=busy)


if __name__ == "__main__":
    main()
