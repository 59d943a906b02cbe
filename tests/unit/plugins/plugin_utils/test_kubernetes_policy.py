# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy for Kubernetes: what is refused, what it becomes, what is reported, and what a cluster that has one gets."""

from __future__ import annotations

import copy
import json
import re
import time

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import (
    manager,
    policy,
    policy_changes,
    policy_objects,
    policy_rules,
    policy_settings,
    settings,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.policy import Limits
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import host, hosts, site

# As docs/slurm_policy.md has it.
OF_SLURM = yaml.safe_load("""
qos:
  - {name: long, priority: 10, limits: {per_job: {wall: "7-00:00:00"}, per_user: {gpus: 2}}}
  - {name: spare, usage_factor: 0.5}
accounts:
  - name: science
    description: All of science
    fairshare: 10
    qos: [normal, long]
    limits: {gpu_minutes: 600000}
    coordinators: [emmy]
  - name: physics
    parent: science
    limits:
      gpus: 16
      per_user: {gpus: {a100: 2, any: 4}}
    users:
      - ada
      - {name: emmy, fairshare: 5, limits: {gpus: 8}}
  - name: teaching
    limits: {per_user: {gpus: 1, jobs: 2, per_job: {wall: "02:00:00"}}}
    users: [carl, {name: ada, default: true}]
partitions:
  - {name: a100, accounts: [science]}
""")
IAM = {"name": "iam", "url": "https://iam.example.org", "audiences": ["kubernetes"]}
CLUSTER = policy_objects.Cluster({"nvidia.com/gpu": ["a100", "t4"]})


def read(*accounts, **more):
    given = {"accounts": [{"name": "a", **account} if isinstance(account, dict) else {"name": account} for account in accounts], **more}
    assert policy.errors("p", given) == []
    return policy.read(given)


def objects(given, cluster=CLUSTER):
    return policy_objects.objects(policy.read(given), cluster)


def of_kind(result, kind, space=None):
    return [one for one in result if one["kind"] == kind and space in (None, one["metadata"].get("namespace"))]


def hard(limits, cluster=CLUSTER):
    return policy_objects.quota(read({"limits": limits}).accounts[0], cluster)


# What is refused


def test_the_policy_of_slurm_is_taken_as_it_is():
    assert slurm_policy.policy_errors("p", OF_SLURM) == []
    assert policy.errors("p", OF_SLURM) == []


def test_all_keys_of_slurm_are_known():
    for ours, theirs in (
        (policy.KEYS, slurm_policy.KEYS),
        (policy.ACCOUNT_KEYS, [*slurm_policy.ACCOUNT_KEYS, *policy.ADDITION_KEYS]),
        (policy.USER_KEYS, slurm_policy.USER_KEYS),
        (policy.QOS_KEYS, slurm_policy.QOS_KEYS),
        (policy.PARTITION_KEYS, slurm_policy.PARTITION_KEYS),
    ):
        assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "p is a list: write a dictionary with the keys accounts, qos, partitions."),
        ({"account": []}, "p has the unknown key 'account' (did you mean accounts?)."),
        ({"accounts": {}}, "p: accounts is no list of dictionaries: write one, each with a name."),
        ({"accounts": [{"name": "a b"}]}, "p has 'a b' as the name of an account: write letters, digits and '_.@-'."),
        ({"accounts": [{"name": "a"}, {"name": "A"}]}, "p names a as an account more than once: leave one of them."),
        ({"accounts": [{"name": "a", "user": []}]}, "p: account a has the unknown key 'user' (did you mean users?)."),
        (
            {"accounts": [{"name": "a", "parent": "b"}]},
            "p: account a has the parent 'b', which is not in accounts: add it, or correct the name.",
        ),
        (
            {"accounts": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
            "p: accounts are their own parents: a below b below a. Give one of them another parent.",
        ),
        ({"accounts": [{"name": "root"}]}, "p: the account root is above all others: leave it out, or give yours another name."),
        (
            {"accounts": [{"name": "kube-system"}]},
            "p: account kube-system has the namespace kube-system, which is the cluster's own: give it another one by the key namespace.",
        ),
        (
            {"accounts": [{"name": "a", "namespace": "A_b"}]},
            "p: account a has the namespace 'A_b': write small letters, digits and '-' in the key namespace, at most 63.",
        ),
        (
            {"accounts": [{"name": "a.b"}, {"name": "a_b"}]},
            "p: account a_b has the namespace a-b of account a.b: give it another one by the key namespace.",
        ),
        (
            {"accounts": [{"name": "a", "groups": ["system:authenticated"]}]},
            "p: account a has the group system:authenticated, which is Kubernetes' own: write a group of the site.",
        ),
        (
            {"accounts": [{"name": "a", "groups": ["kubeadm:cluster-admins"]}]},
            "p: account a has the group kubeadm:cluster-admins, which is Kubernetes' own: write a group of the site.",
        ),
        ({"accounts": [{"name": "a", "groups": "b"}]}, "p: account a has 'b' as groups: write a list of names."),
        (
            {"accounts": [{"name": "a", "users": ["system:admin"]}]},
            "p: account a has the user system:admin, which is Kubernetes' own: write a user of the site.",
        ),
        ({"accounts": [{"name": "a", "users": ["b", "b"]}]}, "p: account a: user b stands there more than once: leave one of them."),
        (
            {"accounts": [{"name": "a", "qos": ["fast"]}]},
            "p: account a has the QOS fast, which is not declared in qos: declare it there, or correct the name.",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"gpu": 1}}]},
            "p: account a: limits has the unknown key 'gpu' (did you mean gpus?).",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"gpus": "two"}}]},
            "p: account a has 'two' as gpus: write a whole number from 0 on without a unit, or unlimited.",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"gpus": {"a100": -1}}}]},
            "p: account a has -1 as gpus of type a100: write a whole number from 0 on, or unlimited.",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"memory": "64"}}]},
            "p: account a has the memory '64': write MiB as a number, or text such as '64G' (M, G or T).",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"per_job": {"wall": 43200}}}]},
            "p: account a: per_job has the wall time 43200: write a time of whole minutes in quotes, such as '12:00:00' or '2-00:00:00'.",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"per_job": {"wall": "00:00:00"}}}]},
            "p: account a: per_job has the wall time '00:00:00': write a time of whole minutes in quotes,"
            " such as '12:00:00' or '2-00:00:00'.",
        ),
        (
            {"accounts": [{"name": "a", "limits": {"per_user": {"per_job": {"walls": 1}}}}]},
            "p: account a: per_user: per_job has the unknown key 'walls' (did you mean wall?).",
        ),
        (
            {"qos": [{"name": "system-x"}]},
            "p: QOS system-x can't be a priority class of Kubernetes: name it with letters, digits and '-', at most 63, not system-.",
        ),
        ({"qos": [{"name": "a.b"}, {"name": "a-b"}]}, "p: QOS a-b and a.b are one priority class, a-b: rename one."),
        ({"qos": [{"name": "a", "priority": -1}]}, "p: QOS a has the priority -1: write a whole number from 0 on."),
    ],
)
def test_a_mistake_is_one_sentence(given, sentence):
    assert sentence in policy.errors("p", given)


