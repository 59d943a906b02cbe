# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A control plane of one or three hosts: what is refused, who answers, and what is remembered of a host that is down."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import control_plane, manager, networks
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import GROUPS, host, hosts, site

THREE = {**GROUPS, "kubernetes_control_plane": ["cp1", "cp2", "cp3"]}


def of_three(**changes):
    return hosts(cp2=host("cp2", 13), cp3=host("cp3", 14), **changes)


def errors(groups, hostvars=None, **settings):
    return [str(found) for found in manager.check(site(hostvars or of_three(), groups, **settings))]


@pytest.mark.parametrize(
    ("count", "why"),
    [(1, None), (2, "of two hosts etcd needs both"), (3, None), (4, "only control planes of one and of three were tried")],
)
def test_one_or_three_hosts(count, why):
    names = [f"cp{number}" for number in range(1, count + 1)]
    found = errors({**GROUPS, "kubernetes_control_plane": names}, of_three(cp4=host("cp4", 15)), balancer="local")
    assert (len(found) == 1 and why in found[0]) if why else found == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {},
            "kubernetes_cluster_endpoint is empty: write the address of a balancer in front of them there",
        ),
        ({"endpoint": "api.example.org:6443"}, None),
        ({"balancer": "local"}, None),
        ({"balancer": "local", "endpoint": "api.example.org:6443"}, "leave kubernetes_cluster_endpoint empty"),
        ({"balancer": "local", "balancer_port": 6443}, "kubernetes_cluster_balancer_port is 6443: write the number of a port that is free"),
        ({"balancer": "local", "balancer_port": "8443"}, None),
        ({"balancer": "haproxy"}, "kubernetes_cluster_balancer is 'haproxy': choose one of none, local"),
        ({"endpoint": "cp2:6443"}, "the address of cp2 alone, so the API is lost with that host"),
        ({"endpoint": "192.0.2.77:6443"}, "the address of cp3 alone"),
    ],
)
def test_the_endpoint_of_three_goes_to_all_of_them(settings, sentence):
    hostvars = of_three()
    hostvars["cp3"]["ansible_host"] = "192.0.2.77"
    found = errors(THREE, hostvars, **settings)
    found = [one for one in found if not sentence or sentence in one] if settings.get("balancer") == "haproxy" else found
    assert (len(found) == 1 and sentence in found[0]) if sentence else found == []


def test_the_plan_of_three():
    plan = manager.plan(site(of_three(), THREE, balancer="local"))
    assert plan["errors"] == [] and plan["endpoint"] == "127.0.0.1:7443"
    assert plan["balancer"]["servers"][1] == {"name": "cp2", "address": f"{plan['addresses']['cp2']}:6443"}
    assert list(plan["control"]) == ["cp1", "cp2", "cp3"] and list(plan["kubeadm"]["join"]) == ["w1", "w2"]
    joining = plan["control"]["cp3"]
    assert joining["controlPlane"]["localAPIEndpoint"] == {"advertiseAddress": plan["addresses"]["cp3"], "bindPort": 6443}
    assert joining["discovery"]["bootstrapToken"]["apiServerEndpoint"] == "127.0.0.1:7443"
    assert "taints" not in joining["nodeRegistration"], "kubeadm's own keep users' pods away"
    assert "certificateKey" not in str(joining)


def test_a_plan_of_one_has_no_balancer():
    plan = manager.plan(site())
    assert (plan["balancer"], plan["control"], plan["endpoint"]) == ({}, {}, f"{plan['addresses']['cp1']}:6443")


def test_a_host_that_is_down_keeps_its_place_in_the_plan():
    whole = manager.plan(site(of_three(), THREE, balancer="local"))
    kept = control_plane.members_of(base64.b64encode(whole["members"].encode()).decode())
    down = of_three(cp1={"kubernetes_cluster_remembered": kept["cp1"]})
    assert manager.plan(site(down, THREE, balancer="local")) == whole
    unknown = manager.plan(site(of_three(cp1={}), THREE, balancer="local"))
    assert unknown["errors"] == ["cp1 was not read: bring it up, or take it out of kubernetes_control_plane, then run again."]


def test_a_worker_that_is_down_is_not_remembered():
    down = of_three(w1={"kubernetes_cluster_remembered": {"name": "w1", "address": "192.0.2.9", "cgroup": 2}})
    assert "w1 was not read" in manager.plan(site(down, THREE, balancer="local"))["errors"][0]


@pytest.mark.parametrize("text", ["", "!", base64.b64encode(b"[]").decode(), base64.b64encode(control_plane.HEAD.encode()).decode()])
def test_a_damaged_record_of_members_is_none(text):
    assert control_plane.members_of(text) == {}


