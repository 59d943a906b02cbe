# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Accounts with limits on the cluster that Molecule has made: what their users may do, what they may not, and what they read."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes_accounts import OURS, forget_policy
from kubernetes_site import BUSYBOX, KUBECTL, PLAYBOOK, TRY, Site, User, recap
from local import ROOT

ATTACKS = ROOT / "tests/kubernetes/attacks"
sys.path.insert(0, str(ATTACKS))
from load import CLASSES, attempts  # noqa: E402 because the attacks are no package

OWNS = (
    "roles/kubernetes_cluster/tasks/policy.yml",
    "plugins/plugin_utils/_kubernetes/policy*.py",
    "tests/kubernetes/attacks",
    "tests/verify/kubernetes_accounts.py",
)

Pod = dict[str, Any]

GROUPS = {"ada": ["physics"], "carl": ["physics"], "eve": ["biology"], "naive": ["naive"]}
POLICY: dict[str, Any] = {
    "qos": [{"name": "long", "priority": 10, "limits": {"per_job": {"wall": "00:10:00", "gpus": 3}}}, {"name": "urgent", "priority": 100}],
    "accounts": [
        {
            "name": "physics",
            "groups": ["iam:physics"],
            "qos": ["normal", "long"],
            "fairshare": 3,
            "limits": {
                "gpus": {"a100": 2, "any": 3},
                "cpus": 8,
                "memory": "16G",
                "jobs": 10,
                "submitted_jobs": 20,
                "gpu_minutes": 600,
                "per_job": {"gpus": 2, "cpus": 4, "memory": "4G", "wall": "00:01:00"},
            },
        },
        {"name": "biology", "groups": ["iam:biology"], "limits": {"gpus": 1}},
    ],
    "partitions": [{"name": "gpu", "accounts": ["physics"]}],
}
SMALL = {"cpu": "100m", "memory": "32Mi"}


def member(site: Site, user: str) -> User:
    """A user with a token of the IAM, at a host where users log in.

    Not the names that other rights of the site are for.
    """
    return site.as_user(f"member-{user}", GROUPS[user])


def without(*names: str, **changes: Any) -> dict[str, Any]:
    """The policy without some accounts; changes are of all others."""
    policy = copy.deepcopy(POLICY)
    policy["accounts"] = [{**account, **changes} for account in policy["accounts"] if account["name"] not in names]
    return policy


def bring(site: Site, policy: dict[str, Any], *arguments: str, succeeds: bool = True, **variables: Any) -> str:
    """Apply a policy alone, as the documentation says."""
    given = {"kubernetes_cluster_policy": policy, **variables}
    return site.playbook(PLAYBOOK, "--tags", "kubernetes_cluster", *arguments, variables=given, succeeds=succeeds)


def words(said: str) -> str:
    return " ".join(said.split())


def as_user(
    site: Site, user: str, command: str, given: dict[str, Any] | None = None, succeeds: bool = True, namespace: str = "physics"
) -> str:
    return member(site, user).kubectl(f"--namespace={namespace} {command}", given, succeeds)


