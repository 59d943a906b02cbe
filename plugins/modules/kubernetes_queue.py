#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Run Kueue in a cluster and keep its queues what they should be."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_queue
version_added: 0.1.0
short_description: Run Kueue in a cluster and keep its queues as declared
author: deephdc.accelerators contributors (@deephdc)
description:
  - Applies the manifests of Kueue from a file on this host, server-side, with O(image), O(replicas) and O(configuration).
    Waits until its controller answers. Then applies O(objects), such as queues.
  - Webhooks for kinds of jobs that the configuration does not name are left out.
    Those for jobs hold only in the namespaces that C(managedJobsNamespaceSelector) of the configuration selects.
  - Everything is compared with what the API has, and only what differs is written.
  - Objects that the module made before and that O(objects) no longer has are left over. A left-over queue is stopped, so that no job
    starts from it, and the jobs that run go on. It gets the annotation C(accelerators.deephdc.org/held), and starts again when
    O(objects) has it again.
requirements:
  - kubectl
  - PyYAML
notes:
  - Runs on a host with the administrator's kubeconfig, such as one of the control plane.
attributes:
  check_mode:
    description: Predicts what would be written. Does not wait.
    support: full
  diff_mode:
    description: Lists the objects that are written.
    support: partial
    details: Does not show what changes inside of the objects.
options:
  manifests:
    description: File with the manifests of Kueue.
    type: path
    required: true
  sha256:
    description: SHA-256 digest that the file must have. Empty to skip the check.
    type: str
    default: ''
  image:
    description: Image of Kueue's controller.
    type: str
    required: true
  pull_policy:
    description: When the image is pulled.
    type: str
    choices: [Always, IfNotPresent, Never]
    default: IfNotPresent
  replicas:
    description: How many controllers run. One is the leader; all answer webhooks.
    type: int
    default: 1
  configuration:
    description: Keys of Kueue's configuration that take the place of those in the manifests.
    type: dict
    default: {}
  objects:
    description: Queues and what belongs to them, each after what it needs. They must have the label in O(label).
    type: list
    elements: dict
    default: []
  label:
    description: Label by which the module finds the objects of an earlier run, C(key=value).
    type: str
    default: app.kubernetes.io/managed-by=deephdc.accelerators-queue
  purge:
    description: Remove what is left over. A queue with jobs stays. Left-over rights are always removed.
    type: bool
    default: false
  patience:
    description: Seconds that the controller may take until it answers, as its image may have to be pulled.
    type: int
    default: 180
  kubeconfig:
    description: File with the address of the API and the rights of an administrator.
    type: path
    default: /etc/kubernetes/admin.conf
"""

EXAMPLES = r"""
- name: Run Kueue with a queue for whole GPUs
  deephdc.accelerators.kubernetes_queue:
    manifests: /var/lib/deephdc/kueue.yaml
    image: registry.k8s.io/kueue/kueue:v0.15.0
    configuration:
      integrations: {frameworks: [batch/job]}
    objects:
      - apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: a100, labels: {app.kubernetes.io/managed-by: deephdc.accelerators-queue}}
        spec: {nodeLabels: {accelerators.deephdc.org/type: a100}}
"""

RETURN = r"""
written:
  description: The objects that were written, removed or stopped, or would be in check mode.
  type: list
  elements: str
  returned: success
  sample: ["ClusterQueue physics"]
left:
  description: What is left over, one sentence each.
  type: list
  elements: str
  returned: success
  sample: ["ClusterQueue chemistry is not in the policy any more, and is stopped; 2 jobs are in it"]
