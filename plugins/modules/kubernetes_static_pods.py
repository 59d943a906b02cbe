#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep the static pods of a control plane running on their newest certificates."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_static_pods
version_added: 0.1.0
short_description: Keep the static pods of a control plane running on their newest certificates
author: deephdc.accelerators contributors (@deephdc)
description:
  - Restarts a static pod when one of the files that it read at its start is newer than its process.
    kubelet itself only watches the pods' manifests.
  - The pods are restarted one after the other. After each, the module waits until its process is there again and the API answers.
  - The module compares files and processes and remembers nothing, so the next run completes a run that was killed.
requirements:
  - ctr, of containerd
  - kubectl
notes:
  - Runs on a host of the control plane. With several such hosts, run it on one after the other (C(serial) or C(throttle) of 1).
attributes:
  check_mode:
    description: Predicts which pods would be restarted.
    support: full
  diff_mode:
    description: Not needed, the result names the reasons.
    support: none
options:
  pods:
    description: The pods, in the order of their restart.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the pod's container, such as V(kube-apiserver).
        type: str
        required: true
      files:
        description: What its process reads at its start. Files that do not exist are passed over.
        type: list
        elements: path
        required: true
  wait:
    description: Seconds in which a pod must be there again.
    type: float
    default: 180.0
  kubeconfig:
    description: File with the address of the API and the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
seealso:
  - module: deephdc.accelerators.unit_fresh
"""

EXAMPLES = r"""
- name: Keep the API server on its newest certificate
  deephdc.accelerators.kubernetes_static_pods:
    pods:
      - name: kube-apiserver
        files: [/etc/kubernetes/pki/apiserver.crt]
"""

RETURN = r"""
restarted:
  description: The pods that were restarted, or would be in check mode.
  type: list
  elements: str
  returned: success
  sample: [kube-apiserver]
reasons:
  description: Why, one sentence each.
  type: list
  elements: str
  returned: success
  sample: ["/etc/kubernetes/pki/apiserver.crt is newer than the running kube-apiserver"]
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused

POLL = 1.0  # seconds
PROC = "/proc"
# The kernel says when it booted in whole seconds.
ROUGH = 2.0


class Runtime:
    """containerd, asked by ctr."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._words = [module.get_bin_path("ctr", required=True), "--namespace", "k8s.io"]

    def __call__(self, *words: str) -> str:
        code, out, err = self._module.run_command([*self._words, *words])
        if code != 0:
            raise Refused(" ".join((err or out).split()))
        return out

    def process(self, name: str) -> tuple[str, int]:
        """Id and process of the static pod's container that runs.

        An empty id where none does.
        """
        labels = f'labels."io.kubernetes.container.name"=={name},labels."io.kubernetes.pod.namespace"==kube-system'
        known = set(self("containers", "list", "--quiet", labels).split())
        for line in self("tasks", "list").splitlines()[1:]:
            words = line.split()
            if len(words) >= 3 and words[0] in known and words[2] == "RUNNING":
                return words[0], int(words[1])
        return "", 0

    def end(self, container: str) -> None:
        self("tasks", "kill", "--signal", "SIGTERM", container)


def started(process: int) -> float:
    """When a process began, in seconds since 1970; 0 where it is gone."""
    try:
        with open(f"{PROC}/{process}/stat", encoding="utf-8") as file:
            ticks = float(file.read().rpartition(")")[2].split()[19])
        with open(f"{PROC}/stat", encoding="utf-8") as file:
            boot = next(float(line.split()[1]) for line in file if line.startswith("btime "))
    except (OSError, IndexError, ValueError, StopIteration):
        return 0.0
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def newer(files: list[str], since: float) -> list[str]:
    return [path for path in files if os.path.exists(path) and os.stat(path).st_mtime > since + ROUGH]


def wait_for(module: AnsibleModule, runtime: Runtime, name: str, former: str) -> None:
    """Wait until another container of the pod runs and the API answers."""
    kubectl, until = Kubectl(module), time.monotonic() + module.params["wait"]
    while True:
        try:
            container = runtime.process(name)[0]
            if container and container != former:
                kubectl("get", "--raw", "/readyz")
                return
            said = "it does not run"
        except Refused as refused:
            said = str(refused)
        if time.monotonic() >= until:
            raise Refused(f"{name} was restarted, and after {module.params['wait']:g} s: {said}. Look at 'journalctl -u kubelet'.")
        time.sleep(POLL)


def main() -> None:
    pod = {"name": {"type": "str", "required": True}, "files": {"type": "list", "elements": "path", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "pods": {"type": "list", "elements": "dict", "required": True, "options": pod},
            "wait": {"type": "float", "default": 180.0},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    runtime = Runtime(module)
    restarted: list[str] = []
    reasons: list[str] = []
    try:
        for wanted in module.params["pods"]:
            name = wanted["name"]
            container, process = runtime.process(name)
            since = started(process) if container else 0.0
            # One that does not run reads them when kubelet starts it.
            changed = newer(wanted["files"], since) if since else []
            if not changed:
                continue
            restarted.append(name)
            reasons += [f"{path} is newer than the running {name}" for path in changed]
            if not module.check_mode:
                runtime.end(container)
                wait_for(module, runtime, name, container)
    except Refused as refused:
        module.fail_json(msg=str(refused), restarted=restarted, reasons=reasons)
    module.exit_json(changed=bool(restarted), restarted=restarted, reasons=reasons)


if __name__ == "__main__":
    main()
