# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Plain Jobs of users in the queues of their accounts.

Kueue is removed at the end, so that no other test has it.

It runs where Kueue was compiled: always by `make test NAME=kubernetes`, else where an earlier run kept it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes_accounts import forget_policy
from kubernetes_site import BUSYBOX, KUBECTL, PLAYBOOK, Site, recap
from local import ROOT, changed

OWNS = (
    "roles/kubernetes_cluster/tasks/queue.yml",
    "plugins/module_utils/_kubernetes/kueue.py",
    "plugins/modules/kubernetes_queue.py",
    "plugins/plugin_utils/_kubernetes/queue.py",
    "tests/kubernetes/kueue",
)

# Two GPUs for all of science, of which physics and chemistry have one each and borrow the other; two for teaching, one of them a t4.
POLICY: dict[str, Any] = {
    "qos": [{"name": "urgent", "priority": 100}],
    "accounts": [
        {"name": "science", "limits": {"gpus": 2}},
        {"name": "physics", "parent": "science", "users": ["paul"], "qos": ["normal", "urgent"]},
        {"name": "chemistry", "parent": "science", "users": ["bob"]},
        {"name": "teaching", "limits": {"gpus": {"t4": 1, "any": 2}}, "users": ["carl"]},
    ],
}
# By name of the account; each comes with a token of the IAM.
USERS = {"physics": "paul", "chemistry": "bob", "teaching": "carl"}
MANIFESTS = "/srv/kubernetes/programs/kueue.yaml"
TYPE = "accelerators.deephdc.org/type"
# A job that ends when a test wants it to.
WAITS = "ls /dev/nvidia[0-9]*; until [ -e /tmp/end ]; do sleep 0.2; done"


def settings(site: Site, **more: Any) -> dict[str, Any]:
    inventory = yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]["vars"]
    archive = {"path": "/srv/kubernetes/images/kueue.tar", "names": ["registry.k8s.io/kueue/kueue:v0.15.0"]}
    return {
        "kubernetes_cluster_queue": "kueue",
        "kubernetes_cluster_queue_manifests": MANIFESTS,
        "kubernetes_cluster_policy": POLICY,
        "kubernetes_cluster_policy_user_prefix": "iam:",
        "containerd_archives": [*inventory["containerd_archives"], archive],
        **more,
    }