def result(name, *lines, **more):
    return {"item": name, "stdout": "\n".join(lines), **more}


def serving(name):
    return result(name, "made", "endpoint 127.0.0.1:7443", "serves ok")


def lost(name):
    return result(name, unreachable=True, msg="No route to host")


def test_the_first_that_answers_is_asked_and_the_others_are_named():
    waits = result("cp2", "made", "serves The connection to the server was refused")
    summed = control_plane.summary([lost("cp1"), waits, serving("cp3")])
    assert summed["answering"] == ["cp3"] and summed["errors"] == []
    assert summed["silent"] == {
        "cp1": "can't be reached (No route to host)",
        "cp2": "is up, but its API server does not answer (The connection to the server was refused)",
    }


def test_the_newest_record_counts():
    old = result("cp1", "made", "serves ok", "record accelerators 5 b2xk")
    new = result("cp2", "made", "serves ok", "record accelerators 7 bmV3", "record control_plane 1 eA==")
    assert control_plane.summary([old, new, lost("cp3")])["accelerators"] == "bmV3"


def test_a_lost_quorum_is_one_sentence():
    alone = result("cp1", "made", "serves [-]etcd failed")
    (said,) = control_plane.summary([alone, lost("cp2"), lost("cp3")])["errors"]
    assert "etcd has lost its quorum: it needs 2 of its 3 hosts" in said and "kubernetes_restore" in said
    assert "cp1 is up, but its API server does not answer ([-]etcd failed)" in said and "cp3 can't be reached (No route to host)" in said


def test_a_new_control_plane_needs_all_of_its_hosts():
    empty = [result("cp1"), lost("cp2"), result("cp3")]
    assert control_plane.summary(empty)["errors"] == [
        "cp2 can't be reached (No route to host): bring it up, as a new control plane is made of all of its hosts, or take it out of "
        "kubernetes_control_plane."
    ]
    assert control_plane.summary([result("cp1"), result("cp2"), result("cp3")])["errors"] == []


def test_one_host_is_left_to_the_plan_and_to_the_role():
    for one in (lost("cp1"), result("cp1", "made", "serves no"), result("cp1")):
        assert control_plane.summary([one])["errors"] == []


def test_a_restore_that_is_under_way_is_seen():
    assert control_plane.summary([result("cp1", "made", "restoring")])["restoring"] == ["cp1"]


def test_the_endpoint_of_a_cluster_stays():
    assert control_plane.endpoint_change(["192.0.2.10:6443"], "192.0.2.10:6443") == [] == control_plane.endpoint_change([], "a:1")
    (said,) = control_plane.endpoint_change(["192.0.2.10:6443"], "127.0.0.1:7443")
    assert "set kubernetes_cluster_endpoint to 192.0.2.10:6443" in said and "make a new one" in said


def test_gpus_of_the_workers_are_planned_as_with_one():
    assert manager.plan(site(of_three(), THREE, balancer="local"))["offers"] == manager.plan(site())["offers"]


THERE = ["cluster-cidr=10.244.0.0/16", "node-cidr-mask-size=24", "service-cluster-ip-range=10.96.0.0/16"]
WANTED = {"pod_network": "10.244.0.0/16", "service_network": "10.96.0.0/16", "node_prefix": 24}


def test_the_networks_of_a_cluster_stay():
    assert networks.network_errors(THERE, WANTED) == []
    assert networks.network_errors(THERE, {**WANTED, "node_prefix": "24"}) == []
    for name, value in (("pod_network", "10.9.0.0/16"), ("service_network", "10.8.0.0/16"), ("node_prefix", 25)):
        (said,) = networks.network_errors(THERE, {**WANTED, name: value})
        assert f"kubernetes_cluster_{name} {WANTED[name]}, and it would be {value} now" in said
        assert said.endswith(f"Set kubernetes_cluster_{name} to {WANTED[name]}.")


def test_a_network_that_can_not_be_read_is_not_the_same():
    for option in networks.NEEDED:
        (said,) = networks.network_errors([line for line in THERE if not line.startswith(option)], WANTED)
        assert f"no manifest of the control plane has --{option}" in said
    assert len(networks.network_errors([], WANTED)) == 2


@pytest.mark.parametrize("line", ["", "cluster-cidr", "cluster-cidr=", "other=1"])
def test_lines_that_are_no_network(line):
    with pytest.raises(ValueError, match="A line of the control plane's networks"):
        networks.network_errors([line], WANTED)
