#!/usr/bin/python3 -B
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Cordon this node while a GPU that pods were promised is lost.

The program names the device, and uncordons the node when the GPU is back.
A timer of systemd runs it every minute. It has the rights of kubelet: its own node, events, and the pods of its node.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
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
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises

# Written by the role kubernetes_node: the devices that this node must have.
PROMISED = "/etc/kubernetes/deephdc-gpus.json"
# Where the role gpu_hold writes who holds this host.
HOLDS = "/var/lib/deephdc/held"
# What the last event said. The API forgets an event after an hour.
SAID = "/run/deephdc-kubernetes-gpus/said"
# There when the device plugin was started again for a GPU that is back.
STARTED = "/run/deephdc-kubernetes-gpus/started"
# How many checks the vendors' tools have not answered, one after the other, and how many of them close the node.
SILENT = "/run/deephdc-kubernetes-gpus/silent"
SILENT_CHECKS = 5
PROCESSES = "/proc"
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


def why_lost(promised: Object) -> tuple[str, str]:
    """Return what is wrong with the promised devices, as the node's annotation has it.

    It is empty where nothing is wrong.
    The second value is why it is not known, empty if all of the vendors' tools answered: a sick GPU often makes them hang.
    """
    addresses = {device["pci_address"] for device in promised["devices"]}
    found = gather(promised["root"], timeout=READ_SECONDS)
    there = [device for device in lost.own(found, promised["given"]) if device["pci_address"] in addresses]
    wrong = promises.with_lost(there, promised["devices"], promised["host"])[1]
    return lost.reason(wrong), promises.silent(there)


def too_silent(silent: str) -> str:
    """Count checks that the tools have not answered, one after the other.

    Return what is wrong once there were too many.
    """
    count = 0
    if silent:
        with contextlib.suppress(FileNotFoundError), open(SILENT, encoding="utf-8") as file:
            count = int(file.read() or 0)
        count += 1
    with open(SILENT, "w", encoding="utf-8") as file:
        file.write(str(count))
    return f"{silent.rstrip('.')}, in more than {SILENT_CHECKS - 1} checks one after the other (tool)" if count >= SILENT_CHECKS else ""


def is_held(node: Object) -> bool:
    """Whether a role changes the driver or the devices, which must not be in use then.

    A node that was cordoned before has no mark of it, but its host has.
    """
    return lost.HELD in (node["metadata"].get("annotations") or {}) or bool(glob.glob(f"{HOLDS}/*"))


def hangs() -> bool:
    """Return whether an nvidia-smi of an earlier run waits in the driver.

    No signal ends it there. More of them would only wait beside it. A program of a pod may have that name, too, so only this service's
    own count.
    """
    own = control_group("self")
    for path in glob.glob(f"{PROCESSES}/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                if "(nvidia-smi) D " in file.read() and control_group(path.split("/")[-2]) == own:
                    return True
        except OSError:
            pass  # because it has ended
    return False


def control_group(process: str) -> str:
    with open(f"{PROCESSES}/{process}/cgroup", encoding="utf-8", errors="replace") as file:
        return file.read()


def say(node: str, why: str, is_news: bool) -> None:
    """Write the node's event if it says something else by now, or would be gone soon."""
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


def starts_plugin_again(promised: Object, node: Object) -> bool:
    """Start NVIDIA's device plugin again, once, where it does not offer what is back.

    It looks for devices only at its start. Pods keep the devices that they have.
    """
    allocatable = node["status"].get("allocatable") or {}
    if not promised["plugin"] or all(int(allocatable.get(name, 0)) >= count for name, count in promised["offers"].items()):
        return False
    if os.path.exists(STARTED):
        return False
    mine = (f"--selector=app.kubernetes.io/name={promised['plugin']}", f"--field-selector=spec.nodeName={promised['node']}")
    kubectl("delete", "pods", "--namespace=deephdc-accelerators", *mine, "--wait=false")
    with open(STARTED, "w", encoding="utf-8"):
        return True


def main() -> None:
    with open(PROMISED, encoding="utf-8") as file:
        promised = json.load(file)
    name = promised["node"]
    node = json.loads(kubectl("get", "node", name, "--output=json"))
    if is_held(node):
        return
    was_lost = lost.LOST in (node["metadata"].get("annotations") or {})
    why, silent = ("", "nvidia-smi hangs in the driver") if hangs() else why_lost(promised)
    long_silent = too_silent(silent)
    if silent and not why:
        if was_lost or not long_silent:
            return  # what was wrong may still be
        why = long_silent
    if was_lost and not why:
        # While the node is cordoned: a pod that came before the plugin is there would fail.
        if starts_plugin_again(promised, node):
            return
    elif os.path.exists(STARTED):
        os.remove(STARTED)
    changes = lost.changes(node, why)
    if changes:
        # Refused where the node was changed meanwhile, as by a hold; the next run looks again.
        changes["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
        kubectl("patch", "node", name, "--type=merge", f"--patch={json.dumps(changes)}")
        print(f"{name}: {why or 'no promised GPU is lost any more'}")
    say(name, why, bool(changes))


if __name__ == "__main__":
    main()
