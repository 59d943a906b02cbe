# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Accounts with limits on the cluster that Molecule has made: what their users may do, and what they read."""

from __future__ import annotations

from kubernetes_accounts import OURS
from kubernetes_policy_site import EVENTS, POLICY, WAITS, accounts, as_user, bring, empty, job, phase, pod, said_of, words
from kubernetes_site import KUBECTL, PLAYBOOK, TRY, Site, recap

OWNS = (
    "roles/kubernetes_cluster/tasks/policy.yml",
    "plugins/plugin_utils/_kubernetes/policy.py",
    "plugins/plugin_utils/_kubernetes/policy_objects.py",
    "plugins/plugin_utils/_kubernetes/policy_rules.py",
    "plugins/plugin_utils/_kubernetes/policy_settings.py",
    "tests/verify/kubernetes_accounts.py",
    "tests/verify/kubernetes_policy_site.py",
)
__all__ = ["accounts", "empty"]


# Before there is a policy


def test_a_mistake_is_one_sentence_before_a_host_is_touched(site: Site):
    said = words(bring(site, {"accounts": [{"name": "physics", "user": ["ada"]}]}, succeeds=False))
    assert "kubernetes_cluster_policy: account physics has the unknown key 'user' (did you mean users?)." in said
    assert "kubernetes_node : " not in said


def test_check_mode_shows_all_and_changes_nothing(site: Site):
    said = bring(site, POLICY, "--check", "--diff")
    for line in ("Namespace physics: is made", "ResourceQuota physics/account: is made", "RoleBinding biology/account: is made"):
        assert line in words(said)
    assert "changed=0" not in recap(said, "cp1")
    assert site.get(f"namespaces -l {OURS}")["items"] == []


# What a user can do


def test_what_nothing_enforces_is_reported_by_name(accounts: str):
    for key, whose in (("partitions", "gpu"), ("fairshare", "account physics"), ("limits.gpu_minutes", "account physics")):
        assert f"{key} of {whose} is not enforced by Kubernetes: " in accounts
    assert "limits.gpus of account physics is not enforced by Kubernetes: a quota sees the resource" in accounts


def test_a_second_run_changes_nothing(site: Site, accounts: str):
    said = site.playbook(PLAYBOOK, variables={"kubernetes_cluster_policy": POLICY})
    for host in ("cp1", "gpu1", "gpu2"):
        assert "changed=0" in recap(said, host), said[-4000:]


def test_a_user_gets_one_gpu_and_no_other(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("one", f"{TRY}sleep 600", gpus=1))
    phase(site, "one", "Running")
    site.until("cp1", f"{KUBECTL} logs one -n physics", "own ")
    lines = as_user(site, "ada", "logs one").splitlines()
    mine = int(lines[-1].split()[1])
    assert [line for line in lines if line.startswith("has ")] == [f"has /dev/nvidia{mine}"]
    foreign = [line for line in lines if line.startswith(f"{1 - mine}: ")]
    assert len(foreign) == 1 and "Operation not permitted" in foreign[0], lines
    # And into it, where a file of another device is no use either.
    said = as_user(site, "ada", f"exec one -- sh -c 'mknod /tmp/x c 195 {1 - mine}; : </tmp/x'", succeeds=False)
    assert "Operation not permitted" in said


def test_a_user_gets_two_gpus_of_a_type(site: Site, empty: str):
    program = "ls /dev/nvidia[0-9]*"
    as_user(site, "ada", "create -f -", job("two", program, gpus=2, nodeSelector={"accelerators.deephdc.org/t4": "2"}))
    as_user(site, "ada", "wait --for=condition=complete job/two --timeout=90s")
    assert as_user(site, "ada", "logs job/two").split() == ["/dev/nvidia0", "/dev/nvidia1"]
    assert as_user(site, "ada", "get pods -o jsonpath={.items[0].spec.nodeName}") == "gpu2"


def test_more_than_a_node_has_waits_and_its_user_reads_why(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("three", gpus=3, priorityClassName="long"))
    assert "Insufficient nvidia.com/gpu" in said_of(site, "ada", "pod three", WAITS, "Insufficient")
    assert as_user(site, "ada", "get pod three -o jsonpath={.status.phase}") == "Pending"


def test_more_than_one_job_may_have_is_refused(site: Site, empty: str):
    refused = as_user(site, "ada", "create -f -", job("three", gpus=3), succeeds=False)
    assert "This job asks for 3 GPUs, but one job may have at most 2 here" in refused
    refused = as_user(site, "ada", "create -f -", job("three", gpus=1, around={"parallelism": 3}), succeeds=False)
    assert "This job asks for 3 GPUs, but one job may have at most 2 here" in refused


def test_more_than_the_account_has_is_refused_until_something_ends(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("first", gpus=2))
    as_user(site, "carl", "create -f -", pod("second", gpus=1))
    refused = as_user(site, "ada", "create -f -", pod("third", gpus=1), succeeds=False)
    assert "exceeded quota: account" in refused
    for part in ("requested: requests.nvidia.com/gpu=1", "used: requests.nvidia.com/gpu=3", "limited: requests.nvidia.com/gpu=3"):
        assert part in refused
    # A Job is there, and begins when there is room.
    as_user(site, "ada", "create -f -", job("later", "true", gpus=1))
    assert "exceeded quota: account" in said_of(site, "ada", "events", EVENTS, "exceeded quota")
    as_user(site, "ada", "delete pod first --now")
    as_user(site, "ada", "wait --for=condition=complete job/later --timeout=120s")


def test_the_time_of_a_job_ends_it(site: Site, empty: str):
    as_user(site, "ada", "create -f -", job("endless", gpus=1))
    as_user(site, "ada", "create -f -", job("shorter", gpus=1, activeDeadlineSeconds=5))
    assert as_user(site, "ada", "get pods -l job-name=endless -o jsonpath={.items[0].spec.activeDeadlineSeconds}") == "60"
    as_user(site, "ada", "wait --for=condition=failed job/shorter --timeout=60s")
    as_user(site, "ada", "wait --for=condition=failed job/endless --timeout=150s")
    for name in ("endless", "shorter"):
        assert as_user(site, "ada", f"get pods -l job-name={name} -o jsonpath={{.items[0].status.reason}}") == "DeadlineExceeded"


def test_a_qos_has_its_own_priority_and_time(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("long", priorityClassName="long"))
    spec = site.get("pod long -n physics")["spec"]
    assert (spec["priority"], spec["activeDeadlineSeconds"], spec["preemptionPolicy"]) == (10, 600, "Never")
    refused = as_user(site, "ada", "create -f -", pod("urgent", priorityClassName="urgent"), succeeds=False)
    assert "The priority class urgent is not allowed here: set priorityClassName to one of normal, long." in refused


def test_a_container_without_a_gpu_has_none_whatever_its_image_asks_for(site: Site, empty: str):
    """Images made for CUDA ask for all GPUs by their own environment variable."""
    as_user(site, "ada", "create -f -", pod("none", "echo devices $NVIDIA_VISIBLE_DEVICES"))
    phase(site, "none", "Succeeded")
    assert as_user(site, "ada", "logs none") == "devices void"


def test_accounts_are_apart(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine"))
    phase(site, "mine", "Running")
    assert as_user(site, "carl", "exec mine -- echo hello") == "hello", "of the same account"
    for command in ("get pods", "logs mine", "exec mine -- echo hello", "delete pod mine"):
        assert "eve" in as_user(site, "eve", command, succeeds=False)
    assert as_user(site, "eve", "get pods -o name", namespace="biology") == ""
