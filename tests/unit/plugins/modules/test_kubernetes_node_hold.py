# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module kubernetes_node_hold against a kubectl that answers from a file: no job's pod may end by it."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_node_hold

HELD = "accelerators.deephdc.org/held"
LOST = "accelerators.deephdc.org/lost"
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


def node(away=False, name="gpu1", **notes):
    metadata = {"name": name, "annotations": {"site/rack": "7", **{{"held": HELD, "lost": LOST}[key]: notes[key] for key in notes}}}
    return {"metadata": metadata, "spec": {"podCIDR": "10.244.1.0/24", **({"unschedulable": True} if away else {})}}


def pod(name, kind="", gpus=0, on="gpu1", phase="Running", **annotations):
    container = {"name": "c", **({"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {})}
    metadata = {"name": name, "namespace": "physics", "uid": f"uid-{name}", "annotations": annotations}
    if kind:
        metadata["ownerReferences"] = [{"kind": kind, "name": f"{name}-owner", "controller": True}]
    return {"metadata": metadata, "spec": {"nodeName": on, "containers": [container]}, "status": {"phase": phase}}


@pytest.fixture
def hold(run, kubectl, monkeypatch):
    """hold(cluster, option=...) runs the module.

    Its result has the node afterwards, and the names of evicted pods.
    """
    monkeypatch.setattr(kubernetes_node_hold, "POLL", 0.01)

    def run_module(nodes, there=(), state="held", evictions=None, ends=None, broken=None, meanwhile=(), **options):
        given = {"nodes": nodes, "pods": list(there), "evictions": evictions or {}, "ends": ends or {}, "broken": broken or {}}
        given["meanwhile"] = list(meanwhile)
        kubectl.cluster = given
        reason = {"reason": "gpu_hold: test"} if state == "held" else {}
        result = run(kubernetes_node_hold, **{"name": "gpu1", "state": state, **reason, **options})
        asked = [call.split("/pods/")[1].split("/")[0] for call in kubectl.calls() if "/eviction" in call]
        left = kubectl.cluster["nodes"][0]
        return {
            **result,
            "asked": asked,
            "away": left["spec"].get("unschedulable", False),
            "notes": left["metadata"]["annotations"],
            "names": [one["metadata"]["name"] for one in kubectl.cluster["pods"]],
        }

    return run_module


def test_an_empty_node_is_held(hold):
    result = hold([node()], [pod("elsewhere", on="gpu2")])
    assert (result["changed"], result["known"], result["held"], result["kept"]) == (True, True, True, "")
    assert (result["away"], result["notes"]) == (True, {"site/rack": "7", HELD: "gpu_hold: test"})
    assert (result["moved"], result["summary"], result["asked"]) == ([], [], [])
    assert result["diff"] == {"before": "gpu1 takes pods: True\n", "after": "gpu1 takes pods: False\n"}


def test_a_node_that_is_held_keeps_its_reason(hold):
    result = hold([node(away=True, held="gpu_hold: first")])
    assert (result["changed"], result["held"], result["notes"][HELD]) == (False, True, "gpu_hold: first")
    # An administrator uncordoned it meanwhile.
    result = hold([node(held="gpu_hold: first")])
    assert (result["changed"], result["away"], result["notes"][HELD]) == (True, True, "gpu_hold: first")


def test_a_node_that_an_administrator_cordoned_is_kept(hold):
    result = hold([node(away=True)], [pod("job", "Job")])
    assert (result["changed"], result["held"], result["kept"]) == (False, False, "gpu1 was cordoned already and stays so")
    assert result["notes"] == {"site/rack": "7"}
    # Its pods would end with a reboot nevertheless.
    assert result["summary"] == ["pod physics/job of Job job-owner"]
    result = hold([node(away=True)], state="released")
    assert (result["changed"], result["away"]) == (False, True)


def test_a_node_is_released(hold):
    result = hold([node(away=True, held="gpu_hold: test")], state="released")
    assert (result["changed"], result["held"], result["away"], result["notes"]) == (True, False, False, {"site/rack": "7"})
    assert result["diff"] == {"before": "gpu1 takes pods: False\n", "after": "gpu1 takes pods: True\n"}
    result = hold([node()], state="released")
    assert (result["changed"], result["away"]) == (False, False)


def test_a_node_that_lost_a_device_is_held_and_stays_cordoned(hold):
    result = hold([node(away=True, lost="t4 is missing")])
    assert (result["held"], result["kept"]) == (True, "")
    assert result["notes"] == {"site/rack": "7", LOST: "t4 is missing", HELD: "gpu_hold: test"}
    for away in (True, False):
        result = hold([node(away=away, lost="t4 is missing", held="gpu_hold: test")], state="released")
        assert (result["changed"], result["away"], result["notes"]) == (True, True, {"site/rack": "7", LOST: "t4 is missing"})
        assert result["diff"]["after"] == "gpu1 takes pods: False\n"


def test_services_are_moved(hold):
    kinds = ("ReplicaSet", "ReplicationController", "StatefulSet")
    result = hold([node()], [pod(kind.lower(), kind) for kind in kinds], wait=30)
    assert sorted(result["asked"]) == sorted(kind.lower() for kind in kinds), "each once"
    assert len(result["moved"]) == 3 and "pod physics/statefulset of StatefulSet statefulset-owner" in result["moved"]
    assert (result["summary"], result["names"]) == ([], [])


@pytest.mark.parametrize("kind", ["Job", "", "RayCluster"])
def test_the_pod_of_a_job_is_waited_for_and_never_evicted(hold, kind):
    result = hold([node()], [pod("train", kind, gpus=1)], wait=0.3)
    assert (result["asked"], result["moved"], result["names"]) == ([], [], ["train"])
    assert result["summary"] == ["pod physics/train" + (f" of {kind} train-owner" if kind else "")]
    assert result["held"], "the caller decides"


def test_a_job_that_ends_during_the_wait(hold, kubectl):
    result = hold([node()], [pod("train", "Job")], ends={"train": 3}, wait=60)
    assert (result["summary"], result["asked"]) == ([], [])
    assert len([call for call in kubectl.calls() if "get pods" in call]) == 4


def test_pods_that_are_not_waited_for(hold):
    others = [
        pod("plugin", "DaemonSet"),
        pod("etcd", **{"kubernetes.io/config.mirror": "x"}),
        pod("done", "Job", phase="Succeeded"),
        pod("bad", phase="Failed"),
    ]
    result = hold([node()], others, wait=60)
    assert (result["summary"], result["asked"], len(result["names"])) == ([], [], 4)


def test_a_budget_that_does_not_let_a_pod_go_is_asked_again_while_others_go_on(hold):
    result = hold([node()], [pod("front", "ReplicaSet"), pod("back", "ReplicaSet")], evictions={"front": [BUDGET, BUDGET]}, wait=60)
    assert sorted(result["asked"]) == ["back", "front", "front", "front"]
    assert result["asked"].index("back") == 1, "in the first round"
    assert (len(result["moved"]), result["summary"]) == (2, [])


@pytest.mark.parametrize(
    "said", [BUDGET, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."]
)
def test_a_budget_that_never_lets_a_pod_go_is_named(hold, said):
    result = hold([node()], [pod("front", "ReplicaSet")], evictions={"front": [said] * 99}, wait=0.3)
    assert result["summary"] == [f"pod physics/front of ReplicaSet front-owner (Error from server: {said})"]
    assert (result["moved"], result["names"]) == ([], ["front"])


def test_a_pod_that_is_gone_when_it_is_to_be_moved(hold):
    result = hold([node()], [pod("front", "ReplicaSet")], evictions={"front": ['pods "front" not found']}, ends={"front": 1}, wait=60)
    assert "failed" not in result and result["summary"] == []


def test_another_refusal_of_an_eviction_names_the_pod(hold):
    result = hold([node()], [pod("front", "ReplicaSet")], evictions={"front": ["the webhook says no"]}, wait=60)
    assert result["failed"]
    assert result["msg"] == ("Kubernetes refused it: pod physics/front of ReplicaSet front-owner: Error from server: the webhook says no")


def test_without_a_wait_services_are_asked_once(hold):
    result = hold([node()], [pod("front", "ReplicaSet"), pod("train", "Job")])
    assert (result["asked"], result["moved"]) == (["front"], ["pod physics/front of ReplicaSet front-owner"])
    assert result["summary"] == ["pod physics/front of ReplicaSet front-owner", "pod physics/train of Job train-owner"]


def test_only_pods_with_devices(hold):
    there = [pod("train", "Job", gpus=1), pod("web", "ReplicaSet"), pod("serve", "ReplicaSet", gpus=1)]
    result = hold([node()], there, ends={"train": 3}, pods="devices", wait=60)
    assert (result["asked"], result["summary"], result["names"]) == (["serve"], [], ["web"])


def test_no_pods(hold, kubectl):
    result = hold([node()], [pod("train", "Job", gpus=1), pod("serve", "ReplicaSet", gpus=1)], pods="none", wait=60)
    assert (result["held"], result["away"], result["asked"], result["summary"]) == (True, True, [], [])
    assert not any("get pods" in call for call in kubectl.calls())


def test_check_mode_reads_and_does_not_wait(hold):
    pods = [pod("front", "ReplicaSet"), pod("train", "Job")]
    result = hold([node()], pods, wait=60, _ansible_check_mode=True)
    assert (result["changed"], result["held"], len(result["summary"])) == (True, True, 2)
    assert (result["away"], result["notes"], result["asked"], result["moved"]) == (False, {"site/rack": "7"}, [], [])
    result = hold([node(away=True, held="x")], state="released", _ansible_check_mode=True)
    assert (result["changed"], result["away"]) == (True, True)


@pytest.mark.parametrize("state", ["held", "released"])
def test_a_node_that_is_not_there(hold, state):
    result = hold([node(name="other")], [pod("train", "Job")], state=state, wait=60)
    assert (result["changed"], result["known"], result["held"], result["summary"]) == (False, False, False, [])


def test_an_api_that_does_not_answer(hold):
    result = hold([node()], broken={"get node": "no route to host"})
    assert result["failed"] and result["msg"] == "Kubernetes refused it: Error from server: no route to host"
    result = hold([node()], broken={"patch node": "forbidden"})
    assert result["failed"] and result["msg"] == "Kubernetes refused it: Error from server: forbidden"


def test_a_hold_needs_a_reason(hold, run):
    result = run(kubernetes_node_hold, name="gpu1", state="held")
    assert result["failed"] and "reason" in result["msg"]


DRAINED = "accelerators.deephdc.org/drained"


def drained(away=True, ready=True, **notes):
    one = node(away, **notes)
    one["metadata"]["annotations"][DRAINED] = "new fan"
    one["status"] = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown", "message": "kubelet is silent"}]}
    return one


def test_a_drain_has_a_mark_of_its_own(hold):
    result = hold([node()], mark="drained", reason="new fan")
    assert result["notes"] == {"site/rack": "7", DRAINED: "new fan"}
    assert (result["held"], result["reason"], result["left"]) == (True, "new fan", "")
    result = hold([drained()], mark="drained", reason="another")
    assert (result["changed"], result["reason"]) == (False, "new fan"), "the first reason stays"


@pytest.mark.parametrize("first", ["held", "drained"])
def test_marks_are_independent(hold, first):
    """Who comes second may go first or last: the node is given back when its last mark is gone."""
    second = {"held": "drained", "drained": "held"}[first]
    one = drained() if first == "drained" else node(away=True, held="gpu_hold: test")
    result = hold([one], mark=second)
    assert result["kept"] == "" and {HELD, DRAINED} <= set(result["notes"])
    both = drained(held="gpu_hold: test")
    result = hold([both], mark=first, state="released")
    assert result["changed"] and result["away"]
    assert ({HELD, DRAINED} & set(result["notes"])) == {{"held": HELD, "drained": DRAINED}[second]}


def test_a_drain_that_gpu_hold_outlives_says_so(hold):
    result = hold([drained(held="gpu_hold: nvidia_driver")], mark="drained", state="released")
    assert result["left"] == "gpu1 stays cordoned, because the role gpu_hold holds it (gpu_hold: nvidia_driver)."


def test_a_drained_node_is_given_back(hold):
    result = hold([drained()], mark="drained", state="released")
    assert (result["changed"], result["away"], result["notes"], result["left"]) == (True, False, {"site/rack": "7"}, "")
    result = hold([node()], mark="drained", state="released")
    assert (result["changed"], result["away"], result["left"]) == (False, False, "")


@pytest.mark.parametrize(
    ("one", "options", "sentence"),
    [
        (drained(), {"unfit": "t4 is missing"}, "gpu1 stays as it is, because t4 is missing: repair it, then run again."),
        (
            drained(ready=False),
            {},
            "gpu1 stays as it is, because it is not ready (kubelet is silent): start kubelet there, then run again.",
        ),
        (node(away=True, lost="t4 is missing"), {}, "gpu1 stays cordoned, because it lost a device (t4 is missing)."),
        (
            node(away=True),
            {},
            "gpu1 stays cordoned, because no run of kubernetes_drain did that: 'kubectl uncordon gpu1' gives it back.",
        ),
    ],
)
def test_what_is_not_given_back_is_named(hold, one, options, sentence):
    result = hold([one], mark="drained", state="released", **options)
    assert (result["changed"], result["away"], result["left"]) == (False, True, sentence)


def test_a_node_that_was_not_drained_and_is_not_ready_is_named(hold):
    one = drained(away=False, ready=False)
    del one["metadata"]["annotations"][DRAINED]
    result = hold([one], mark="drained", state="released")
    sentence = "gpu1 stays as it is, because it is not ready (kubelet is silent): start kubelet there, then run again."
    assert (result["changed"], result["away"], result["left"]) == (False, False, sentence)
    assert hold([one], state="released")["left"] == "", "gpu_hold does not ask"


def test_gpu_hold_gives_a_node_back_that_is_not_ready(hold):
    """As after a reboot; what is unfit is the matter of the plan."""
    one = node(away=True, held="gpu_hold: test")
    one["status"] = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    result = hold([one], state="released", unfit="t4 is missing")
    assert (result["changed"], result["away"], result["left"]) == (True, False, "")


def versioned(one):
    one["metadata"]["resourceVersion"] = "1"
    return one


def test_a_node_that_is_drained_while_it_is_released_stays_cordoned(hold):
    """Both read the node before either writes it."""
    other = {"metadata": {"annotations": {DRAINED: "new fan"}}, "spec": {"unschedulable": True}}
    result = hold([versioned(node(away=True, held="gpu_hold: test"))], state="released", meanwhile=[other])
    assert (result["changed"], result["away"]) == (True, True)
    assert result["notes"] == {"site/rack": "7", DRAINED: "new fan"}


def test_a_node_that_changes_all_the_time_is_an_error(hold):
    result = hold([versioned(node())], meanwhile=[{"metadata": {"labels": {"n": str(n)}}} for n in range(20)])
    assert result["failed"] and "the object has been modified" in result["msg"] and not result["away"]
