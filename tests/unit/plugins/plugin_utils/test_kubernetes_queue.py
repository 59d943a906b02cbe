# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Queues from a policy and from what the workers have: whose quota is how large, and what a run refuses."""

from __future__ import annotations

import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manager, policy, queue
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import GROUPS, host, hosts, site

GPU = "nvidia.com/gpu"
TOTAL = "accelerators.deephdc.org/gpus"
PATH = "/srv/kueue.yaml"


def account(name, limits=None, parent=None, **more):
    return {"name": name, **({"limits": limits} if limits else {}), **({"parent": parent} if parent else {}), **more}


def workers():
    """Two a100 and two t4; 16 processors."""
    return hosts(w1=host("w1", 11, [gpu(0), gpu(1)]), w2=host("w2", 12, [gpu(0, type="t4"), gpu(1, type="t4")]))


def plan(*accounts, hostvars=None, qos=(), **settings):
    given = {"queue": "kueue", "queue_manifests": PATH, "policy": {"accounts": list(accounts), "qos": list(qos)}, **settings}
    found = manager.plan(site(workers() if hostvars is None else hostvars, **given))
    assert found["errors"] == []
    found["warnings"] = [sentence for sentence in found["warnings"] if "is not enforced" not in sentence]
    return found


def objects(found, kind):
    return {one["metadata"]["name"]: one for one in found["queue"]["objects"] if one["kind"] == kind}