def bring(site: Site) -> None:
    """Kueue's program and manifests come to the first host, and its image is made there, if the cluster was made without them."""
    if not site.run("cp1", f"test -e {MANIFESTS}").returncode:
        return
    tests = ROOT / "tests/kubernetes"
    build = tests / "build"
    if os.environ.get("TESTS_OF_ANOTHER_RELEASE") == "":
        subprocess.run([build, "programs", "queue"], check=True)
    kept = subprocess.run([build, "--kept", "queue"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    if not kept:
        pytest.skip("because Kueue is not compiled on this machine: tests/kubernetes/build programs queue")
    for source, target in ((f"{kept}/.", "programs"), (tests / "publish.py", "publish.py")):
        subprocess.run(["docker", "cp", "--quiet", source, f"{site.label}-cp1:/srv/kubernetes/{target}"], check=True)
    site.out("cp1", "/srv/kubernetes/publish.py /srv/kubernetes/programs /srv/kubernetes queue")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    found = Site()
    bring(found)
    found.playbook(PLAYBOOK, variables=settings(found))
    yield found
    for account in ("science", *USERS):
        found.kubectl(f"delete jobs --all --namespace {account} --ignore-not-found --wait=true")
    # As docs/kubernetes_queue.md has it.
    found.kubectl("delete localqueues,clusterqueues,cohorts,resourceflavors --all --all-namespaces --timeout=60s")
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings,rolebindings,clusterroles"
    found.kubectl(f"delete {kinds} --all-namespaces --selector=app.kubernetes.io/managed-by=deephdc.accelerators-queue")
    found.kubectl(f"delete --filename {MANIFESTS} --ignore-not-found --timeout=120s")
    forget_policy(found)
    found.playbook(PLAYBOOK)


def job(name: str, gpus: int, kind: str = "", program: str = WAITS, **labels: str) -> dict[str, Any]:
    """What a user would write: nothing of a queue is in it."""
    container = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", program]}
    container["resources"] = {"requests": {"cpu": "10m", "memory": "10Mi"}, "limits": {"nvidia.com/gpu": gpus}}
    pod: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    if kind:
        pod["nodeSelector"] = {TYPE: kind}
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}


def deliver(site: Site, **more: Any) -> str:
    """Bring policy and queue, and nothing else of the cluster."""
    return site.playbook(PLAYBOOK, "--tags", "kubernetes_cluster", variables=settings(site, **more))


class Account:
    """A user with the namespace of an account."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name

    def kubectl(self, words: str, given: dict[str, Any] | None = None, succeeds: bool = True) -> str:
        """As the user, at a host where users log in."""
        return self.site.as_user(USERS[self.name]).kubectl(f"--namespace {self.name} {words}", given, succeeds)

    def submit(self, *jobs: dict[str, Any]) -> None:
        for one in jobs:
            self.kubectl("create -f -", one)
            # Created in one second, jobs have no order that anyone could see.
            time.sleep(1.1)

    def running(self) -> list[str]:
        pods = self.site.get(f"pods --namespace {self.name} --selector=job-name")["items"]
        return sorted(one["metadata"]["labels"]["job-name"] for one in pods if one["status"]["phase"] == "Running")

    def pod(self, name: str) -> dict[str, Any]:
        (found,) = self.site.get(f"pods --namespace {self.name} --selector=job-name={name}")["items"]
        return found

    def until(self, *wanted: str, seconds: float = 60) -> None:
        """Wait until these jobs run and no other, and a moment more."""
        deadline = time.monotonic() + seconds
        while self.running() != sorted(wanted):
            assert time.monotonic() < deadline, (self.running(), wanted, self.site.kubectl(f"describe workloads --namespace {self.name}"))
            time.sleep(0.5)
        time.sleep(2)
        assert self.running() == sorted(wanted)

    def end(self, name: str) -> None:
        self.site.kubectl(f"exec --namespace {self.name} job/{name} -- touch /tmp/end")

    def why(self, name: str, seconds: float = 20) -> str:
        """What a user reads of a job that waits."""
        deadline = time.monotonic() + seconds
        while True:
            for one in json.loads(self.kubectl("get workloads --output=json"))["items"]:
                if one["metadata"]["ownerReferences"][0]["name"] == name:
                    for condition in one.get("status", {}).get("conditions", []):
                        if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                            return str(condition["message"])
            assert time.monotonic() < deadline, f"nothing says why {name} waits"
            time.sleep(0.5)

    def clear(self) -> None:
        self.site.kubectl(f"delete jobs --all --namespace {self.name} --wait=true")
        self.until()


@pytest.fixture
def account(site: Site) -> Iterator[Any]:
    used = []

    def of(name: str) -> Account:
        used.append(Account(site, name))
        return used[-1]

    yield of
    for one in used:
        one.clear()


def test_jobs_of_a_user_run_in_their_order(site: Site, account: Any):
    """One, two, one and one GPUs for an account with two: the third does not overtake the second, which waits."""
    teaching = account("teaching")
    teaching.submit(job("first", 1), job("second", 2), job("third", 1), job("fourth", 1))
    teaching.until("first")
    assert "1 more needed" in teaching.why("second") or "insufficient" in teaching.why("second")
    assert site.get("job first --namespace teaching")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    place = json.loads(
        teaching.kubectl("get --raw /apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/teaching/localqueues/default/pendingworkloads")
    )
    places = {one["metadata"]["ownerReferences"][0]["name"]: one["positionInLocalQueue"] for one in place["items"]}
    assert places == {"second": 0, "third": 1, "fourth": 2}
    teaching.end("first")
    teaching.until("second")
    pod = teaching.pod("second")
    assert pod["spec"]["nodeName"] == "gpu1" and site.kubectl("logs --namespace teaching job/second").split() == [
        "/dev/nvidia0",
        "/dev/nvidia1",
    ]
    teaching.end("second")
    teaching.until("third", "fourth")


def test_accounts_borrow_below_a_parent_and_give_back(site: Site, account: Any):
    physics, chemistry, teaching = account("physics"), account("chemistry"), account("teaching")
    physics.submit(job("one", 1), job("two", 1), job("three", 1))
    # The second is borrowed; the third is beyond the parent's limit, although two GPUs are idle.
    physics.until("one", "two")
    chemistry.submit(job("own", 1))
    chemistry.until()
    teaching.submit(job("other", 1))
    teaching.until("other")
    kept = physics.pod("two")["metadata"]["uid"]
    physics.end("one")
    # What was borrowed goes back first, although the third has waited for longer. Nothing was ended for it.
    chemistry.until("own")
    physics.until("two")
    assert physics.pod("two")["metadata"]["uid"] == kept


def test_the_limit_of_a_type_holds(site: Site, account: Any):
    teaching = account("teaching")
    teaching.submit(job("one", 1, kind="t4"), job("two", 1, kind="t4"))
    teaching.until("one")
    assert "nvidia.com/gpu in flavor t4" in teaching.why("two")
    assert teaching.pod("one")["spec"]["nodeName"] == "gpu2"
    teaching.clear()
    teaching.submit(job("a100", 1, kind="a100"), job("t4", 1, kind="t4"))
    teaching.until("a100", "t4")


def test_who_is_not_in_an_account_does_not_see_its_queue(site: Site):
    for what in ("workloads", "localqueues"):
        assert "cannot list" in site.as_user("paul").kubectl(f"--namespace teaching get {what}", succeeds=False)
    hold = """patch localqueue default --type=merge --patch '{"spec":{"stopPolicy":"Hold"}}'"""
    assert "cannot patch" in Account(site, "teaching").kubectl(hold, succeeds=False)


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (job("three", 3), "This Job asks for 3 GPUs at once, but the account may have at most 2."),
        (job("two", 2, kind="t4"), "This Job asks for 2 GPUs at once, but of this type the account may have at most 1."),
        (job("one", 1, kind="h100"), "No node has GPUs of the type h100."),
        (
            job("urgent", 1, **{"kueue.x-k8s.io/priority-class": "urgent"}),
            "The label kueue.x-k8s.io/priority-class may be one of normal here.",
        ),
    ],
)
def test_what_could_never_start_is_refused(site: Site, one: dict[str, Any], sentence: str):
    assert sentence in Account(site, "teaching").kubectl("create -f -", one, succeeds=False)


def test_who_may_have_a_priority_goes_first(site: Site, account: Any):
    physics = account("physics")
    physics.submit(job("wide", 2), job("normal", 2), job("urgent", 2, **{"kueue.x-k8s.io/priority-class": "urgent"}))
    physics.until("wide")
    physics.end("wide")
    physics.until("urgent")


def test_the_series_of_the_example(site: Site, account: Any):
    """Vector additions of growing length, in their order.

    The image has no CUDA here, so the shell adds.
    """
    physics, chemistry = account("physics"), account("chemistry")
    chemistry.submit(job("busy", 1))
    chemistry.until("busy")
    text = (
        (ROOT / "docs/examples/kubernetes_vector_additions.yml")
        .read_text()
        .replace("nvcr.io/nvidia/cuda:12.9.1-devel-ubuntu24.04", BUSYBOX)
    )
    names = []
    for one in yaml.safe_load(text)["items"]:
        physics.kubectl("create -f -", one)
        if one["kind"] == "Job":
            names.append(one["metadata"]["name"])
            time.sleep(1.1)
    for name in names:
        site.kubectl(f"wait --namespace physics --for=condition=Complete --timeout=60s job/{name}")
    starts = [site.get(f"job {name} --namespace physics")["status"]["startTime"] for name in names]
    assert starts == sorted(starts) and len(set(starts)) == 4
    for name in names:
        said = site.kubectl(f"logs --namespace physics job/{name}").split("\n")
        assert said[0].startswith("/dev/nvidia") and f"added {name.split('-')[1]} numbers" in said[1]


def test_without_kueue_no_new_job_runs_and_running_ones_live(site: Site, account: Any):
    teaching = account("teaching")
    teaching.submit(job("runs", 1))
    teaching.until("runs")
    before = teaching.pod("runs")["metadata"]["uid"]
    site.kubectl("scale deployment kueue-controller-manager --namespace kueue-system --replicas 0")
    site.until("cp1", f"{KUBECTL} get pods --namespace kueue-system --output name | wc -l", "0")
    said = teaching.kubectl("create -f -", job("late", 1), succeeds=False)
    assert "failed calling webhook" in said and "mjob.kb.io" in said
    # Other pods and namespaces do not need it.
    site.kubectl("create -f -", {**job("elsewhere", 1, program="true"), "metadata": {"name": "elsewhere", "namespace": "default"}})
    site.kubectl("wait --for=condition=Complete --timeout=60s job/elsewhere")
    site.kubectl("delete job elsewhere")
    deliver(site)
    teaching.submit(job("late", 1))
    teaching.until("runs", "late")
    assert teaching.pod("runs")["metadata"]["uid"] == before


def test_a_second_run_changes_nothing(site: Site):
    said = site.playbook(PLAYBOOK, variables=settings(site))
    for host in ("cp1", "gpu1", "gpu2"):
        assert "changed=0" in recap(said, host), changed(said)


def test_a_new_policy_ends_no_job(site: Site, account: Any):
    """Limits are lowered and an account leaves under running jobs.

    What waits in its queue does not start.
    """
    teaching, chemistry = account("teaching"), account("chemistry")
    teaching.submit(job("one", 1), job("two", 1))
    chemistry.submit(job("goes-on", 1))
    teaching.until("one", "two")
    chemistry.until("goes-on")
    uids = {name: of.pod(name)["metadata"]["uid"] for of, name in ((teaching, "one"), (teaching, "two"), (chemistry, "goes-on"))}
    accounts = [
        {**one, **({"limits": {"gpus": 1}} if one["name"] == "teaching" else {})}
        for one in POLICY["accounts"]
        if one["name"] != "chemistry"
    ]
    smaller = {"kubernetes_cluster_policy": {**POLICY, "accounts": accounts}}
    try:
        said = " ".join(deliver(site, **smaller).split())
        assert "ClusterQueue chemistry is not in the policy any more, and is stopped; 1 jobs are in it" in said
        teaching.submit(job("three", 1))
        teaching.until("one", "two")
        chemistry.until("goes-on")
        assert uids == {
            name: of.pod(name)["metadata"]["uid"] for of, name in ((teaching, "one"), (teaching, "two"), (chemistry, "goes-on"))
        }
        chemistry.end("goes-on")
        chemistry.until()
        site.kubectl("delete jobs --all --namespace chemistry --wait=true")
        deliver(site, **smaller, kubernetes_cluster_policy_purge=True)
        assert "chemistry" not in site.kubectl("get clusterqueues --output name")
    finally:
        deliver(site)
    assert "clusterqueue.kueue.x-k8s.io/chemistry" in site.kubectl("get clusterqueues --output name")
    chemistry.submit(job("again", 1))
    chemistry.until("again")