def test_many_mistakes_are_counted():
    result = policy.errors("p", {"accounts": [{"name": f"a{number}", "limit": {}} for number in range(50)]})
    assert len(result) == 21 and result[-1] == "p has 30 more mistakes: correct these first."


# What it asks for


def test_an_account_has_what_is_above_it():
    accounts = {account.name: account for account in policy.read(OF_SLURM, "iam:").accounts}
    physics, teaching = accounts["physics"], accounts["teaching"]
    assert physics.qos == ("normal", "long") and teaching.qos == ("normal",)
    assert physics.users == ("iam:ada", "iam:emmy")
    assert physics.limits.gpus == 16
    assert teaching.per_job.wall == 7200
    assert accounts["science"].parent == "root"


@pytest.mark.parametrize(
    ("above", "below", "limits"),
    [
        ({"gpus": 2}, {"gpus": 4}, Limits(gpus=2)),
        ({"gpus": 4}, {"gpus": 2}, Limits(gpus=2)),
        ({"gpus": 0}, {}, Limits(gpus=0)),
        ({"gpus": "unlimited"}, {"gpus": 3}, Limits(gpus=3)),
        ({"gpus": {"a100": 1, "any": 4}}, {"gpus": {"a100": 2, "t4": 1}}, Limits(gpus=4, gpus_by_type={"a100": 1, "t4": 1})),
        ({"memory": "1T"}, {"memory": 512}, Limits(memory=512)),
        ({"cpus": 1, "jobs": 2, "submitted_jobs": 3}, {}, Limits(cpus=1, jobs=2, submitted_jobs=3)),
    ],
)
def test_the_smaller_limit_holds(above, below, limits):
    result = read({"name": "top", "limits": above}, {"name": "a", "parent": "top", "limits": below})
    assert result.accounts[1].limits == limits


@pytest.mark.parametrize(
    ("each", "users", "wall"),
    [
        ("02:00:00", [], 7200),
        ("02:00:00", ["x", {"name": "y", "limits": {"per_job": {"wall": "03:00:00"}}}], 10800),
        ("02:00:00", [{"name": "y", "limits": {"per_job": {"wall": "01:00:00"}}}], 7200),
        ("02:00:00", [{"name": "y", "limits": {"per_job": {"wall": "unlimited"}}}], None),
    ],
)
def test_what_holds_for_each_user_holds_for_all_alike(each, users, wall):
    """The user who may do most decides, as nothing sees who a pod is of."""
    result = read({"limits": {"per_user": {"per_job": {"wall": each}}}, "users": users})
    assert result.accounts[0].per_job.wall == wall


