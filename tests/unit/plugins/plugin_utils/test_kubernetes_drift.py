# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a report of differences has: each thing that is wrong, and nothing that is right."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import drift

NOW = "2026-11-24T10:00:00Z"
PLAN = {"names": {"cp1": "cp1", "gpu-1": "w1"}, "version": "1.37.2", "offers": {"gpu-1": {"nvidia.com/gpu": 2}}, "lost": []}
MEMBERS = ["cp1", "gpu-1"]


def node(name="w1", ready="True", away=False, gpus="2", version="v1.37.2", **notes):
    conditions = [{"type": "Ready", "status": ready, "message": "kubelet is silent"}]
    annotations = {f"accelerators.deephdc.org/{key}": value for key, value in notes.items()}
    status = {"conditions": conditions, "nodeInfo": {"kubeletVersion": version}, "allocatable": {"nvidia.com/gpu": gpus}}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"unschedulable": away}, "status": status}


def pod(name, app="", component="", on="cp1", tag="v1.37.2", ready="True"):
    labels = {key: value for key, value in (("k8s-app", app), ("component", component)) if value}
    spec = {"nodeName": on, "containers": [{"image": f"registry.example.org:5000/{app or component}:{tag}"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def pods(**changes):
    every = {
        "dns": pod("coredns-1", app="kube-dns", tag="v1.14.6"),
        "dns2": pod("coredns-2", app="kube-dns", tag="v1.14.6"),
        "proxy": pod("kube-proxy-1", app="kube-proxy"),
        "proxy2": pod("kube-proxy-2", app="kube-proxy", on="w1"),
        "api": pod("kube-apiserver-cp1", component="kube-apiserver"),
        "etcd": pod("etcd-cp1", component="etcd", tag="3.7.0-0"),
    }
    return [one for one in {**every, **changes}.values() if one]


def seen(**changes):
    look = {"time": 100, "asked": 99.5, "kubelet": "Nov 24 08:34:42 2027 GMT", "certificates": None}
    return {
        "nodes": [node("cp1", gpus="0"), node()],
        "pods": pods(),
        "hosts": {"cp1": look, "gpu-1": look},
        "days": 30,
        "now": NOW,
        **changes,
    }


def reported(results=None, plan="made", in_play=None, **changes):
    given = {host: {} for host in MEMBERS} if results is None else results
    return drift.report(given, MEMBERS, MEMBERS if in_play is None else in_play, "cp1", PLAN if plan == "made" else plan, seen(**changes))


def test_nothing_differs():
    found = reported()
    assert (found["differs"], found["complete"], found["summary"], found["compared"]) == (False, True, [], MEMBERS)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (node(ready="Unknown"), "gpu-1: w1: it is not ready: kubelet is silent"),
        (node(away=True), "gpu-1: w1: it is cordoned (by an administrator)"),
        (node(away=True, drained="new fan"), "gpu-1: w1: it is cordoned (drained: new fan)"),
        (node(away=True, held="gpu_hold: x", lost="t4 is gone"), "gpu-1: w1: it is cordoned (lost: t4 is gone; held: gpu_hold: x)"),
        (node(version="v1.36.3"), "gpu-1: w1: kubelet is v1.36.3, the inventory says v1.37.2"),
        (node(gpus="1"), "gpu-1: w1: the node offers 1 of 2 nvidia.com/gpu"),
    ],
)
def test_nodes(changed, sentence):
    found = reported(nodes=[node("cp1", gpus="0"), changed])
    assert (found["summary"], found["differs"]) == ([sentence], True)


def test_a_node_that_is_missing_and_one_too_many():
    found = reported(nodes=[node("cp1", gpus="0"), node("w9")])
    assert found["summary"] == [
        "gpu-1: w1: the cluster has no such node: run the playbook kubernetes",
        "cp1: w9: the inventory has no such host: kubernetes_remove_node, or add it",
    ]


def test_a_lost_device_of_the_plan():
    assert reported(plan={**PLAN, "lost": ["gpu-1: t4 is missing"]})["summary"] == ["cp1: promises: gpu-1: t4 is missing"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dns": None, "dns2": None}, "cp1: CoreDNS: no pod of it is ready: names of services are not resolved"),
        ({"dns": pod("coredns-1", app="kube-dns", ready="False")}, "cp1: CoreDNS: 1 of 2 pods are ready"),
        ({"proxy2": None}, "gpu-1: kube-proxy: it does not run there: services are not reached from this host"),
        (
            {"api": pod("kube-apiserver-cp1", component="kube-apiserver", tag="v1.36.3")},
            "cp1: kube-apiserver-cp1: it is v1.36.3, the inventory says v1.37.2",
        ),
    ],
)
def test_pods_of_the_system(changes, sentence):
    assert reported(pods=pods(**changes))["summary"] == [sentence]


@pytest.mark.parametrize(
    ("look", "sentence"),
    [
        ({"time": 160}, "cp1: clock: its clock is 60 s ahead"),
        ({"time": 40}, "cp1: clock: its clock is 60 s behind"),
        (
            {"kubelet": "Dec 24 09:00:00 2026 GMT"},
            "cp1: kubelet's client certificate: it ends at 2026-12-24T09:00:00Z, in 29 days: kubelet did not renew it, look at"
            " 'journalctl -u kubelet'",
        ),
        (
            {"certificates": {"certificates": [{"name": "apiserver", "expirationDate": "2026-12-01T10:00:00Z"}]}},
            "cp1: apiserver: it ends at 2026-12-01T10:00:00Z, in 7 days: a run of the playbook kubernetes renews it",
        ),
    ],
)
def test_what_a_host_says(look, sentence):
    looks = seen()["hosts"]
    assert reported(hosts={**looks, "cp1": {**looks["cp1"], "asked": 100, "time": 100, **look}})["summary"] == [sentence]