def quotas(one):
    """Flavor and resource to what is kept and what may be borrowed."""
    return {
        (flavor["name"], resource["name"]): (resource["nominalQuota"], resource["borrowingLimit"])
        for group in one["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def totals(found):
    return {name: quotas(one)["all-nodes", TOTAL] for name, one in objects(found, "ClusterQueue").items()}


def test_a_queue_for_each_account():
    found = plan(account("physics", {"gpus": {"a100": 1, "any": 2}, "cpus": 4, "memory": "16G"}), account("teaching", {"gpus": 1}))
    queues = objects(found, "ClusterQueue")
    assert quotas(queues["physics"]) == {
        ("all-nodes", "cpu"): ("4", "0"),
        ("all-nodes", "memory"): ("16Gi", "0"),
        ("all-nodes", TOTAL): ("2", "0"),
        ("a100", GPU): ("1", "0"),
        ("t4", GPU): ("1", "1"),
    }
    assert quotas(queues["teaching"])["a100", GPU] == ("1", "1")
    spec = queues["physics"]["spec"]
    assert (spec["queueingStrategy"], spec["cohortName"]) == ("StrictFIFO", "all.accounts")
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "physics"}}
    # Nothing may end a job for another one.
    assert spec["preemption"] == {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
    local = [one for one in found["queue"]["objects"] if one["kind"] == "LocalQueue"]
    assert [(one["metadata"]["namespace"], one["metadata"]["name"], one["spec"]) for one in local] == [
        ("physics", "default", {"clusterQueue": "physics"}),
        ("teaching", "default", {"clusterQueue": "teaching"}),
    ]
    assert all(one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == queue.OWNED["app.kubernetes.io/managed-by"] for one in local)


def test_what_could_never_start_is_known_by_its_queue():
    found = plan(account("physics", {"gpus": {"t4": 1, "any": 3}}))
    (local,) = objects(found, "LocalQueue").values()
    notes = local["metadata"]["annotations"]
    assert {key.rsplit("/", 1)[1]: value for key, value in notes.items()} == {
        "gpus": "3",
        "gpus-of-one-kind": "2",
        "kind-a100": "2",
        "kind-t4": "1",
    }
    rule = objects(found, "ValidatingAdmissionPolicy")["deephdc-queue-sizes"]["spec"]
    assert rule["failurePolicy"] == "Fail" and all(key.split("kind-")[0] in str(rule) for key in notes)
    assert objects(found, "ValidatingAdmissionPolicyBinding")["deephdc-queue-sizes"]["spec"]["paramRef"]["name"] == "default"


def test_flavors_lead_to_the_nodes_of_a_type():
    found = plan(account("physics"))
    flavors = objects(found, "ResourceFlavor")
    assert sorted(flavors) == ["a100", "all-nodes", "t4"]
    assert flavors["a100"]["spec"]["nodeLabels"] == {"accelerators.deephdc.org/type": "a100"}
    assert flavors["a100"]["spec"]["tolerations"] == [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    assert flavors["all-nodes"]["spec"] == {}
    labels = {node["name"]: node["labels"]["accelerators.deephdc.org/type"] for node in found["nodes"]}
    assert labels == {"w1": "a100", "w2": "t4"}


def test_who_is_in_an_account_sees_its_queue():
    found = plan(account("physics", users=["ada"], groups=["iam:/physics"]), account("empty"), policy_user_prefix="iam:")
    (binding,) = [one for one in found["queue"]["objects"] if one["kind"] == "RoleBinding"]
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("physics", "deephdc-queue-viewer")
    assert [(one["kind"], one["name"]) for one in binding["subjects"]] == [("Group", "iam:/physics"), ("User", "iam:ada")]
    rules = objects(found, "ClusterRole")["deephdc-queue-viewer"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_a_name_that_is_no_label_becomes_one():
    found = plan(account("Physics_1"), account("a.b", parent="physics_1"))
    assert sorted(objects(found, "ClusterQueue")) == ["a-b", "physics-1"]
    assert sorted(objects(found, "Cohort")) == ["all.accounts", "physics-1"]


def test_together_they_have_no_more_than_the_cluster():
    found = plan(*(account(name) for name in ("a", "b", "c")))
    # Four GPUs for three: the first has the one that is left. Each may have all.
    assert totals(found) == {"a": ("2", "2"), "b": ("1", "3"), "c": ("1", "3")}
    assert sum(int(quotas(one)["all-nodes", "cpu"][0]) for one in objects(found, "ClusterQueue").values()) == 16


def test_who_has_less_leaves_more_to_the_others():
    assert totals(plan(account("a", {"gpus": 1}), account("b"), account("c", {"gpus": 0}))) == {
        "a": ("1", "0"),
        "b": ("3", "1"),
        "c": ("0", "0"),
    }


def test_shares_are_kept():
    assert totals(plan(account("a", fairshare=3), account("b"))) == {"a": ("3", "1"), "b": ("1", "3")}
    assert totals(plan(account("a", fairshare=0), account("b"))) == {"a": ("0", "4"), "b": ("4", "0")}


def test_the_limit_of_a_parent_holds_for_all_below_it():
    found = plan(
        account("science", {"gpus": 2}),
        account("physics", parent="science"),
        account("chemistry", {"gpus": 2}, parent="science"),
        account("x"),
    )
    # One each and one that they borrow from each other; together two, as the cohort may borrow nothing.
    assert totals(found) == {"science": ("0", "2"), "physics": ("1", "1"), "chemistry": ("1", "1"), "x": ("2", "2")}
    cohorts = objects(found, "Cohort")
    assert cohorts["science"]["spec"]["parentName"] == "all.accounts" and cohorts["all.accounts"]["spec"] == {}
    assert quotas(cohorts["science"])["all-nodes", TOTAL] == ("0", "0")
    queues = objects(found, "ClusterQueue")
    assert {name: one["spec"]["cohortName"] for name, one in queues.items()} == {
        **dict.fromkeys(("science", "physics", "chemistry"), "science"),
        "x": "all.accounts",
    }


@pytest.mark.parametrize("count", [1, 3, 7])
def test_no_member_of_a_deep_tree_has_more_than_any_above_it(count):
    accounts = [account("top", {"gpus": 3})]
    accounts += [account(f"m{number}", {"gpus": 2}, parent="top") for number in range(count)]
    accounts += [account(f"l{number}", parent=f"m{number}") for number in range(count)]
    found = plan(*accounts)
    kept = {name: sum(map(int, pair)) for name, pair in totals(found).items()}
    assert all(kept[f"l{number}"] == kept[f"m{number}"] == 2 for number in range(count)) and kept["top"] == 3
    assert sum(int(pair[0]) for pair in totals(found).values()) == min(3, 2 * count)


def test_mig_instances_and_shares_count_as_gpus():
    found = plan(
        account("a", {"gpus": {"a100_1g.5gb": 1, "any": 3}}),
        hostvars=hosts(
            w1=host("w1", 11, [mig_gpu(0, ["1g.5gb", "2g.10gb", "1g.5gb"])]),
            w2=host("w2", 12, [gpu(0)], kubernetes_cluster_gpu_sharing="shard:4"),
        ),
    )
    counted = found["queue"]["configuration"]["resources"]["transformations"]
    assert {one["input"]: one["outputs"] for one in counted} == {
        resource: {TOTAL: "1"} for offers in found["offers"].values() for resource in offers
    }
    assert "a100_2g.10gb" not in str(found["warnings"])
    cells = quotas(objects(found, "ClusterQueue")["a"])
    assert cells["all-nodes", TOTAL] == ("3", "0")
    assert {cell: number for cell, number in cells.items() if cell[0] == "a100"} == {
        ("a100", GPU): ("4", "0"),
        ("a100", "nvidia.com/mig-1g.5gb"): ("1", "0"),
        ("a100", "nvidia.com/mig-2g.10gb"): ("1", "0"),
    }


def test_a_node_with_two_types_is_reported():
    mixed = hosts(w1=host("w1", 11, [gpu(0), gpu(1, type="t4")]), w2=host("w2", 12, [gpu(0)]))
    found = plan(account("a", {"gpus": {"a100": 1}}), account("b"), hostvars=mixed)
    assert found["warnings"] == [
        "The limit of a100 in a does not hold on nodes of the kind a100, a100-t4, where a job can't choose between the types: "
        "have GPUs of one type in each worker."
    ]
    assert {node["labels"]["accelerators.deephdc.org/type"] for node in found["nodes"]} == {"a100", "a100-t4"}
    # With a limit for each of its types, their sum holds there.
    found = plan(account("a", {"gpus": {"a100": 1, "t4": 0}}), hostvars=mixed)
    assert quotas(objects(found, "ClusterQueue")["a"])["a100-t4", GPU] == ("1", "0")


def test_a_lost_gpu_keeps_its_place():
    whole = manager.plan(site(workers(), queue="kueue", queue_manifests=PATH, policy={"accounts": [account("a")]}))
    found = manager.plan(
        site(
            hosts(w2=host("w2", 12, [gpu(0, type="t4"), gpu(1, type="t4")]), w1=host("w1", 11, [gpu(0)])),
            queue="kueue",
            queue_manifests=PATH,
            policy={"accounts": [account("a")]},
        ),
        whole["record"],
    )
    assert found["unfit"] and found["queue"]["objects"] == whole["queue"]["objects"]


def test_hosts_whose_size_is_not_known():
    facts = {"processor_vcpus": None, "memtotal_mb": None}
    found = plan(account("a", {"cpus": 4}), hostvars=hosts(w1=host("w1", 11, [gpu(0)], facts=facts), w2=host("w2", 12, [], facts=facts)))
    assert sorted(quotas(objects(found, "ClusterQueue")["a"])) == [("a100", GPU), ("all-nodes", TOTAL)]
    assert found["queue"]["configuration"]["resources"]["excludeResourcePrefixes"] == ["ephemeral-storage", "hugepages-", "cpu", "memory"]


def test_priorities_are_those_of_the_qos():
    found = plan(account("a", qos=["long"]), qos=[{"name": "long", "priority": 10}])
    assert {name: one["value"] for name, one in objects(found, "WorkloadPriorityClass").items()} == {"long": 10, "normal": 0}
    rule = objects(found, "ValidatingAdmissionPolicy")["deephdc-queue-priorities"]["spec"]
    assert rule["failurePolicy"] == "Fail" and "kueue.x-k8s.io/priority-class" in rule["validations"][0]["expression"]
    binding = objects(found, "ValidatingAdmissionPolicyBinding")["deephdc-queue-priorities"]["spec"]
    assert binding["validationActions"] == ["Deny"] and binding["matchResources"]["namespaceSelector"] == queue.SELECTOR


def test_the_controller():
    found = plan(account("a"), queue_settings={"clientConnection": {"qps": 10}}, queue_frameworks=["batch/job", "pod"])["queue"]
    wanted = found["configuration"]
    assert wanted["manageJobsWithoutQueueName"] is True and wanted["managedJobsNamespaceSelector"] == queue.SELECTOR
    assert (wanted["integrations"], wanted["clientConnection"]) == ({"frameworks": ["batch/job", "pod"]}, {"qps": 10})
    assert (found["image"], found["manifests"], found["address"]) == ("registry.k8s.io/kueue/kueue:v0.15.0", PATH, "")
    found = plan(account("a"), queue_manifests="", queue_sha256="a" * 64, queue_image="mirror.example.org/kueue:1")["queue"]
    assert found["address"] == "https://github.com/kubernetes-sigs/kueue/releases/download/v0.15.0/manifests.yaml"
    assert (found["manifests"], found["image"]) == ("/var/lib/deephdc/kueue-0.15.0.yaml", "mirror.example.org/kueue:1")


def test_without_a_queue_the_plan_is_as_it_was():
    found = manager.plan(site(workers(), policy={"accounts": [account("a")]}))
    assert "queue" not in found and not any("accelerators.deephdc.org/type" in node["labels"] for node in found["nodes"])


def test_what_it_holds_to_of_a_policy():
    settings = {"queue": "kueue", "queue_frameworks": ["batch/job", "pod"]}
    assert "gpus by type" in queue.held_by_it(settings)
    assert queue.held_by_it({**settings, "queue_frameworks": ["batch/job"]}) == queue.held_by_it({**settings, "queue": "none"}) == ()


ADDRESS = "https://github.com/kubernetes-sigs/kueue/releases/download/v0.15.0/manifests.yaml"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"queue": "fifo"}, "kubernetes_cluster_queue is 'fifo': choose one of none, kueue."),
        (
            {"policy": {}},
            "kubernetes_cluster_queue is kueue, but there is no policy to make queues of: write kubernetes_cluster_policy.",
        ),
        ({"queue_version": "0.15"}, "kubernetes_cluster_queue_version is '0.15': write a whole version as text, such as '0.15.0'."),
        (
            {"queue_version": "0.16.1"},
            "kubernetes_cluster_queue_version is 0.16.1, but no test ran on 0.16 of Kueue: choose one of 0.15.",
        ),
        (
            {"queue_manifests": ""},
            f"kubernetes_cluster_queue_manifests is {ADDRESS}, but kubernetes_cluster_queue_sha256 is empty: "
            "download that file once, look at it, and write what sha256sum prints of it.",
        ),
        (
            {"queue_manifests": "kueue.yaml"},
            "kubernetes_cluster_queue_manifests is 'kueue.yaml': write an address, or an absolute path on the control plane's host.",
        ),
        ({"queue_sha256": "abc"}, "kubernetes_cluster_queue_sha256 is 'abc': write the 64 digits that sha256sum prints."),
        ({"queue_image": "a b"}, "kubernetes_cluster_queue_image is 'a b': write the name of an image, or leave it empty."),
        (
            {"queue_frameworks": "batch/job"},
            "kubernetes_cluster_queue_frameworks is 'batch/job': write a list as Kueue has them, such as [batch/job, pod].",
        ),
        (
            {"queue_frameworks": ["pod"]},
            "kubernetes_cluster_queue_frameworks lacks batch/job, so that Jobs would not wait in a queue: add it.",
        ),
        (
            {"queue_uncounted": "cpu"},
            "kubernetes_cluster_queue_uncounted is 'cpu': write a list of names of resources, or how they begin.",
        ),
        (
            {"queue_uncounted": ["nvidia.com/"]},
            "kubernetes_cluster_queue_uncounted leaves out GPUs, so that no limit of them would hold: name other resources.",
        ),
        ({"queue_settings": []}, "kubernetes_cluster_queue_settings is a list: write a dictionary of Kueue's own keys, {} for none."),
        (
            {"queue_settings": {"integrations": {}}},
            "kubernetes_cluster_queue_settings has the key integrations, which the collection sets itself: leave it out.",
        ),
    ],
)
def test_mistakes(given, sentence):
    good = {"queue": "kueue", "queue_manifests": PATH, "policy": {"accounts": [account("a")]}}
    assert [str(one) for one in manager.check(site(workers(), **good))] == []
    wrong = site(workers(), **{**good, **given})
    assert [str(one) for one in manager.check(wrong)] == manager.plan(wrong)["errors"] == [sentence]