def test_the_qos_normal_exists_always():
    assert [entry.name for entry in read("a").qos] == ["normal"]
    result = read("a", qos=[{"name": "Normal", "priority": 5}])
    assert [(entry.name, entry.priority) for entry in result.qos] == [("normal", 5)]
    assert result.accounts[0].default_qos == "normal", "so that pods that name none have its priority"


# The objects


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, {}),
        ({"gpus": 2}, {"requests.nvidia.com/gpu": "2"}),
        ({"gpus": 0}, {"requests.nvidia.com/gpu": "0"}),
        ({"gpus": {"a100": 1, "any": 3}}, {"requests.nvidia.com/gpu": "3"}),
        ({"gpus": {"a100": 1, "t4": 1}}, {"requests.nvidia.com/gpu": "2"}),
        ({"gpus": {"a100": 1}}, {}),
        ({"cpus": 8}, {"requests.cpu": "8", "limits.cpu": "8"}),
        ({"memory": "64G"}, {"requests.memory": "64Gi", "limits.memory": "64Gi"}),
        ({"memory": 1536}, {"requests.memory": "1536Mi", "limits.memory": "1536Mi"}),
        ({"memory": "2048G"}, {"requests.memory": "2Ti", "limits.memory": "2Ti"}),
        ({"memory": 0}, {"requests.memory": "0", "limits.memory": "0"}),
        ({"jobs": 3, "submitted_jobs": 5}, {"pods": "3", "count/jobs.batch": "5"}),
    ],
)
def test_a_quota(limits, wanted):
    bare = CLUSTER._replace(objects={})
    assert hard(limits, bare) == {"services.nodeports": "0", "services.loadbalancers": "0", **wanted}


@pytest.mark.parametrize(
    "count, said", [(0, "0"), (7, "7"), (999, "999"), (1000, "1k"), (1500, "1500"), (10**6, "1M"), (5 * 10**15, "5P"), (10**18, "1000P")]
)
def test_numbers_are_written_as_the_api_server_keeps_them(count, said):
    """A quota of 5000 is 5k there: compared with 5000, it would differ in every run."""
    assert policy_objects.number(count) == said
    assert not any(re.fullmatch(r"[0-9]+000", value) for value in hard({"jobs": 1000, "cpus": 2000, "gpus": 3000}).values())


def test_objects_have_a_limit_by_default_and_the_policys_own_comes_before_it():
    """100 MB of ConfigMaps took 18 s, and etcd is full for all at 2 GiB."""
    usual = hard({"submitted_jobs": 7, "jobs": 3})
    assert (usual["configmaps"], usual["secrets"], usual["count/pods"]) == ("100", "100", "5k")
    assert (usual["count/jobs.batch"], usual["pods"]) == ("7", "3")
    many = {"jobs": 20000, "submitted_jobs": 50000}
    assert [hard(many)[name] for name in policy_objects.OF_JOBS] == ["50k", "50k"]
    assert hard(many, CLUSTER._replace(given=["count/pods"]))["count/pods"] == "5k"
    given = settings.settings_of({"policy": ONE, "policy_objects": {"configmaps": "250"}})
    (planned,) = of_kind(policy_settings.plan(given, {})["objects"], "ResourceQuota")
    assert planned["spec"]["hard"]["configmaps"] == "250" and planned["spec"]["hard"]["secrets"] == "100"


CLASSES = {"gpu.nvidia.com": ["a100", "t4"], "a100.gpu.nvidia.com": ["a100"]}


def test_device_classes_have_the_types_of_their_names():
    types = {"nvidia.com/gpu": ["a100", "rtx_a6000"], "nvidia.com/mig-1g.5gb": ["a100_1g.5gb"]}
    names = ["gpu.nvidia.com", "a100.gpu.nvidia.com", "rtx-a6000.gpu.nvidia.com", "mig-1g.5gb.gpu.nvidia.com", "a100-1g.5gb.gpu.nvidia.com"]
    assert policy_settings.classes_of(names, types) == {
        "gpu.nvidia.com": ["a100", "a100_1g.5gb", "rtx_a6000"],
        "a100.gpu.nvidia.com": ["a100"],
        "rtx-a6000.gpu.nvidia.com": ["rtx_a6000"],
        "mig-1g.5gb.gpu.nvidia.com": ["a100_1g.5gb"],
        "a100-1g.5gb.gpu.nvidia.com": ["a100_1g.5gb"],
    }


def test_classes_of_types_are_counted_apart():
    given = {"accounts": [{"name": "a", "limits": {"gpus": 2}}]}
    assert reported(given, CLUSTER._replace(device_classes={"gpu.nvidia.com": ["a100", "t4"]})) == []
    assert "their sum has none" in reported(given, CLUSTER._replace(device_classes=CLASSES))[0]


