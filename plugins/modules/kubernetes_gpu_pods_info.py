#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read how a Kubernetes cluster gives GPUs to pods, and which pods have some."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_gpu_pods_info
version_added: 0.1.0
short_description: Read how a Kubernetes cluster gives GPUs to pods, and which pods have GPUs
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads what the role kubernetes_cluster has made in a cluster for its GPUs.
  - Also reads the pods that have NVIDIA GPUs if the cluster offers GPUs in another way than O(way). The same if a node's device plugin
    will get another configuration.
  - If there is no cluster yet, or its API does not answer, RV(known) is false and all other values are empty.
extends_documentation_fragment: [deephdc.accelerators.reads]
requirements:
  - kubectl
options:
  way:
    description: The wanted way, the value of C(kubernetes_cluster_gpus).
    type: str
    choices: [device_plugin, dra, none]
    required: true
  nodes:
    description: Nodes as the plan has them, each with C(name) and C(labels). One label names the configuration of the device plugin.
    type: list
    elements: dict
    default: []
  namespace:
    description: Namespace of the objects.
    type: str
    default: deephdc-accelerators
  kubeconfig:
    description: File with the address of the API and the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
"""

EXAMPLES = r"""
- name: Read which pods have GPUs by another way than the device plugin
  deephdc.accelerators.kubernetes_gpu_pods_info:
    way: device_plugin
  register: present
"""

RETURN = r"""
known:
  description: Whether the API answered.
  type: bool
  returned: success
why:
  description: Why it did not, else empty.
  type: str
  returned: success
ways:
  description: The ways in which the cluster offers NVIDIA's GPUs now, V(device_plugin) and V(dra).
  type: list
  elements: str
  returned: success
daemons:
  description: Names of the DaemonSets of device plugins.
  type: list
  elements: str
  returned: success
classes:
  description: Names of the DeviceClasses.
  type: list
  elements: str
  returned: success
driver:
  description: The objects of the DRA driver that were made, with C(apiVersion), C(kind) and C(metadata).
  type: list
  elements: dict
  returned: success
changing:
  description: Nodes whose device plugin has another configuration than O(nodes) say.
  type: list
  elements: str
  returned: success
pods:
  description: >-
    Pods that have GPUs, each with C(pod), C(node) and C(way). Empty where RV(ways) is the wanted one alone and RV(changing) is empty.
  type: list
  elements: dict
  returned: success
  sample: [{pod: pod physics/train-4xk of Job train, node: gpu1, way: device_plugin}]
claims:
  description: Claims that have NVIDIA's GPUs, as namespace/name. Empty where RV(pods) are not read.
  type: list
  elements: str
  returned: success
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import pods
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused

LABEL = "app.kubernetes.io/managed-by=deephdc.accelerators"
PLUGIN = "nvidia-"  # how the names of its DaemonSets begin; those of other vendors are VENDOR-device-plugin
VENDOR = "nvidia.com/"
DRIVER = "gpu.nvidia.com"
CONFIG = "accelerators.deephdc.org/device-plugin"
COLUMNS = r"NAME:.metadata.name,CONFIG:.metadata.labels.accelerators\.deephdc\.org/device-plugin"
INVENTORY = "dra-driver"  # the ConfigMap with the objects of the driver


def way_of(pod: dict, claims: dict) -> str:
    """In which way a pod has NVIDIA's GPUs; empty where it has none.

    :param claims: the drivers whose devices each allocated claim has, by namespace and name.
    """
    status, namespace = pod.get("status") or {}, pod["metadata"]["namespace"]
    named = [one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or []]
    named += [one.get("resourceClaimName") for one in pod["spec"].get("resourceClaims") or []]
    named.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    if any(DRIVER in claims.get((namespace, name), ()) for name in named if name):
        return "dra"
    if status.get("extendedResourceClaimStatus"):
        return ""
    containers = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
    asked = [name for one in containers for name in (one.get("resources") or {}).get("limits") or {}]
    return "device_plugin" if any(name.startswith(VENDOR) for name in asked) else ""


def allocated(kubectl: Kubectl) -> dict:
    """The drivers whose devices each claim has."""
    found = {}
    for claim in kubectl.listed("resourceclaims.resource.k8s.io", "--all-namespaces"):
        results = ((((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results")) or []
        if results:
            found[(claim["metadata"]["namespace"], claim["metadata"]["name"])] = {one.get("driver") for one in results}
    return found


def labels(kubectl: Kubectl) -> dict:
    """The configuration of the device plugin that each node has."""
    lines = kubectl("get", "nodes", f"--selector={CONFIG}", "--no-headers", f"--output=custom-columns={COLUMNS}").splitlines()
    return dict(line.split(None, 1) for line in lines if line.strip())


def read(kubectl: Kubectl, module: AnsibleModule) -> dict:
    space = f"--namespace={module.params['namespace']}"
    names = kubectl("get", "daemonsets.apps", space, f"--selector={LABEL}", "--output=name").split()
    found: dict = {"known": True, "why": "", "daemons": [name.split("/", 1)[1] for name in names], "pods": [], "claims": []}
    names = kubectl("get", "deviceclasses.resource.k8s.io", f"--selector={LABEL}", "--output=name").split()
    found["classes"] = [name.split("/", 1)[1] for name in names]
    inventory = kubectl.find("configmap", INVENTORY, space)
    text = (inventory or {}).get("data", {}).get("objects") or "objects []"
    found["driver"] = json.loads(text.split(" ", 1)[1])
    found["ways"] = ["device_plugin"] if any(name.startswith(PLUGIN) for name in found["daemons"]) else []
    found["ways"] += ["dra"] if found["classes"] or found["driver"] else []
    wanted, configs = module.params["way"], {node["name"]: node["labels"].get(CONFIG) for node in module.params["nodes"]}
    found["changing"] = sorted(name for name, config in labels(kubectl).items() if configs.get(name, config) != config) if configs else []
    if found["ways"] == ([] if wanted == "none" else [wanted]) and not found["changing"]:
        return found
    claims = allocated(kubectl)
    for pod in kubectl.listed("pods", "--all-namespaces"):
        is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        way = "" if is_over or not pod["spec"].get("nodeName") else way_of(pod, claims)
        if way:
            found["pods"].append({"pod": pods.sentence(pod), "node": pod["spec"]["nodeName"], "way": way})
    found["claims"] = ["/".join(name) for name, drivers in claims.items() if DRIVER in drivers]
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "way": {"type": "str", "choices": ["device_plugin", "dra", "none"], "required": True},
            "nodes": {"type": "list", "elements": "dict", "default": []},
            "namespace": {"type": "str", "default": "deephdc-accelerators"},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    nothing: dict = {
        "known": False,
        "why": "it is not installed",
        **{name: [] for name in ("ways", "daemons", "classes", "driver", "changing", "pods", "claims")},
    }
    if not os.path.exists(module.params["kubeconfig"]) or not module.get_bin_path("kubectl"):
        module.exit_json(changed=False, **nothing)
    try:
        found = read(Kubectl(module), module)
    except Refused as refused:
        found = {**nothing, "why": str(refused)}
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