def test_many_accounts_on_many_nodes_take_seconds():
    names = [f"w{number}" for number in range(1000)]
    many = hosts(**{name: host(name, number, [gpu(0), gpu(1)]) for number, name in enumerate(names, 20)})
    groups = {**GROUPS, "kubernetes_workers": names}
    accounts = [account(f"top{number}", {"gpus": 20}) for number in range(50)]
    accounts += [account(f"a{number}", {"gpus": 4}, parent=f"top{number % 50}") for number in range(2000)]
    begun = time.process_time()
    found = manager.plan(
        site(
            many,
            groups,
            queue="kueue",
            queue_manifests=PATH,
            policy={"accounts": accounts},
            pod_network="10.0.0.0/8",
            service_network="172.30.0.0/16",
        )
    )
    assert found["errors"] == [] and len(objects(found, "ClusterQueue")) == 2050
    assert time.process_time() - begun < 5


def test_a_policy_is_read_as_the_policy_says():
    """Limits of the accounts above hold; what has no limit has the whole cluster."""
    read = policy.read({"accounts": [account("b", parent="a"), account("a", {"gpus": {"t4": 1}})]})
    assert [(one.name, one.parent, dict(one.limits.gpus_by_type)) for one in read.accounts] == [
        ("a", "root", {"t4": 1}),
        ("b", "a", {"t4": 1}),
    ]