def test_a_quota_of_instances_and_of_devices():
    """A size of MIG instances is its own resource, so that a type limit can be held; devices of DRA count as GPUs."""
    cluster = policy_objects.Cluster({"nvidia.com/gpu": ["a100"], "nvidia.com/mig-1g.5gb": ["a100_1g.5gb"]}, CLASSES)
    result = hard({"gpus": {"a100": 1, "a100_1g.5gb": 4, "any": 3}}, cluster)
    assert result["requests.nvidia.com/gpu"] == "1"
    assert result["gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] == "3"
    assert result["a100.gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] == "1"
    assert result["requests.nvidia.com/mig-1g.5gb"] == "3"


@pytest.mark.parametrize(
    ("limits", "asked", "bound"),
    [
        ({}, {"cpu": "1", "memory": "1Gi"}, None),
        ({"cpus": 4}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "1"}),
        ({"memory": 512}, {"cpu": "1", "memory": "512Mi"}, {"memory": "512Mi"}),
        ({"per_job": {"memory": "4G"}}, {"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}),
    ],
)
def test_what_a_container_gets_that_names_nothing(limits, asked, bound):
    """A quota of what may be used refuses containers without a limit, so they get one where there is a quota."""
    result = policy_objects.container_defaults(read({"limits": limits}).accounts[0], CLUSTER)
    assert result["defaultRequest"] == asked and result.get("default") == bound
    # A maximum of an extended resource would be the default of containers that ask for none.
    assert "max" not in result


def test_a_namespace_has_the_limits_of_a_job_as_annotations():
    account = {
        "name": "Phys_1",
        "qos": ["normal", "long"],
        "default_qos": "long",
        "description": "x",
        "limits": {"per_job": {"gpus": 2, "wall": "01:00:00"}},
    }
    result = of_kind(objects({"accounts": [account], "qos": [{"name": "long"}]}, CLUSTER._replace(security="restricted")), "Namespace")[0]
    domain = "accelerators.deephdc.org"
    assert result["metadata"]["name"] == "phys-1"
    assert result["metadata"]["annotations"] == {
        f"{domain}/account": "phys_1",
        f"{domain}/qos": "normal,long",
        f"{domain}/default-qos": "long",
        f"{domain}/per-job-gpus": "2",
        f"{domain}/per-job-wall": "3600",
        "kubernetes.io/description": "x",
    }
    labels = result["metadata"]["labels"]
    assert labels[policy_rules.ACCOUNT] == "phys-1" and labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_binding_names_groups_and_users():
    result = of_kind(objects({"accounts": [{"name": "a", "groups": ["iam:/g"], "users": ["ada"]}]}), "RoleBinding")[0]
    assert [(one["kind"], one["name"]) for one in result["subjects"]] == [("Group", "iam:/g"), ("User", "ada")]
    assert result["roleRef"]["name"] == policy_objects.USER_ROLE


def test_users_get_no_right_that_goes_around_the_rules():
    rules = of_kind(objects({"accounts": [{"name": "a"}]}), "ClusterRole")[0]["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    for way in ("pods/binding", "pods/ephemeralcontainers", "pods/proxy", "deployments/scale", "serviceaccounts/token", "daemonsets", "*"):
        assert way not in resources
    for rule in rules:
        if not {"resourcequotas", "limitranges", "serviceaccounts", "replicasets"}.isdisjoint(rule["resources"]):
            assert set(rule["verbs"]) == {"get", "list", "watch"}


def test_a_priority_class_never_ends_a_pod():
    result = of_kind(objects({"qos": [{"name": "Fast.1", "priority": 2 * 10**9}]}), "PriorityClass")
    assert [(one["metadata"]["name"], one["value"], one["preemptionPolicy"]) for one in result] == [
        ("fast-1", 10**9, "Never"),
        ("normal", 0, "Never"),
    ]


def test_rules_hold_in_namespaces_of_accounts_alone_and_fail_closed():
    result = objects({"accounts": [{"name": "a"}]})
    policies = of_kind(result, "ValidatingAdmissionPolicy") + of_kind(result, "MutatingAdmissionPolicy")
    bindings = of_kind(result, "ValidatingAdmissionPolicyBinding") + of_kind(result, "MutatingAdmissionPolicyBinding")
    assert len(policies) == len(bindings) == 6
    assert {one["spec"]["failurePolicy"] for one in policies} == {"Fail"}
    for one in bindings:
        assert one["spec"]["matchResources"]["namespaceSelector"] == {
            "matchExpressions": [{"key": policy_rules.ACCOUNT, "operator": "Exists"}]
        }


def test_the_rules_have_the_limits_of_a_qos_and_the_sites_tolerations():
    given = {"qos": [{"name": "long", "limits": {"per_job": {"wall": "01:00:00"}}}]}
    result = json.dumps(of_kind(objects(given, CLUSTER._replace(tolerations=["example.org/batch"])), "ValidatingAdmissionPolicy"))
    assert '{\\"long\\": 3600.0}[variables.qos]' in result and "example.org/batch" in result


def test_who_may_submit_comes_last():
    kinds = [one["kind"] for one in objects(OF_SLURM)]
    assert kinds[-3:] == ["RoleBinding"] * 3 and "RoleBinding" not in kinds[:-3]
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("Namespace") < kinds.index("ResourceQuota")


# What is reported


def reported(given, cluster=CLUSTER, elsewhere=()):
    return policy_objects.unenforced(given, policy.read(given), cluster, elsewhere)


def test_what_nothing_enforces_is_named():
    result = [sentence.split(" is not enforced by Kubernetes: ")[0] for sentence in reported(OF_SLURM)]
    assert result == [
        "partitions of a100",
        "fairshare of account science",
        "coordinators of account science",
        "limits.gpu_minutes of account science",
        "limits.per_user of account physics, account teaching",
        "fairshare of user emmy in physics",
        "limits of user emmy in physics",
        "default of user ada in teaching",
        "limits.per_user of QOS long",
        "usage_factor of QOS spare",
    ]


@pytest.mark.parametrize(
    ("account", "sentence"),
    [
        ({"limits": {"gpus": {"a100": 1}}}, "limits.gpus of account a"),
        ({"limits": {"nodes": 1}}, "limits.nodes of account a"),
        ({"limits": {"per_job": {"nodes": 1}}}, "limits.per_job.nodes of account a"),
        ({"limits": {"per_job": {"gpus": {"a100": 1}}}}, "limits.per_job.gpus of account a"),
        ({"limits": {"per_user": {"per_job": {"cpu_minutes": 1}}}}, "limits.per_job.cpu_minutes of account a"),
        ({"users_from": "iam_accounts"}, "users_from of account a"),
        ({"organization": "x"}, "organization of account a"),
        ({"users": [{"name": "u", "qos": ["normal"]}]}, "qos of user u in a"),
    ],
)
def test_each_of_these_is_named(account, sentence):
    result = reported({"accounts": [{"name": "a", **account}]})
    assert len(result) == 1 and result[0].startswith(f"{sentence} is not enforced by Kubernetes: ")


@pytest.mark.parametrize("key", ["flags", "preempt", "usage_factor"])
def test_keys_of_a_qos_are_named(key):
    value = {"flags": ["NoDecay"], "preempt": ["normal"], "usage_factor": 2}[key]
    assert reported({"qos": [{"name": "q", key: value}]})[0].startswith(f"{key} of QOS q is not enforced")


def test_what_is_held_is_not_reported():
    account = {
        "name": "a",
        "groups": ["g"],
        "users": ["u"],
        "qos": ["normal"],
        "default_qos": "normal",
        "namespace": "b",
        "description": "x",
    }
    limits = {
        "gpus": 1,
        "cpus": 1,
        "memory": 1,
        "jobs": 1,
        "submitted_jobs": 1,
        "per_job": {"gpus": 1, "cpus": 1, "memory": 1, "wall": "00:01:00"},
    }
    assert (
        reported({"accounts": [{**account, "limits": limits}], "qos": [{"name": "q", "priority": 1, "limits": {"per_job": {"gpus": 1}}}]})
        == []
    )


def test_a_type_that_is_a_resource_of_its_own_is_held():
    given = {"accounts": [{"name": "a", "limits": {"gpus": {"a100": 1}}}]}
    assert reported(given, policy_objects.Cluster({"nvidia.com/gpu": ["a100"]})) == []
    assert len(reported(given)) == 1
    assert reported(given, elsewhere=("gpus by type",)) == []


def test_what_a_sum_does_not_hold_is_named():
    parent = {"accounts": [{"name": "top", "limits": {"cpus": 4}}, {"name": "a", "parent": "top"}]}
    assert reported(parent)[0].startswith("limits.cpus of account top is not enforced by Kubernetes: each namespace below it")
    several = policy_objects.Cluster({"nvidia.com/gpu": ["a100"], "nvidia.com/mig-1g.5gb": ["a100_1g.5gb"]})
    assert reported({"accounts": [{"name": "a", "limits": {"gpus": 2}}]}, several)[0].startswith("limits.gpus of account a")


def test_many_names_are_counted():
    result = reported({"accounts": [{"name": f"a{number}", "fairshare": 1} for number in range(12)]})
    assert len(result) == 1 and "account a9 and 2 more is not enforced" in result[0]


# What a cluster gets


def as_present(result):
    """Objects as the API server has them."""
    present = copy.deepcopy(result)
    for one in present:
        one["metadata"].update({"uid": "1", "resourceVersion": "2"})
        if one["kind"] == "Namespace":
            one["metadata"]["labels"]["kubernetes.io/metadata.name"] = one["metadata"]["name"]
            one.update({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
        if one["kind"] == "RoleBinding" and not one["subjects"]:
            del one["subjects"]
    return present


def changed(given, present, **more):
    return policy_changes.changes(present, objects(given), **more)


TWO = {"accounts": [{"name": "a", "groups": ["g"], "limits": {"gpus": 2, "cpus": 4, "per_job": {"gpus": 1}}}, {"name": "b"}]}
ONE = {"accounts": TWO["accounts"][:1]}


def test_an_empty_cluster_gets_all_and_a_right_one_nothing():
    result = changed(TWO, [])
    assert result["apply"] == objects(TWO) and len(result["differences"]) == len(result["apply"])
    result = changed(TWO, as_present(objects(TWO)))
    assert {key: value for key, value in result.items() if value} == {}


def test_a_difference_is_a_merge_patch_that_takes_away_too():
    given = {"accounts": [{"name": "a", "groups": ["g"], "limits": {"gpus": 1}}, {"name": "b"}]}
    result = changed(given, as_present(objects(TWO)))
    patches = {one["kind"]: one for one in result["apply"]}
    assert set(patches) == {"Namespace", "ResourceQuota", "LimitRange"}
    assert patches["ResourceQuota"]["spec"] == {"hard": {"requests.nvidia.com/gpu": "1", "requests.cpu": None, "limits.cpu": None}}
    assert patches["Namespace"]["metadata"]["annotations"] == {"accelerators.deephdc.org/per-job-gpus": None}
    assert 'ResourceQuota a/account: spec.hard.requests.nvidia.com/gpu: "2" -> "1"' in result["differences"]


def test_labels_and_annotations_of_others_stay():
    present = as_present(objects(TWO))
    for one in of_kind(present, "Namespace"):
        one["metadata"]["labels"]["site.example.org/x"] = "1"
        one["metadata"]["annotations"]["accelerators.deephdc.org/of-a-queue"] = "1"
    assert changed(TWO, present)["apply"] == []


def test_an_account_that_leaves_loses_its_binding_and_gets_nothing_new():
    present = as_present(objects(TWO))
    other = {
        **copy.deepcopy(of_kind(present, "RoleBinding", "b")[0]),
        "metadata": {"name": "more", "namespace": "b", "labels": {"app.kubernetes.io/managed-by": "deephdc.accelerators"}},
    }
    foreign = {**copy.deepcopy(other), "metadata": {"name": "foreign", "namespace": "b"}}
    result = changed(ONE, [*present, other, foreign])
    assert [policy_changes.key_of(one) for one in result["remove"]] == [("RoleBinding", "b", "account"), ("RoleBinding", "b", "more")]
    assert [policy_changes.key_of(one) for one in result["apply"]] == [("ResourceQuota", "b", "account")]
    assert result["apply"][0]["spec"]["hard"]["pods"] == "0" and result["apply"][0]["spec"]["hard"]["count/jobs.batch"] == "0"
    assert result["leaving"] == ["b"]
    assert result["left"] == [
        "Namespace b of account b, which the policy does not name: kubernetes_cluster_policy_purge is not set."
        " Nothing new can be submitted in it."
    ]
    # Once that is so, nothing must be done.
    settled = [one for one in present if policy_changes.key_of(one)[:2] not in (("RoleBinding", "b"), ("ResourceQuota", "b"))]
    again = changed(ONE, [*settled, policy_objects.empty_quota("b")])
    assert again["apply"] == again["remove"] == [] and again["left"] == result["left"]


def test_a_purge_removes_a_namespace_without_pods():
    present = as_present(objects(TWO))
    result = changed(ONE, present, purge=True)
    assert [policy_changes.key_of(one) for one in result["remove"]] == [("Namespace", "", "b")]
    assert result["left"] == result["apply"] == []
    busy = changed(ONE, present, purge=True, busy={"b"})
    assert [policy_changes.key_of(one) for one in busy["remove"]] == [("RoleBinding", "b", "account")]
    assert "pods or Jobs wait or run in it" in busy["left"][0]


def test_who_is_taken_out_of_an_account_is_out_of_the_binding():
    given = copy.deepcopy(TWO)
    given["accounts"][0]["groups"] = []
    result = changed(given, as_present(objects(TWO)))
    assert [(one["kind"], one["subjects"]) for one in result["apply"]] == [("RoleBinding", [])]


def test_a_class_whose_value_changes_is_made_again():
    """The API server lets it never change."""
    before, after = ({"qos": [{"name": "q", "priority": number}]} for number in (1, 2))
    result = changed(after, as_present(objects(before)))
    assert [one["metadata"]["name"] for one in result["remove"]] == ["q"]
    assert result["apply"][0]["value"] == 2 and result["apply"][0]["metadata"]["labels"] == policy_rules.PART


def test_a_class_that_the_policy_does_not_name_is_reported_or_purged():
    present = as_present(objects({"qos": [{"name": "q", "priority": 1}], **ONE}))
    assert changed(ONE, present)["left"] == ["PriorityClass q, which the policy does not name: kubernetes_cluster_policy_purge is not set."]
    assert [one["metadata"]["name"] for one in changed(ONE, present, purge=True)["remove"]] == ["q"]


@pytest.mark.parametrize(("kind", "name"), [("Namespace", "a"), ("PriorityClass", "normal")])
def test_what_others_have_is_a_conflict(kind, name):
    present = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "deephdc.accelerators"}}}
    ]
    result = changed(ONE, present)
    assert len(result["conflicts"]) == 1
    assert f"{kind} {name} is there already, and not of the policy: " in result["conflicts"][0]
    assert f"kubectl label {kind.lower()} {name} app.kubernetes.io/managed-by=deephdc.accelerators" in result["conflicts"][0]


def test_a_namespace_that_goes_is_waited_for():
    present = as_present(objects(ONE))
    of_kind(present, "Namespace")[0]["metadata"]["deletionTimestamp"] = "now"
    assert changed(ONE, present)["conflicts"] == ["Namespace a is being removed: wait until it is gone, then run again."]


def answers(result, pods=()):
    return [json.dumps({"items": result}), json.dumps({"items": [{"kind": "Pod", "metadata": {"namespace": space}} for space in pods]})]


def test_without_a_policy_nothing_is_taken_away():
    result = policy_changes.of_answers(answers(as_present(objects(TWO))), policy_settings.nothing())
    assert result["left"] == ["The namespaces a, b are of a policy, but there is none now: they stay as they are."]
    assert result["apply"] == result["remove"] == []
    explicit = policy_changes.of_answers(
        answers(as_present(objects(TWO))), {"managed": True, "objects": objects({"accounts": []}), "purge": False}
    )
    assert explicit["leaving"] == ["a", "b"]


def test_pods_of_the_answers_keep_a_namespace():
    planned = {"managed": True, "objects": objects(ONE), "purge": True}
    present = as_present(objects(TWO))
    assert policy_changes.of_answers(answers(present, ["b"]), planned)["left"] != []
    assert policy_changes.of_answers(answers(present, ["a"]), planned)["left"] == []


@pytest.mark.parametrize(
    ("job", "is_left"),
    [
        ({"spec": {"suspend": True}, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, True),
        ({}, True),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, False),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, False),
        ({"metadata": {"namespace": "b", "ownerReferences": [{"kind": "CronJob"}]}}, False),
    ],
)
def test_a_job_without_a_pod_keeps_a_namespace_until_it_has_ended(job, is_left):
    planned = {"managed": True, "objects": objects(ONE), "purge": True}
    jobs = json.dumps({"items": [{"kind": "Job", "metadata": {"namespace": "b"}, **job}]})
    result = policy_changes.of_answers([*answers(as_present(objects(TWO))), jobs], planned)
    assert bool(result["left"]) == is_left and ("Namespace", "", "b") not in [policy_changes.key_of(one) for one in result["apply"]]


# The variables


def findings(**given):
    return [str(one) for one in policy_settings.errors(settings.settings_of(given))]


def test_a_policy_in_a_file(tmp_path):
    path = tmp_path / "policy.yml"
    path.write_text("accounts: [{name: a, groups: [g]}]\n", encoding="utf-8")
    assert findings(policy_file=str(path)) == []
    assert policy_settings.read(settings.settings_of({"policy_file": str(path)})).accounts[0].groups == ("g",)
    assert "are both set: keep the policy in one place." in findings(policy_file=str(path), policy=ONE)[0]
    path.write_text("accounts:\n  - name: a\n    name: b\n", encoding="utf-8")
    assert findings(policy_file=str(path)) == [
        f"{path}, line 3: the key name stands there twice: correct the file named by kubernetes_cluster_policy_file."
    ]
    path.write_text("accounts: [{name: a, user: []}]\n", encoding="utf-8")
    assert findings(policy_file=str(path)) == [f"{path}: account a has the unknown key 'user' (did you mean users?)."]
    path.write_text("[" * 60, encoding="utf-8")
    assert "nested too deep" in findings(policy_file=str(path))[0]
    path.write_bytes(b"\xff")
    assert "it is no UTF-8 text" in findings(policy_file=str(path))[0]
    assert "can't be read (No such file or directory)" in findings(policy_file=f"{path}x")[0]
    assert "write an absolute path" in findings(policy_file="policy.yml")[0]


def test_additions_are_for_a_policy_that_slurm_reads_too():
    given = {
        "policy": OF_SLURM,
        "policy_accounts": {"physics": {"namespace": "phys", "groups": ["iam:/physics"]}},
        "policy_user_prefix": "iam:",
    }
    assert findings(**given) == []
    physics = next(one for one in policy_settings.read(settings.settings_of(given)).accounts if one.name == "physics")
    assert (physics.namespace, physics.groups, physics.users) == ("phys", ("iam:/physics",), ("iam:ada", "iam:emmy"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"policy_accounts": {"b": {}}},
            "kubernetes_cluster_policy_accounts has the account b, which is not in the policy: correct the name, or add it there.",
        ),
        (
            {"policy_accounts": {"a": {"group": []}}},
            "kubernetes_cluster_policy_accounts: account a has the unknown key 'group' (did you mean groups?).",
        ),
        (
            {"policy_accounts": []},
            "kubernetes_cluster_policy_accounts is no dictionary of dictionaries: write one such as {physics: {groups: ['iam:/physics']}}.",
        ),
        (
            {"policy_user_prefix": "system:"},
            "kubernetes_cluster_policy_user_prefix is 'system:': write what the API server puts before names of users, such as 'iam:'.",
        ),
        (
            {"policy_objects": {"configmap": 1}},
            "kubernetes_cluster_policy_objects has the unknown key 'configmap' (did you mean configmaps?).",
        ),
        (
            {"policy_objects": {"configmaps": 0}},
            "kubernetes_cluster_policy_objects has 0 as configmaps: write a whole number from 1 on.",
        ),
        (
            {"policy_objects": 100},
            "kubernetes_cluster_policy_objects is 100: write a dictionary such as {configmaps: 200}.",
        ),
        (
            {"issuers": [IAM], "policy": {"accounts": [{"name": "a", "groups": ["physics", "iam:/a"]}]}},
            "account 'a': groups has physics, which no issuer gives: write it with the prefix of its issuer: iam:physics.",
        ),
        (
            {"issuers": [IAM], "policy_accounts": {"a": {"groups": ["iam:"]}}},
            "account 'a': groups has iam:, which no issuer gives: write it with the prefix of its issuer: iam:iam:.",
        ),
        (
            {"policy_default_request": {"cpu": 1}},
            "kubernetes_cluster_policy_default_request has the unknown key 'cpu' (did you mean cpus?).",
        ),
        (
            {"policy_default_request": {"cpus": 0}},
            "kubernetes_cluster_policy_default_request has 0 as cpus: write a whole number from 1 on.",
        ),
        (
            {"policy_default_request": {"memory": "1"}},
            "kubernetes_cluster_policy_default_request has '1' as memory: write MiB as a number, or text such as '1G'.",
        ),
        (
            {"policy": {"accounts": []}, "policy_purge": True},
            "kubernetes_cluster_policy_purge is set, but the policy has no accounts, so that all namespaces of accounts"
            " would be removed: name the accounts, or unset it.",
        ),
    ],
)
def test_a_wrong_variable_is_one_sentence(given, sentence):
    assert sentence in findings(**{"policy": ONE, **given})