"""

import hashlib
import json
import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import kueue
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import OPTIONS, Kubectl, Refused

try:
    import yaml

    HAS_YAML = True
except ImportError:
    HAS_YAML = False

POLL = 1  # seconds
MANAGER = "deephdc.accelerators"
APPLY = ("apply", "--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "--filename=-")
# What the API says as long as the controller does not answer for it, or does not know a kind of object yet.
NOT_YET = ("failed calling webhook", "conversion webhook", "no matches for kind", "could not find the requested resource", "resource type")


class Queue:
    """Kueue in one cluster."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module, self.kubectl = module, Kubectl(module)
        self.written: list[str] = []
        self.until = time.monotonic() + module.params["patience"]

    def patiently(self, *words: str, given: dict | None = None) -> str:
        """What a command prints, once the controller answers."""
        while True:
            try:
                return self.kubectl(*words, given=given)
            except Refused as refused:
                if not any(said in str(refused) for said in NOT_YET) or time.monotonic() >= self.until:
                    raise
            time.sleep(POLL)

    def apply(self, wanted: list[dict], present: dict) -> None:
        """Write what differs; what the API then has unchanged was right before."""
        differing = kueue.differing(wanted, present)
        if self.module.check_mode or not differing:
            self.written += map(kueue.words, differing)
            return
        before = {name: one["metadata"].get("resourceVersion") for name, one in present.items()}
        said = self.patiently(*APPLY, "--output=json", given=kueue.as_text(differing))
        after = {kueue.key(one): one["metadata"].get("resourceVersion") for one in kueue.parsed(said)}
        self.written += [kueue.words(one) for one in differing if before.get(kueue.key(one)) != after.get(kueue.key(one))]

    def controller(self, wanted: list[dict]) -> None:
        """Bring Kueue itself, and wait until it runs as it should."""
        text = self.kubectl("get", "--filename=-", "--ignore-not-found", "--output=json", given=kueue.as_text(wanted))
        present = {kueue.key(one): one for one in kueue.parsed(text)}
        count = len(self.written)
        self.apply(wanted, present)
        if self.module.check_mode:
            return
        deployment = present.get(("Deployment", kueue.NAMESPACE, kueue.CONTROLLER))
        if len(self.written) > count or not runs(deployment):
            seconds = max(1, int(self.until - time.monotonic()))
            try:
                self.kubectl(
                    *("rollout", "status", f"deployment/{kueue.CONTROLLER}", f"--namespace={kueue.NAMESPACE}"),
                    *(f"--timeout={seconds}s", "--request-timeout=0"),
                )
            except Refused as refused:
                raise Refused(f"Kueue's controller does not run, so no new Job is taken: {self.why() or refused}") from refused

    def why(self) -> str:
        """What its pods say."""
        for pod in self.kubectl.listed("pods", f"--namespace={kueue.NAMESPACE}", "--selector=control-plane=controller-manager"):
            status = pod.get("status") or {}
            for one in status.get("containerStatuses") or []:
                waiting = (one.get("state") or {}).get("waiting") or {}
                if waiting.get("reason"):
                    return f"{pod['metadata']['name']}: {waiting['reason']}: {waiting.get('message', '')}"
            for one in status.get("conditions") or []:
                if one.get("status") == "False" and one.get("message"):
                    return f"{pod['metadata']['name']}: {one['message']}"
        return ""

    def ours(self) -> dict:
        """All objects of an earlier run."""
        kinds = ",".join(kueue.KINDS).lower()
        words = ("get", kinds, "--all-namespaces", f"--selector={self.module.params['label']}", "--output=json")
        try:
            text = self.kubectl(*words) if self.module.check_mode else self.patiently(*words)
        except Refused as refused:
            if self.module.check_mode and any(said in str(refused) for said in NOT_YET):
                return {}  # Kueue would be new
            raise
        return {kueue.key(one): one for one in json.loads(text)["items"]}

    def queues(self, wanted: list[dict]) -> list[str]:
        """Bring the objects, and deal with those that are left over.

        What is left, in sentences.
        """
        present = self.ours()
        for one in wanted:
            there = present.get(kueue.key(one))
            if there and kueue.HELD in (there["metadata"].get("annotations") or {}):
                self.stop(there, None, "None")
        self.apply(wanted, present)
        left = []
        for one in kueue.left_over(wanted, present):
            if kueue.is_to_go(one, self.module.params["purge"]):
                users = kueue.users_of(one, present)
                if not users:
                    self.written.append(f"{kueue.words(one)}: removed")
                    del present[kueue.key(one)]
                    if not self.module.check_mode:
                        kind, space, name = kueue.key(one)
                        self.kubectl(
                            "delete",
                            kind.lower(),
                            name,
                            *([f"--namespace={space}"] if space else []),
                            "--ignore-not-found",
                            "--timeout=30s",
                        )
                    continue
                left.append(f"{kueue.words(one)} is not in the policy any more, and stays for {', '.join(users)}")
            else:
                jobs = f"; {kueue.jobs_in(one)} jobs are in it" if kueue.jobs_in(one) else ""
                left.append(
                    f"{kueue.words(one)} is not in the policy any more{', and is stopped' if one['kind'] in kueue.QUEUES else ''}{jobs}"
                )
            if one["kind"] in kueue.QUEUES and not kueue.stopped(one):
                self.written.append(f"{kueue.words(one)}: stopped")
                self.stop(one, "left the policy", "Hold")
        return left

    def stop(self, one: dict, note: str | None, policy: str) -> None:
        """Stop a queue, or let it go on; jobs that run are not touched."""
        if self.module.check_mode:
            return
        kind, space, name = kueue.key(one)
        wanted = {"metadata": {"annotations": {kueue.HELD: note}}, "spec": {"stopPolicy": policy}}
        where = [f"--namespace={space}"] if space else []
        self.patiently(
            "patch", kind.lower(), name, *where, "--type=merge", f"--field-manager={MANAGER}-stop", "--patch", json.dumps(wanted)
        )
        if note is None:
            self.written.append(f"{kueue.words(one)}: started")