def pod(name: str, program: str = "sleep 600", gpus: int = 0, **spec: Any) -> Pod:
    limits = {**SMALL, **({"nvidia.com/gpu": gpus} if gpus else {})}
    container = {
        "name": "c",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", program],
        "resources": {"limits": limits},
    }
    spec_of_pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    if not gpus:
        # There are nodes with GPUs only, which keep other pods away.
        spec_of_pod.setdefault("tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec_of_pod}


def job(name: str, program: str = "sleep 600", gpus: int = 0, around: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": pod(name, program, gpus, **spec)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, **(around or {}), "template": template},
    }


def phase(site: Site, name: str, wanted: str, namespace: str = "physics", seconds: float = 90) -> None:
    site.until("cp1", f"{KUBECTL} get pod {name} -n {namespace} -o jsonpath={{.status.phase}}", wanted, seconds)


def said_of(site: Site, user: str, name: str, path: str, pattern: str, seconds: float = 60) -> str:
    """What a user reads somewhere in an object, as soon as it says so."""
    deadline = time.monotonic() + seconds
    while True:
        said = as_user(site, user, f"get {name} -o {shlex.quote(f'jsonpath={path}')}")
        if re.search(pattern, said) or time.monotonic() > deadline:
            return said
        time.sleep(1)


WAITS = '{.status.conditions[?(@.type=="PodScheduled")].message}'
EVENTS = '{.items[?(@.reason=="FailedCreate")].message}'


def clean(site: Site, *spaces: str) -> None:
    for space in spaces:
        site.kubectl(f"delete jobs,cronjobs,deployments,pods --all --now --namespace={space}")


def gone(site: Site) -> None:
    """Leave no trace of a policy."""
    site.kubectl("delete namespace naive taken --ignore-not-found --wait=false")
    forget_policy(site)


@pytest.fixture(scope="module")
def accounts(site: Site) -> Iterator[str]:
    """The policy is there; what the run said."""
    said = bring(site, POLICY)
    site.kubectl("create namespace naive")
    site.kubectl("create rolebinding naive --namespace=naive --clusterrole=edit --group=iam:naive")
    yield words(said)
    gone(site)


@pytest.fixture
def empty(site: Site, accounts: str) -> Iterator[str]:
    yield accounts
    clean(site, "physics", "biology")


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


# What a user can't do


@pytest.mark.parametrize("kind", CLASSES)
def test_attacks(site: Site, empty: str, kind: str, tmp_path: Path, record_property: Any):
    """Each is refused in an account's namespace; in one without the policy it comes through, so it is an attack."""
    mine = attempts(kind, "physics", "biology", "ada")
    plain = {one.id: one for one in attempts(kind, "naive", "biology", "naive")}
    sent = [one.request for one in mine] + [{**one.request, "id": f"naive {one.id}"} for one in plain.values()]
    given = {"users": {user: {"Authorization": f"Bearer {member(site, user).token}"} for user in ("ada", "naive")}, "attempts": sent}
    # By files, as the attempts of a class are longer than a command may be.
    (tmp_path / "attempts.json").write_text(json.dumps(given), encoding="utf-8")
    for path in (ATTACKS / "attempts.py", tmp_path / "attempts.json"):
        subprocess.run(["docker", "cp", "-q", str(path), f"{site.label}-cp1:/root/{path.name}"], check=True)
    answers = json.loads(site.out("cp1", "python3 /root/attempts.py /etc/kubernetes/admin.conf < /root/attempts.json"))
    refused, passes = ([one for one in mine if one.expect == what] for what in ("refused", "passes"))
    assert [(one.id, answers[one.id]) for one in refused if one.is_let_in(answers[one.id])] == []
    assert [(one.id, answers[one.id]) for one in passes if not one.is_let_in(answers[one.id])] == []
    assert [(one.id, answers[one.id]) for one in refused if one.says not in answers[one.id]["said"]] == []
    harmless = [one.id for one in refused if plain[one.id].is_let_in(answers[f"naive {one.id}"]) != one.naive]
    assert harmless == []
    assert len(passes) >= 2
    record_property("attacks", f"{kind}: {len(refused)} attacks, 0 let in; {len(passes)} must pass, 0 turned away")


def test_there_are_enough_attacks():
    assert sum(one.expect == "refused" for kind in CLASSES for one in attempts(kind, "a", "b", "ada")) >= 200


def test_a_pod_can_not_be_changed_into_what_it_may_not_be(site: Site, empty: str):
    """Some fields of a pod can be changed later, and those of what makes pods all."""
    as_user(site, "ada", "create -f -", pod("waits", schedulingGates=[{"name": "example.org/gate"}]))

    def patch(change: dict[str, Any], succeeds: bool) -> str:
        return as_user(site, "ada", f"patch pod waits --type=merge -p {shlex.quote(json.dumps({'spec': change}))}", succeeds=succeeds)

    tolerations = site.get("pod waits -n physics")["spec"]["tolerations"]
    assert "This toleration is not allowed" in patch({"tolerations": [*tolerations, {"operator": "Exists"}]}, False)
    assert "by their role" in patch({"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}, False)
    patch({"activeDeadlineSeconds": 30}, True)
    patch({"nodeSelector": {"kubernetes.io/hostname": "gpu1"}}, True)
    service = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": pod("a")["spec"]["containers"]}}
    as_user(
        site,
        "ada",
        "create -f -",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {**service, "template": template}},
    )
    for change, says in (
        ({"replicas": 41}, "CPUs"),
        ({"template": {"spec": {"hostNetwork": True}}}, "hostNetwork"),
        ({"template": {"spec": {"nodeName": "cp1"}}}, "nodeName"),
    ):
        said = as_user(site, "ada", f"patch deployment a --type=merge -p {shlex.quote(json.dumps({'spec': change}))}", succeeds=False)
        assert says in said
    assert "forbidden" in as_user(site, "ada", "scale deployment a --replicas=2", succeeds=False)


def test_no_container_can_send_raw_packets(site: Site, empty: str):
    """By these a pod answered for the address of another pod on its node, and received its traffic."""
    program = "grep -h CapBnd /proc/self/status; arping -c 1 -I eth0 10.244.0.1; ping -c 1 127.0.0.1; sleep 600"
    given = pod("mine", program, initContainers=[])
    container = given["spec"]["containers"][0]
    given["spec"]["initContainers"] = [{**container, "name": "side", "restartPolicy": "Always", "securityContext": {"capabilities": {}}}]
    sets = (
        {},
        {"runAsUser": 0},
        {"capabilities": {"add": ["CHOWN"]}},
        {"capabilities": {"drop": ["CHOWN"]}},
        {"capabilities": {"drop": ["ALL"]}},
    )
    given["spec"]["containers"] = [{**container, "name": f"c{number}", "securityContext": one} for number, one in enumerate(sets)]
    as_user(site, "ada", "create -f -", given)
    phase(site, "mine", "Running")
    for name in ("side", *(f"c{number}" for number in range(len(sets)))):
        said = as_user(site, "ada", f"logs mine -c {name}")
        assert int(re.search(r"CapBnd:\s*(\w+)", said).group(1), 16) & 1 << 13 == 0, said
        assert "arping: socket: Operation not permitted" in said and "ping: permission denied" in said, said
    there = site.get("pod mine -n physics")["spec"]
    drops = [one["securityContext"]["capabilities"].get("drop") for one in there["containers"]]
    assert drops == [["NET_RAW"]] * 3 + [["CHOWN", "NET_RAW"], ["ALL"]]
    assert there["containers"][2]["securityContext"]["capabilities"]["add"] == ["CHOWN"]
    assert there["initContainers"][0]["securityContext"]["capabilities"] == {"drop": ["NET_RAW"]}
    many = pod("many", schedulingGates=[{"name": "example.org/gate"}])
    many["spec"]["initContainers"] = [{**many["spec"]["containers"][0], "name": f"i{number}"} for number in range(40)]
    as_user(site, "ada", "create -f -", many)
    for one in site.get("pod many -n physics")["spec"]["initContainers"]:
        assert one["securityContext"]["capabilities"]["drop"] == ["NET_RAW"], one["name"]


def test_a_container_for_debugging_sends_no_raw_packets_either(site: Site, empty: str):
    """A site may let an account's users have them, by a role of its own."""
    as_user(site, "ada", "create -f -", pod("mine"))
    phase(site, "mine", "Running")
    site.kubectl("create role debug -n physics --verb=patch,update,get --resource=pods/ephemeralcontainers")
    site.kubectl("create rolebinding debug -n physics --role=debug --group=iam:physics")
    try:
        for drop, succeeds in (({}, False), ({"securityContext": {"capabilities": {"drop": ["NET_RAW"]}}}, True)):
            more = {"name": "look", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["true"], **drop}
            change = shlex.quote(json.dumps({"spec": {"ephemeralContainers": [more]}}))
            said = as_user(site, "ada", f"patch pod mine --subresource=ephemeralcontainers -p {change}", succeeds=succeeds)
            assert succeeds or "drop: [NET_RAW]} in a container for debugging" in said
    finally:
        site.kubectl("delete role,rolebinding debug -n physics")


def test_a_pod_can_not_be_left_to_end_for_ever(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine"))
    phase(site, "mine", "Running")
    said = as_user(site, "ada", "delete pod mine --wait=false --grace-period=2000000000", succeeds=False)
    assert "A pod may take at most 3600 seconds to end" in said
    said = as_user(site, "ada", "delete pods --all --wait=false --grace-period=2000000000", succeeds=False)
    assert "A pod may take at most 3600 seconds to end" in said
    assert "deletionTimestamp" not in site.get("pod mine -n physics")["metadata"]
    as_user(site, "ada", "delete pod mine --grace-period=1")


def test_objects_end_at_the_quota_of_the_account(site: Site, empty: str):
    quota = site.get("resourcequota account -n physics")["status"]
    assert quota["hard"]["configmaps"] == "100"
    there = int(quota["used"]["configmaps"])
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"many{number}"}} for number in range(101 - there)]
    try:
        said = as_user(site, "ada", "create -f -", {"apiVersion": "v1", "kind": "List", "items": items}, succeeds=False)
        assert "exceeded quota: account, requested: configmaps=1, used: configmaps=100, limited: configmaps=100" in said
    finally:
        site.kubectl("delete configmaps -n physics " + " ".join(one["metadata"]["name"] for one in items[:-1]))


def test_a_debug_container_and_the_nodes_are_out_of_reach(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine", gpus=1))
    phase(site, "mine", "Running")
    assert "forbidden" in as_user(site, "ada", f"debug mine --image={BUSYBOX} --profile=sysadmin -- true", succeeds=False)
    assert "forbidden" in as_user(site, "ada", f"debug node/gpu1 --image={BUSYBOX} -- true", succeeds=False)
    assert "forbidden" in as_user(site, "ada", "create token default", succeeds=False)


# What changes


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