def test_the_check_refuses_a_wrong_policy_and_the_plan_has_a_right_one():
    wrong = site(policy={"accounts": [{"name": "a", "user": []}]})
    sentence = "kubernetes_cluster_policy: account a has the unknown key 'user' (did you mean users?)."
    assert [str(one) for one in manager.check(wrong)] == [sentence]
    assert manager.plan(wrong)["errors"] == [sentence]
    planned = manager.plan(site(policy=ONE))["policy"]
    assert planned["managed"] and {one["metadata"]["name"] for one in of_kind(planned["objects"], "Namespace")} == {"a"}
    assert manager.plan(site())["policy"] == policy_settings.nothing()


def test_the_plan_knows_the_types_that_nodes_offer():
    workers = hosts(w2=host("w2", 12, [mig_gpu(0, ["1g.10gb", "3g.40gb"])]))
    planned = manager.plan(site(workers, policy={"accounts": [{"name": "a", "limits": {"gpus": 2}}]}))
    result = of_kind(planned["policy"]["objects"], "ResourceQuota")[0]["spec"]["hard"]
    assert [key for key in result if key.startswith("requests.nvidia")] == [
        "requests.nvidia.com/gpu",
        "requests.nvidia.com/mig-1g.10gb",
        "requests.nvidia.com/mig-3g.40gb",
    ]
    assert "gpus of several" not in str(planned["policy"]["unenforced"]) and "their sum has none" in str(planned["policy"]["unenforced"])


def test_two_thousand_accounts_are_planned_in_seconds():
    accounts = [
        {
            "name": f"a{number}",
            "parent": f"a{number - 1}" if number % 50 else "root",
            "groups": [f"g{number}"],
            "users": [f"u{one}" for one in range(5)],
            "limits": {"gpus": number, "per_job": {"wall": "01:00:00"}},
        }
        for number in range(2000)
    ]
    start = time.process_time()
    assert policy.errors("p", {"accounts": accounts}) == []
    planned = objects({"accounts": accounts})
    reported({"accounts": accounts})
    present = as_present(planned)
    assert policy_changes.changes(present, planned)["apply"] == []
    assert len(planned) > 8000 and time.process_time() - start < 10
