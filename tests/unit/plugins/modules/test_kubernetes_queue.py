# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module kubernetes_queue against an API in memory: only what differs is written, and no queue with jobs is removed."""

from __future__ import annotations

import copy
import hashlib
import json

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import kueue
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import Refused
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_queue

HELD = "accelerators.deephdc.org/held"
LABELS = {"app.kubernetes.io/managed-by": "deephdc.accelerators-queue"}
SELECTOR = {"matchExpressions": [{"key": "accelerators.deephdc.org/account", "operator": "Exists"}]}
CONFIGURATION = {
    "integrations": {"frameworks": ["batch/job"]},
    "manageJobsWithoutQueueName": True,
    "managedJobsNamespaceSelector": SELECTOR,
}


def hook(name):
    return {"name": f"{name}.kb.io", "failurePolicy": "Fail", "rules": [{"resources": [name[1:]]}]}


MANIFESTS = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {
            "controller_manager_config.yaml": "webhook: {port: 9443}\n# a comment\nintegrations: {frameworks: [batch/job, ray.io/rayjob]}\n"
        },
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
        "spec": {
            "replicas": 1,
            "template": {"metadata": {}, "spec": {"containers": [{"name": "manager", "image": "kueue:main", "imagePullPolicy": "Always"}]}},
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kueue-mutating-webhook-configuration"},
        "webhooks": [hook("mpod"), hook("mjob"), hook("mrayjob"), hook("mclusterqueue"), hook("mworkload")],
    },
]


def queue(name="physics", kind="ClusterQueue", **more):
    spec = {"clusterQueue": name} if kind == "LocalQueue" else {"cohortName": "all.accounts"}
    space = {"namespace": name} if kind == "LocalQueue" else {}
    meta = {"name": "default" if kind == "LocalQueue" else name, **space, "labels": LABELS}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec, **more}


class Api:
    """What kubectl would reach."""

    def __init__(self):
        self.objects, self.calls, self.refusals, self.version = {}, [], [], 0

    def put(self, one, **status):
        self.version += 1
        there = self.objects.setdefault(kueue.key(one), {})
        there.update(copy.deepcopy(one))
        there["metadata"] = {**there["metadata"], "resourceVersion": str(self.version), "generation": 1}
        if status:
            there["status"] = status
        return there

    def __call__(self, *words, given=None):
        self.calls.append(words)
        if self.refusals and words[0] in ("apply", "patch"):
            said = self.refusals.pop(0)
            if said:
                raise Refused(said)
        return getattr(self, words[0])(*words[1:], given=given)

    def get(self, *words, given):
        if given is not None:
            found = [self.objects[kueue.key(one)] for one in given["items"] if kueue.key(one) in self.objects]
            if len(found) == 1:
                return json.dumps(found[0])
            return json.dumps({"kind": "List", "items": found}) if found else ""
        if not any(one["kind"] == "Deployment" for one in self.objects.values()):
            raise Refused('error: the server doesn\'t have a resource type "localqueue"')
        key, value = next(word for word in words if "selector=" in word).split("=", 1)[1].split("=")
        found = [one for one in self.objects.values() if (one["metadata"].get("labels") or {}).get(key) == value]
        return json.dumps({"kind": "List", "items": found})

    def apply(self, *words, given):
        assert "--server-side" in words
        made = []
        for one in given["items"]:
            there = self.objects.get(kueue.key(one))
            # What the API has already keeps its version.
            made.append(there if there and one["metadata"]["name"] == "same" else self.put(one))
        return json.dumps(made[0] if len(made) == 1 else {"kind": "List", "items": made})

    def rollout(self, *words, given):
        status = dict.fromkeys(("updatedReplicas", "availableReplicas"), self.objects[DEPLOYMENT]["spec"]["replicas"])
        self.objects[DEPLOYMENT]["status"] = {"observedGeneration": 1, **status}
        return ""

    def patch(self, kind, name, *words, given):
        one = next(one for key, one in self.objects.items() if (key[0].lower(), key[2]) == (kind, name))
        patch = json.loads(words[words.index("--patch") + 1])
        notes = {**(one["metadata"].get("annotations") or {}), **patch["metadata"]["annotations"]}
        one["metadata"]["annotations"] = {key: value for key, value in notes.items() if value is not None}
        one["spec"].update(patch["spec"])
        return ""

    def delete(self, kind, name, *words, given):
        (gone,) = [key for key in self.objects if (key[0].lower(), key[2]) == (kind, name)]
        del self.objects[gone]
        return ""

    def listed(self, *words):
        return self.pods

    def verbs(self):
        return [words[0] for words in self.calls]


DEPLOYMENT = ("Deployment", "kueue-system", "kueue-controller-manager")