def runs(deployment: dict | None) -> bool:
    """Whether all of a Deployment is what it should be."""
    if not deployment:
        return False
    spec, status = deployment["spec"], deployment.get("status") or {}
    wanted = spec.get("replicas", 1)
    is_seen = status.get("observedGeneration") == deployment["metadata"].get("generation")
    return is_seen and all(status.get(name) == wanted for name in ("updatedReplicas", "availableReplicas"))


def read(path: str, sha256: str) -> list[dict]:
    """The manifests of a file.

    :raises ValueError: it can't be read, or is another file.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ValueError(f"The manifests of Kueue can't be read: {error}.") from error
    if sha256 and hashlib.sha256(data).hexdigest() != sha256.lower():
        raise ValueError(f"{path} has another SHA-256 than the one that is given: {hashlib.sha256(data).hexdigest()}.")
    try:
        documents = list(yaml.load_all(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not all(one is None or (isinstance(one, dict) and one.get("kind") and one.get("metadata", {}).get("name")) for one in documents):
        raise ValueError(f"{path} has something else than Kubernetes objects.")
    return [one for one in documents if one]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "manifests": {"type": "path", "required": True},
            "sha256": {"type": "str", "default": ""},
            "image": {"type": "str", "required": True},
            "pull_policy": {"type": "str", "choices": ["Always", "IfNotPresent", "Never"], "default": "IfNotPresent"},
            "replicas": {"type": "int", "default": 1},
            "configuration": {"type": "dict", "default": {}},
            "objects": {"type": "list", "elements": "dict", "default": []},
            "label": {"type": "str", "default": "app.kubernetes.io/managed-by=deephdc.accelerators-queue"},
            "purge": {"type": "bool", "default": False},
            "patience": {"type": "int", "default": 180},
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    if not HAS_YAML:
        module.fail_json(msg=missing_required_lib("PyYAML"))
    params = module.params
    queue = Queue(module)
    try:
        wanted = kueue.Wanted(*(params[name] for name in ("image", "pull_policy", "replicas", "configuration")))
        queue.controller(kueue.adapted(read(params["manifests"], params["sha256"]), wanted, yaml.safe_load))
        left = queue.queues(params["objects"])
    except ValueError as error:
        module.fail_json(msg=str(error), written=queue.written)
    except Refused as refused:
        module.fail_json(msg=f"Kubernetes refused it: {refused}", written=queue.written)
    diff = {"before": "", "after": "".join(f"{one}\n" for one in queue.written)}
    module.exit_json(changed=bool(queue.written), written=queue.written, left=left, diff=diff)


if __name__ == "__main__":
    main()