def test_what_could_not_be_looked_at():
    found = reported(nodes=[], hosts={"cp1": seen()["hosts"]["cp1"]})
    assert (found["differs"], found["complete"]) == (False, False)
    assert found["summary"] == [
        "gpu-1: look could not be compared: its clock and certificates could not be read",
        "cp1: api could not be compared: the API does not answer, or there is no cluster yet",
    ]
    assert not reported(plan=None)["complete"]


def test_hosts_that_did_not_answer_or_were_left_out():
    silent = {"names": {"cp1": "cp1"}, "version": "1.37.2", "offers": {}, "lost": []}
    look = {"cp1": seen()["hosts"]["cp1"]}
    found = drift.report(
        {"cp1": {}}, ["cp1", "w1"], ["cp1", "w1"], "cp1", silent, seen(hosts=look, nodes=[node("cp1"), node(ready="Unknown")])
    )
    assert (found["not_reached"], found["complete"]) == (["w1"], False)
    assert "w1: it is not ready: kubelet is silent" in found["summary"]
    assert "w1: did not answer, or failed before it could be compared" in found["summary"]
    assert reported({"cp1": {}}, in_play=["cp1"])["left_out"] == ["gpu-1"]


@pytest.mark.parametrize(
    ("variable", "result", "line"),
    [
        ("__kubernetes_node_kubelet", {"changed": True, "paths": ["/etc/x"]}, "gpu-1: /etc/x differs"),
        (
            "__kubernetes_node_running",
            {"changed": True, "name": "kubelet", "reasons": ["it does not run"]},
            "gpu-1: kubelet: it does not run",
        ),
        ("__containerd_written", {"changed": True, "paths": ["/etc/c"]}, "gpu-1: /etc/c differs"),
        ("__kubernetes_packages_installed", {"changed": True, "stdout": "Inst kubelet (1)\n"}, "gpu-1: kubelet is not installed"),
        ("__kubernetes_node_x", {"failed": True, "msg": "no\nspace"}, "gpu-1: kubernetes_node_x could not be compared: no space"),
        ("__kubernetes_node_x", {"changed": True, "msg": "it would"}, "gpu-1: kubernetes_node_x: it would"),
        ("__kubernetes_control_plane_x", {"changed": True, "restarted": ["etcd"], "reasons": ["newer"]}, "gpu-1: etcd: newer"),
        (
            "__kubernetes_cluster_patched",
            {"results": [{"changed": True, "result": {"kind": "Node", "metadata": {"name": "w1"}}}, {"changed": False}]},
            "cp1: Node w1 differs",
        ),
        (
            "__kubernetes_cluster_delivered",
            {
                "changed": True,
                "result": {
                    "results": [
                        {"changed": True, "result": {"kind": "ConfigMap", "metadata": {"name": "a"}}},
                        {"changed": False, "result": {"kind": "DaemonSet", "metadata": {"name": "b"}}},
                    ]
                },
            },
            "cp1: ConfigMap a differs",
        ),
    ],
)
def test_results_of_a_run(variable, result, line):
    assert reported({"cp1": {}, "gpu-1": {variable: result}})["summary"] == [line]


@pytest.mark.parametrize(
    "variables",
    [
        {"__kubernetes_node_kubelet": {"changed": False, "paths": []}},
        {"__kubernetes_node_kubelet": {"changed": True, "skipped": True}},
        {"__slurm_node_written": {"changed": True, "paths": ["/etc/slurm"]}},
        {"kubernetes_cluster_plan": {"changed": True}},
        {"__kubernetes_node_text": "changed"},
    ],
)
def test_what_is_no_difference(variables):
    assert reported({"cp1": {}, "gpu-1": variables})["summary"] == []


def test_a_difference_is_reported_once_with_its_diff():
    result = {"changed": True, "paths": ["/etc/x"], "diff": [{"before": "a\n", "after": "b\n"}, {"prepared": "c"}]}
    found = reported({"cp1": {"__kubernetes_cluster_recorded": result}, "gpu-1": {"__kubernetes_cluster_recorded": result}})
    (one,) = found["differences"]
    assert (one["host"], one["kind"]) == ("cp1", "file") and "-a\n+b\nc" in one["diff"]


def test_what_differs_only_because_a_host_is_silent_is_left_out():
    unit, record = "/etc/systemd/system/deephdc-kubernetes-routes.service", "/var/lib/deephdc/kubernetes_accelerators"
    results = {
        "__kubernetes_node_network": {
            "changed": True,
            "paths": [unit, "/etc/kubernetes/deephdc.nft"],
            "diff": {"before": "a", "after": "b"},
        },
        "__kubernetes_cluster_recorded": {"changed": True, "paths": [record]},
        "__kubernetes_cluster_removed": {"changed": True, "msg": "it would"},
    }
    silent = {**PLAN, "names": {"cp1": "cp1"}, "offers": {}}
    lines = reported({"cp1": results}, plan=silent, nodes=[node("cp1"), node("gpu-1")], hosts={"cp1": seen()["hosts"]["cp1"]})["summary"]
    assert lines == ["cp1: /etc/kubernetes/deephdc.nft differs", "gpu-1: did not answer, or failed before it could be compared"]
    lines = reported({"cp1": results, "gpu-1": {}})["summary"]
    assert f"cp1: {unit}, /etc/kubernetes/deephdc.nft differs" in lines and f"cp1: {record} differs" in lines and len(lines) == 3