@pytest.fixture
def api(monkeypatch):
    found = Api()
    monkeypatch.setattr(kubernetes_queue, "Kubectl", lambda module: found)
    monkeypatch.setattr(kubernetes_queue, "POLL", 0.01)
    return found


@pytest.fixture
def deliver(api, run, tmp_path):
    file = tmp_path / "kueue.yaml"
    file.write_text(yaml.safe_dump_all(MANIFESTS), encoding="utf-8")

    def run_module(objects=(), **options):
        api.calls.clear()
        given = {
            "manifests": str(file),
            "image": "mirror/kueue:1",
            "pull_policy": "Never",
            "configuration": CONFIGURATION,
            "objects": list(objects),
        }
        return run(kubernetes_queue, **{**given, **options})

    run_module.file = file
    return run_module


def test_a_new_queue(api, deliver):
    said = deliver([queue(), queue(kind="LocalQueue")])
    assert said["changed"] and said["left"] == []
    assert "Deployment kueue-system/kueue-controller-manager" in said["written"] and "LocalQueue physics/default" in said["written"]
    assert "rollout" in api.verbs()


def test_a_second_run_writes_nothing(api, deliver):
    deliver([queue()])
    said = deliver([queue()])
    assert (said["changed"], said["written"], api.verbs()) == (False, [], ["get", "get"])


def test_what_others_added_is_no_difference(api, deliver):
    deliver([queue()])
    there = api.objects[DEPLOYMENT]
    there["spec"]["progressDeadlineSeconds"] = 600
    hooks = api.objects["MutatingWebhookConfiguration", "", "kueue-mutating-webhook-configuration"]["webhooks"]
    hooks[0]["clientConfig"] = {"caBundle": "x"}
    assert not deliver([queue()])["changed"]
    # But what someone changed is written again.
    there["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    hooks[0]["failurePolicy"] = "Ignore"
    assert deliver([queue()])["written"] == [
        "Deployment kueue-system/kueue-controller-manager",
        "MutatingWebhookConfiguration kueue-mutating-webhook-configuration",
    ]


def test_the_api_says_whether_something_changed(api, deliver):
    deliver([queue("same")])
    # Written otherwise than the API has it, but the same for it.
    said = deliver([queue("same", spec={"cohortName": "all.accounts", "nominalQuota": "1024Mi"})])
    assert "apply" in api.verbs() and not said["changed"]


def test_the_controller_is_as_the_site_wants_it(api, deliver):
    deliver(replicas=2)
    spec = api.objects[DEPLOYMENT]["spec"]
    pod = spec["template"]["spec"]
    assert (spec["replicas"], pod["containers"][0]["image"], pod["containers"][0]["imagePullPolicy"]) == (2, "mirror/kueue:1", "Never")
    assert pod["tolerations"] == [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]
    config = api.objects["ConfigMap", "kueue-system", "kueue-manager-config"]["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(config) == {"webhook": {"port": 9443}, **CONFIGURATION}
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    assert spec["template"]["metadata"]["annotations"] == {"accelerators.deephdc.org/configuration": digest}


def test_webhooks_hold_where_jobs_wait_in_queues_and_nowhere_else(api, deliver):
    deliver()
    hooks = {
        one["name"]: one for one in api.objects["MutatingWebhookConfiguration", "", "kueue-mutating-webhook-configuration"]["webhooks"]
    }
    assert sorted(hooks) == ["mclusterqueue.kb.io", "mjob.kb.io", "mworkload.kb.io"]
    assert hooks["mjob.kb.io"]["namespaceSelector"] == SELECTOR and hooks["mjob.kb.io"]["failurePolicy"] == "Fail"
    assert "namespaceSelector" not in hooks["mworkload.kb.io"]


def test_a_left_over_queue_is_stopped_and_comes_back(api, deliver):
    deliver([queue(), queue("chemistry")])
    api.put(api.objects["ClusterQueue", "", "chemistry"], reservingWorkloads=2)
    said = deliver([queue()])
    assert said["written"] == ["ClusterQueue chemistry: stopped"]
    assert said["left"] == ["ClusterQueue chemistry is not in the policy any more, and is stopped; 2 jobs are in it"]
    there = api.objects["ClusterQueue", "", "chemistry"]
    assert there["spec"]["stopPolicy"] == "Hold" and HELD in there["metadata"]["annotations"]
    assert not deliver([queue()])["changed"]
    assert deliver([queue(), queue("chemistry")])["written"] == ["ClusterQueue chemistry: started"]
    assert there["spec"]["stopPolicy"] == "None" and HELD not in there["metadata"]["annotations"]


def test_rights_go_at_once(api, deliver):
    right = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "v", "namespace": "physics", "labels": LABELS},
    }
    deliver([right])
    assert deliver(_ansible_check_mode=True)["written"] == ["RoleBinding physics/v: removed"]
    assert deliver()["written"] == ["RoleBinding physics/v: removed"]
    assert not deliver()["changed"]


