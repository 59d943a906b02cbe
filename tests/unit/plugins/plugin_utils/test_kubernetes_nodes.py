# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What is written to the nodes of a cluster: labels, taints, and whether a node gets pods."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.nodes import patches

OURS = {"accelerators.deephdc.org/t4": "2", "accelerators.deephdc.org/device-plugin": "nvidia-1"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OF_ANOTHER = {"key": "site/maintenance", "effect": "NoExecute", "timeAdded": "2026-11-23T10:00:00Z"}
LOST = "accelerators.deephdc.org/lost"
HELD = "accelerators.deephdc.org/held"
DRAINED = "accelerators.deephdc.org/drained"
REASON = "t4 at 0000:41:00.0 is missing (hardware)"


def node(labels=None, taints=(TAINT,), notes=None, away=False, name="w1"):
    """A node as the API has it; right in all that is not given."""
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(OURS if labels is None else labels)}}
    if notes:
        metadata["annotations"] = notes
    spec = {"podCIDR": "10.244.1.0/24", **({"taints": list(taints)} if taints else {}), **({"unschedulable": True} if away else {})}
    return {"metadata": metadata, "spec": spec}


def plan(labels=None, taints=(TAINT,), lost=""):
    wanted = {"name": "w1", "host": "gpu-1", "labels": OURS if labels is None else labels, "taints": list(taints)}
    return {"nodes": [wanted], "unfit": {"gpu-1": lost} if lost else {}}


def changes(one, planned):
    """What the patch of the node changes.

    Its input stays as it is, and what is patched needs no second one.
    """
    before = copy.deepcopy((one, planned))
    found = patches([one], planned)
    assert (one, planned) == before
    if not found:
        return {}
    (patch,) = found
    assert (patch["apiVersion"], patch["kind"], patch["metadata"]["name"]) == ("v1", "Node", "w1")
    assert patches([merged(one, patch)], planned) == []
    return {key: value for key, value in {**patch["metadata"], **patch.get("spec", {})}.items() if key != "name"}


def merged(old, patch):
    """As the API applies a merge patch."""
    if not isinstance(patch, dict):
        return patch
    whole = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = merged(whole.get(key), value)
    return whole


def test_a_node_that_is_right_is_left():
    assert changes(node(), plan()) == {}
    assert changes(node(labels={}, taints=[]), plan(labels={}, taints=[])) == {}


def test_a_node_that_just_joined():
    assert changes({"metadata": {"name": "w1"}}, plan()) == {"labels": OURS, "taints": [TAINT]}


def test_nodes_of_others_and_hosts_that_have_not_joined_are_left():
    assert patches([node(name="w9", labels={"accelerators.deephdc.org/k80": "1"})], plan()) == []
    assert patches([], plan()) == []


def test_labels_of_ours_that_are_not_planned_go_and_those_of_others_stay():
    one = node(labels={**OURS, "accelerators.deephdc.org/t4": "1", "accelerators.deephdc.org/k80": "4", "site/rack": "7"})
    assert changes(one, plan()) == {"labels": {"accelerators.deephdc.org/t4": "2", "accelerators.deephdc.org/k80": None}}


def test_taints_of_others_stay():
    assert changes(node(taints=[OF_ANOTHER]), plan()) == {"taints": [OF_ANOTHER, TAINT]}
    assert changes(node(taints=[TAINT, OF_ANOTHER]), plan()) == {}


def test_a_taint_of_the_same_key_and_effect_is_enough():
    """The API takes no two of them."""
    assert changes(node(taints=[{**TAINT, "value": "yes"}]), plan()) == {}
    other_effect = {**TAINT, "effect": "PreferNoSchedule"}
    assert changes(node(taints=[other_effect]), plan()) == {"taints": [other_effect, TAINT]}


def test_our_taint_goes_with_what_it_was_for():
    assert changes(node(taints=[TAINT, OF_ANOTHER]), plan(taints=[])) == {"taints": [OF_ANOTHER]}
    # Its GPUs were never ours to offer.
    assert changes(node(labels={}), plan(labels={}, taints=[])) == {}
    assert changes(node(taints=[{**TAINT, "value": "yes"}]), plan(taints=[])) == {}


class TestLost:
    def test_a_node_that_lost_a_device_gets_no_pods(self):
        assert changes(node(), plan(lost=REASON)) == {"annotations": {LOST: REASON}, "unschedulable": True}

    def test_once(self):
        assert changes(node(notes={LOST: REASON}, away=True), plan(lost=REASON)) == {}

    def test_another_device_is_lost(self):
        assert changes(node(notes={LOST: "old"}, away=True), plan(lost=REASON))["annotations"] == {LOST: REASON}

    def test_it_is_back(self):
        assert changes(node(notes={LOST: REASON}, away=True), plan()) == {"annotations": {LOST: None}, "unschedulable": None}

    @pytest.mark.parametrize("mark", [HELD, DRAINED])
    def test_it_is_back_while_the_host_is_held(self, mark):
        assert changes(node(notes={LOST: REASON, mark: "gpu_hold: x"}, away=True), plan()) == {"annotations": {LOST: None}}

    @pytest.mark.parametrize("mark", [HELD, DRAINED])
    def test_it_is_lost_while_the_host_is_held(self, mark):
        found = changes(node(notes={mark: "gpu_hold: x"}, away=True), plan(lost=REASON))
        assert found == {"annotations": {LOST: REASON}, "unschedulable": True}

    def test_a_node_that_an_administrator_cordoned_is_left(self):
        assert changes(node(away=True), plan(lost=REASON)) == {}
        assert changes(node(away=True), plan()) == {}

    def test_a_node_that_an_administrator_gave_pods_too_early(self):
        assert changes(node(notes={LOST: REASON}), plan(lost=REASON))["unschedulable"] is True


@pytest.mark.parametrize("wrong", [None, 7, "w1", {"items": []}, [7], [{"name": "w1"}], [{"metadata": {}}], [{"metadata": 7}]])
def test_what_is_no_list_of_nodes(wrong):
    with pytest.raises(ValueError, match=r"^The nodes must be a list of objects with metadata.name, .*\.$"):
        patches(wrong, plan())


@pytest.mark.parametrize("wrong", [None, [], {}, {"nodes": []}, {"unfit": {}}])
def test_what_is_no_plan(wrong):
    with pytest.raises(ValueError, match=r"^The plan must be a dictionary with nodes and unfit, .*\.$"):
        patches([node()], wrong)
