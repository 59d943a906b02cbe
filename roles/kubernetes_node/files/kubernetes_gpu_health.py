#!/usr/bin/python3 -B
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Cordons this node, naming the device, when a GPU that pods were promised is lost, and uncordons it when the GPU is back.

A timer of systemd runs it every minute. It has the rights of kubelet: its own node, events, and the pods of its node.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from typing import Any

# The collection's own reader of GPUs and its words, so that a run of the playbook and this program find and say the same.
sys.path.insert(0, "/usr/local/lib/deephdc/kubernetes_gpu_health")
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import lost
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import with_lost

# Written by the role kubernetes_node: the devices that this node must have.
PROMISED = "/etc/kubernetes/deephdc-gpus.json"
# What the last event said. The API forgets an event after an hour.
SAID = "/run/deephdc-kubernetes-gpus/said"
SAY_AGAIN = 1800  # seconds
READ_SECONDS = 10
API_SECONDS = 10
KUBECTL = ("/usr/bin/kubectl", "--kubeconfig=/etc/kubernetes/kubelet.conf", f"--request-timeout={API_SECONDS}s")

Object = dict[str, Any]


def kubectl(*words: str, given: Object | None = None) -> str:
    """What kubectl prints.

    :param given: an object that it reads.
    :raises SystemExit: it failed, with what it said.
    """
    text = "" if given is None else json.dumps(given)
    done = subprocess.run([*KUBECTL, *words], input=text, capture_output=True, text=True, timeout=3 * API_SECONDS, check=False)
    if done.returncode != 0:
        sys.exit(f"kubectl {words[0]}: {' '.join((done.stderr or done.stdout).split())}")
    return done.stdout


def why_lost(promised: Object) -> str:
    """What is wrong with the promised devices, as the node's annotation says it; empty where all are well."""
    addresses = {device["pci_address"] for device in promised["devices"]}
    there = [device for device in gather(promised["root"], timeout=READ_SECONDS) if device["pci_address"] in addresses]
    return lost.reason(with_lost(there, promised["devices"], promised["host"])[1])


def say(node: str, why: str, is_news: bool) -> None:
    """Write the event of the node if it says something else by now, or would be gone soon."""
    said, age = "", 0.0
    if os.path.exists(SAID):
        with open(SAID, encoding="utf-8") as file:
            said, age = file.read(), time.time() - os.stat(SAID).st_mtime
    if not is_news and said == why and (not why or age < SAY_AGAIN):
        return
    event = lost.event(node, why, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    # Kubelet may write events and not read them; a replacement of what is not there makes it.
    kubectl("replace", f"--raw=/api/v1/namespaces/{lost.NAMESPACE}/events/{lost.event_name(node)}", "--filename=-", given=event)
    with open(SAID, "w", encoding="utf-8") as file:
        file.write(why)


def start_plugin_again(promised: Object, node: Object) -> None:
    """Start NVIDIA's device plugin again where it does not offer what is back: it looks for devices only at its start.

    Pods keep the devices that they have.
    """
    allocatable = node["status"].get("allocatable") or {}
    if promised["plugin"] and any(int(allocatable.get(name, 0)) < count for name, count in promised["offers"].items()):
        mine = (f"--selector=app.kubernetes.io/name={promised['plugin']}", f"--field-selector=spec.nodeName={promised['node']}")
        kubectl("delete", "pods", "--namespace=deephdc-accelerators", *mine, "--wait=false")


def main() -> None:
    with open(PROMISED, encoding="utf-8") as file:
        promised = json.load(file)
    name = promised["node"]
    node = json.loads(kubectl("get", "node", name, "--output=json"))
    notes = node["metadata"].get("annotations") or {}
    if lost.HELD in notes:
        return  # a role changes the driver or the devices, which must not be in use
    why = why_lost(promised)
    changes = lost.changes(node, why)
    if changes:
        # Refused where the node was changed meanwhile, as by a hold; the next run looks again.
        changes["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
        kubectl("patch", "node", name, "--type=merge", f"--patch={json.dumps(changes)}")
        print(f"{name}: {why or 'all promised GPUs are back'}")
    say(name, why, bool(changes))
    if lost.LOST in notes and not why:
        start_plugin_again(promised, node)


if __name__ == "__main__":
    main()
