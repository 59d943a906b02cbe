#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare what Kubernetes nodes offer with what was promised."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_offers
version_added: 0.1.0
short_description: Wait until Kubernetes nodes offer the promised GPUs, no more and no less
author: deephdc.accelerators contributors (@deephdc)
description:
  - Waits until each node's C(allocatable) and its ResourceSlices have exactly what O(expected) promises.
    Fails after O(wait) seconds, with a sentence for each host and resource or device that differs.
requirements:
  - kubectl
extends_documentation_fragment: [deephdc.accelerators.reads]
options:
  expected:
    description: What each node must offer.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: Name of the host in the inventory, for messages.
        type: str
        required: true
      node:
        description: Name of the node.
        type: str
        required: true
      allocatable:
        description: How many of each resource the node must offer. V(0) for none.
        type: dict
        default: {}
      devices:
        description: Devices that the DRA driver must publish for this node, each with C(uuid) and C(device), its name for messages.
        type: list
        elements: dict
        default: []
  driver:
    description: Name of the DRA driver.
    type: str
    default: gpu.nvidia.com
  others:
    description: Whether the driver may publish devices that were not promised, because no DeviceClass selects them.
    type: bool
    default: false
  wait:
    description: Seconds to wait for all nodes. Images may have to be pulled.
    type: int
    default: 300
  kubeconfig:
    description: File with the address of the API and the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
"""

EXAMPLES = r"""
- name: Check that gpu1 offers its two GPUs
  deephdc.accelerators.kubernetes_offers:
    expected:
      - host: gpu1
        node: gpu1
        allocatable: {nvidia.com/gpu: 2}
"""

RETURN = r"""
offered:
  description: What each node offers, one line each.
  type: list
  elements: str
  returned: always
  sample: ["gpu1: 2 nvidia.com/gpu of 2"]
waited:
  description: Seconds that the module waited.
  type: int
  returned: always
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused

POLL = 1  # seconds
KINDS = ("gpu", "mig")  # of the driver's devices that pods can be given
CLOSING = ("NoSchedule", "NoExecute")  # effects of a device's taint by which new pods do not get it


def published(kubectl: Kubectl, driver: str) -> tuple[dict, dict]:
    """The UUIDs that the driver publishes of each node, with the devices' names.

    The second value is by which taint new pods do not get a device, by its UUID.
    """
    found: dict = {}
    tainted: dict = {}
    for part in kubectl.listed("resourceslices.resource.k8s.io"):
        spec = part["spec"]
        if spec.get("driver") != driver or not spec.get("nodeName"):
            continue
        of_node = found.setdefault(spec["nodeName"], {})
        for device in spec.get("devices") or []:
            attributes = device.get("attributes") or {}
            if (attributes.get("type") or {}).get("string") in KINDS:
                uuid = (attributes.get("uuid") or {}).get("string")
                of_node[uuid] = device["name"]
                taints = [one for one in device.get("taints") or [] if one.get("effect") in CLOSING]
                if taints:
                    tainted[uuid] = ", ".join(f"{one.get('key')}:{one['effect']}" for one in taints)
    return found, tainted


def compare(expected: list, nodes: dict, slices: dict, others: bool, tainted: dict | None = None) -> tuple[list[str], list[str]]:
    """What is offered, one line each, and what differs, one sentence each."""
    lines, wrong = [], []
    for wanted in expected:
        host, name = wanted["host"], wanted["node"]
        if name not in nodes:
            wrong.append(f"{host}: the cluster has no node {name}: let the host join, then run again.")
            continue
        for resource, count in sorted(wanted["allocatable"].items()):
            there = int(nodes[name].get(resource, 0))
            if int(count) or there:
                lines.append(f"{host}: {there} {resource} of {count}")
            if there != int(count):
                why = "look at the pod of its device plugin" if there < int(count) else "find out what else offers them"
                wrong.append(f"{host} offers {there} {resource}, but {count} {'was' if int(count) == 1 else 'were'} promised: {why}.")
        of_node = slices.get(name, {})
        known = {device["uuid"]: device["device"] for device in wanted["devices"]}
        missing = {uuid: shown for uuid, shown in known.items() if uuid not in of_node}
        if known:
            lines.append(f"{host}: {len(known) - len(missing)} devices of {len(known)} in ResourceSlices")
        remedy = "look at the pod of the DRA driver"
        wrong += [
            f"{host}: {shown} ({uuid}) was promised, but no ResourceSlice has it: {remedy}." for uuid, shown in sorted(missing.items())
        ]
        wrong += [
            f"{host}: {shown} ({uuid}) was promised, but it has the taint {(tainted or {})[uuid]}, so new pods do not get it: {remedy}."
            for uuid, shown in sorted(known.items())
            if uuid in (tainted or {})
        ]
        if known and not others:
            wrong += [
                f"{host}: a ResourceSlice offers {of_node[uuid]} ({uuid}), which was not promised: look at the host with gpu_facts."
                for uuid in sorted(of_node, key=str)
                if uuid not in known
            ]
    return lines, wrong


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "expected": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "host": {"type": "str", "required": True},
                    "node": {"type": "str", "required": True},
                    "allocatable": {"type": "dict", "default": {}},
                    "devices": {"type": "list", "elements": "dict", "default": []},
                },
            },
            "driver": {"type": "str", "default": "gpu.nvidia.com"},
            "others": {"type": "bool", "default": False},
            "wait": {"type": "int", "default": 300},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    params, began = module.params, time.monotonic()
    if module.check_mode or not params["expected"]:
        module.exit_json(changed=False, offered=[], waited=0)  # nothing was delivered
    kubectl, has_devices = Kubectl(module), any(wanted["devices"] for wanted in params["expected"])
    lines: list[str] = []
    try:
        while True:
            nodes = {one["metadata"]["name"]: (one.get("status") or {}).get("allocatable") or {} for one in kubectl.listed("nodes")}
            slices, tainted = published(kubectl, params["driver"]) if has_devices else ({}, {})
            lines, wrong = compare(params["expected"], nodes, slices, params["others"], tainted)
            if not wrong or time.monotonic() - began >= params["wait"]:
                break
            time.sleep(POLL)
    except Refused as refused:
        module.fail_json(msg=f"Kubernetes refused it: {refused}", offered=lines, waited=int(time.monotonic() - began))
    waited = int(time.monotonic() - began)
    if wrong:
        module.fail_json(msg="\n".join(wrong), offered=lines, waited=waited)
    module.exit_json(changed=False, offered=lines, waited=waited)


if __name__ == "__main__":
    main()