def test_a_queue_that_an_administrator_stopped_stays_so(api, deliver):
    deliver([queue()])
    api.objects["ClusterQueue", "", "physics"]["spec"]["stopPolicy"] = "Hold"
    assert not deliver([queue()])["changed"]
    assert api.objects["ClusterQueue", "", "physics"]["spec"]["stopPolicy"] == "Hold"


def test_purge_removes_what_is_empty(api, deliver):
    flavor = {"kind": "ResourceFlavor", "apiVersion": "v1", "metadata": {"name": "a100", "labels": LABELS}, "spec": {}}
    groups = {"spec": {"resourceGroups": [{"flavors": [{"name": "a100"}]}]}}
    deliver([flavor, queue(), queue("chemistry", **groups), queue("chemistry", kind="LocalQueue")])
    api.put(api.objects["ClusterQueue", "", "chemistry"], pendingWorkloads=1)
    said = deliver([queue()], purge=True)
    assert said["written"] == ["LocalQueue chemistry/default: removed", "ClusterQueue chemistry: stopped"]
    assert said["left"] == [
        "ClusterQueue chemistry is not in the policy any more, and stays for 1 jobs",
        "ResourceFlavor a100 is not in the policy any more, and stays for ClusterQueue chemistry",
    ]
    api.put(api.objects["ClusterQueue", "", "chemistry"], pendingWorkloads=0)
    said = deliver([queue()], purge=True)
    assert said["written"] == ["ClusterQueue chemistry: removed", "ResourceFlavor a100: removed"] and said["left"] == []
    assert [key for key in api.objects if key[0] in kueue.KINDS] == [("ClusterQueue", "", "physics")]


def test_it_waits_until_the_webhooks_answer(api, deliver):
    api.refusals = ["", "failed calling webhook mclusterqueue.kb.io: connection refused", "no matches for kind ClusterQueue"]
    assert "ClusterQueue physics" in deliver([queue()])["written"]
    api.refusals = ["", "failed calling webhook"] * 2
    assert deliver([queue("other")], patience=0, image="x")["msg"] == "Kubernetes refused it: failed calling webhook"
    api.refusals = ["spec.cohortName: Invalid value"]
    said = deliver([queue("another")])
    assert said["failed"] and "Invalid value" in said["msg"]


def test_a_controller_that_does_not_run(api, deliver, monkeypatch):
    deliver([queue()])
    api.objects[DEPLOYMENT]["status"]["availableReplicas"] = 0
    assert deliver([queue()])["changed"] is False and "rollout" in api.verbs()
    api.objects[DEPLOYMENT]["status"]["availableReplicas"] = 0
    waiting = {"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no image"}}}
    api.pods = [{"metadata": {"name": "kueue-1"}, "status": {"containerStatuses": [waiting]}}]

    def late(*words, given):
        raise Refused("timed out waiting for the condition")

    monkeypatch.setattr(api, "rollout", late)
    said = deliver([queue()])
    assert said["msg"] == (
        "Kubernetes refused it: Kueue's controller does not run, so no new Job is taken: kueue-1: ErrImageNeverPull: no image"
    )


def test_check_mode_writes_nothing(api, deliver):
    said = deliver([queue()], _ansible_check_mode=True)
    assert said["changed"] and "ClusterQueue physics" in said["written"] and api.objects == {}
    assert set(api.verbs()) == {"get"}
    deliver([queue(), queue("chemistry")])
    before = copy.deepcopy(api.objects)
    said = deliver([queue()], _ansible_check_mode=True, purge=True)
    assert said["written"] == ["ClusterQueue chemistry: removed"] and api.objects == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is no YAML"),
        ("kind: ConfigMap\n", "has something else than Kubernetes objects."),
        (yaml.safe_dump(MANIFESTS[0]), "These are not the manifests of Kueue"),
    ],
)
def test_files_that_are_no_manifests(deliver, text, sentence):
    deliver.file.write_text(text, encoding="utf-8")
    said = deliver()
    assert said["failed"] and sentence in said["msg"]


def test_a_file_with_another_digest(deliver, api):
    good = hashlib.sha256(deliver.file.read_bytes()).hexdigest()
    assert deliver(sha256=good.upper())["changed"]
    said = deliver(sha256="0" * 64)
    assert said["failed"] and f"has another SHA-256 than the one that is given: {good}" in said["msg"] and api.calls == []
    assert "can't be read" in deliver(manifests="/nowhere")["msg"]
