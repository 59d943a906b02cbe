# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that changes while its users work."""

from __future__ import annotations

import copy

from kubernetes_policy_site import POLICY, accounts, as_user, bring, clean, empty, job, phase, pod, without, words
from kubernetes_site import KUBECTL, Site, recap

OWNS = (
    "roles/kubernetes_cluster/tasks/policy.yml",
    "plugins/plugin_utils/_kubernetes/policy_changes.py",
    "plugins/plugin_utils/_kubernetes/policy_objects.py",
    "tests/verify/kubernetes_accounts.py",
    "tests/verify/kubernetes_policy_site.py",
)
__all__ = ["accounts", "empty"]


def test_who_is_taken_out_can_submit_nothing_while_the_pod_lives_on(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine", gpus=1, priorityClassName="long"))
    phase(site, "mine", "Running")
    try:
        said = words(bring(site, without("biology", groups=["iam:others"])))
        assert "RoleBinding physics/account: subjects: " in said
        for command in ("create -f -", "get pods", "exec mine -- true"):
            assert "forbidden" in as_user(site, "ada", command, pod("next") if command.startswith("create") else None, succeeds=False)
        assert site.get("pod mine -n physics")["status"]["phase"] == "Running"
    finally:
        bring(site, POLICY)
    assert as_user(site, "ada", "get pod mine -o jsonpath={.status.phase}") == "Running"


def test_an_account_that_leaves_is_shut_at_once_and_purged_when_it_is_empty(site: Site, empty: str):
    as_user(site, "eve", "create -f -", pod("mine", gpus=1), namespace="biology")
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job("often", "true")["spec"]}}
    as_user(
        site,
        "eve",
        "create -f -",
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often"}, "spec": cron},
        namespace="biology",
    )
    phase(site, "mine", "Running", "biology")
    try:
        said = words(bring(site, without("biology")))
        assert "Namespace biology of account biology, which the policy does not name: kubernetes_cluster_policy_purge is not set." in said
        assert "forbidden" in as_user(site, "eve", "create -f -", pod("next"), namespace="biology", succeeds=False)
        # Not even a program that is still there may begin something.
        refused = site.kubectl("create --namespace=biology -f -", pod("next"), succeeds=False)
        assert "exceeded quota: account" in refused
        assert "changed=0" in recap(bring(site, without("biology")), "cp1")
        said = words(bring(site, without("biology"), kubernetes_cluster_policy_purge=True))
        assert "which the policy does not name: pods or Jobs wait or run in it. Nothing new can be submitted in it." in said
        assert site.get("pod mine -n biology")["status"]["phase"] == "Running"
        clean(site, "biology")
        assert "Namespace biology: is removed" in words(bring(site, without("biology"), kubernetes_cluster_policy_purge=True))
        site.until("cp1", f"{KUBECTL} get namespace biology --ignore-not-found -o name; echo done", "done", 60)
        site.kubectl("wait --for=delete namespace/biology --timeout=90s")
    finally:
        bring(site, POLICY)
    as_user(site, "eve", "create -f -", pod("back"), namespace="biology")


def test_a_lowered_limit_ends_nothing_and_holds_for_what_comes(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine", gpus=2, priorityClassName="long"))
    phase(site, "mine", "Running")
    try:
        said = words(bring(site, without(limits={"gpus": 1, "per_job": {"gpus": 1}})))
        assert 'ResourceQuota physics/account: spec.hard.requests.nvidia.com/gpu: "3" -> "1"' in said
        assert site.get("pod mine -n physics")["status"]["phase"] == "Running"
        assert "exceeded quota" in as_user(site, "ada", "create -f -", pod("next", gpus=1), succeeds=False)
        hard = site.get("resourcequota account -n physics")["spec"]["hard"]
        assert "limits.cpu" not in hard and "pods" not in hard, "limits that were lifted"
    finally:
        bring(site, POLICY)
    assert site.get("resourcequota account -n physics")["spec"]["hard"]["limits.cpu"] == "8"


def test_a_priority_that_changes_reaches_the_class(site: Site, empty: str):
    """The API server lets the value of a class never change: it is made again."""
    policy = copy.deepcopy(POLICY)
    policy["qos"][1]["priority"] = 200
    policy["qos"].pop(0)
    policy["accounts"][0]["qos"] = ["normal"]
    try:
        said = words(bring(site, policy))
        assert site.get("priorityclass urgent")["value"] == 200
        assert "PriorityClass long, which the policy does not name" in said
        assert site.get("priorityclass long")["value"] == 10, "not purged"
    finally:
        bring(site, POLICY)
    assert site.get("priorityclass urgent")["value"] == 100


def test_a_namespace_of_others_is_left_alone(site: Site, empty: str):
    site.kubectl("create namespace taken")
    policy = copy.deepcopy(POLICY)
    policy["accounts"].append({"name": "taken"})
    said = words(bring(site, policy, succeeds=False))
    assert "Namespace taken is there already, and not of the policy: " in said
    labels = site.get("namespace taken")["metadata"]["labels"]
    assert list(labels) == ["kubernetes.io/metadata.name"]


def test_without_a_policy_all_stays_as_it_is(site: Site, empty: str):
    """A file of variables that is not there takes no one's access away."""
    said = words(bring(site, {}))
    assert "The namespaces biology, physics are of a policy, but there is none now: they stay as they are." in said
    as_user(site, "ada", "get pods")
