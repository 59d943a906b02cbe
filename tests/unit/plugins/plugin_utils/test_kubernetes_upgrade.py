# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an upgrade of Kubernetes does and refuses."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import upgrade

OLD, NEW = "1.37.2", "1.37.3"
GROUPS = {"kubernetes_control_plane": ["cp1"], "kubernetes_workers": ["gpu2", "gpu1"]}


def lines(version: str, api: bool = False, noted: str = "", **packages: str) -> str:
    names = {**dict.fromkeys(("kubeadm", "kubectl", "kubelet"), version), **packages}
    text = "".join(f"package {name} {number}-1.1\n" for name, number in names.items())
    return text + (f"api {version}\n" if api else "") + (f"noted {noted}\n" if noted else "")


def planned(target=NEW, api=OLD, proxy=None, config=None, groups=None, read=None, specs=None, notes=None, **kubelets):
    """A cluster at OLD; kubelets: versions of nodes by name, read: lines of hosts, specs and notes: of nodes."""
    running = {"cp1": OLD, "gpu1": OLD, "gpu2": OLD, **kubelets}
    hosts = {"cp1": lines(api, api=True), "gpu1": lines(running["gpu1"]), "gpu2": lines(running["gpu2"]), **(read or {})}
    nodes = [
        {
            "metadata": {"name": name, "annotations": (notes or {}).get(name)},
            "spec": (specs or {}).get(name, {}),
            "status": {"nodeInfo": {"kubeletVersion": f"v{version}"}},
        }
        for name, version in running.items()
    ]
    cluster = {
        "kubeadm": f"kubernetesVersion: v{config or api}\nnetworking: {{}}\n",
        "kube_proxy": f"registry.k8s.io/kube-proxy:v{proxy or api}",
    }
    read = {host: text for host, text in hosts.items() if text}
    names = {host: host for group in (groups or GROUPS).values() for host in group}
    return upgrade.plan(read, (groups or GROUPS), names, nodes, cluster, target)


def test_the_control_plane_comes_first_then_the_workers():
    plan = planned()
    assert (plan["errors"], plan["from"], plan["apply"]) == ([], OLD, True)
    assert (plan["control_plane"], plan["workers"], plan["left"]) == (["cp1"], ["gpu1", "gpu2"], [])


def test_a_cluster_that_has_the_version_is_left_alone():
    plan = planned(target=OLD)
    assert (plan["errors"], plan["apply"], plan["control_plane"], plan["workers"]) == ([], False, [], [])


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("1.37.1", "Kubernetes can't go back. Set kubernetes_cluster_version to 1.37.2"),
        ("1.36.9", "can't go back"),
        ("1.39.0", "Go to a version 1.38 first"),
        ("2.37.2", "one minor release at a time"),
        ("1.38.0", None),
        ("1.37.9", None),
    ],
)
def test_one_minor_release_at_a_time_and_never_back(target, sentence):
    errors = planned(target=target)["errors"]
    assert (len(errors) == 1 and sentence in errors[0]) if sentence else errors == []


def test_an_upgrade_that_was_left_is_completed_before_the_next():
    errors = planned(target="1.38.0", gpu2="1.36.9")["errors"]
    assert errors == [
        "gpu2 has kubelet 1.36.9, and the control plane 1.37.2: complete that upgrade first, with kubernetes_cluster_version 1.37.2."
    ]
    assert planned(target=NEW, gpu2="1.36.9")["errors"] == [], "the same minor release is the way to complete it"


def test_a_newer_kubelet_is_refused():
    assert "gpu1 has kubelet 1.38.1, which is newer than kubernetes_cluster_version 1.37.3" in planned(gpu1="1.38.1")["errors"][0]


def test_all_hosts_of_the_control_plane_must_answer():
    groups = {**GROUPS, "kubernetes_control_plane": ["cp1", "cp2", "cp3"]}
    read = {"cp2": lines(OLD, api=True)}
    assert planned(groups=groups, read=read)["errors"] == [
        "cp3 does not answer: bring it up first, as the hosts of kubernetes_control_plane are upgraded together."
    ]


def test_a_host_without_an_api_server_is_no_control_plane():
    assert "has no API server" in planned(read={"cp1": lines(OLD)})["errors"][0]


@pytest.mark.parametrize(
    ("given", "control", "workers", "apply"),
    [
        # What a killed run may leave, from the first stage to the last.
        ({"read": {"cp1": lines(OLD, api=True, noted=NEW, kubeadm=NEW)}}, ["cp1"], ["gpu1", "gpu2"], True),
        ({"api": NEW, "config": OLD, "proxy": OLD}, ["cp1"], ["gpu1", "gpu2"], True),
        ({"api": NEW, "proxy": OLD, "cp1": NEW}, ["cp1"], ["gpu1", "gpu2"], True),
        ({"api": NEW}, ["cp1"], ["gpu1", "gpu2"], False),
        ({"api": NEW, "cp1": NEW}, [], ["gpu1", "gpu2"], False),
        ({"api": NEW, "cp1": NEW, "gpu1": NEW}, [], ["gpu2"], False),
        ({"api": NEW, "cp1": NEW, "gpu1": NEW, "gpu2": NEW, "read": {"gpu2": lines(NEW, noted=NEW)}}, [], ["gpu2"], False),
        ({"api": NEW, "cp1": NEW, "gpu1": NEW, "gpu2": OLD, "read": {"gpu2": lines(NEW)}}, [], ["gpu2"], False),
        ({"api": NEW, "cp1": NEW, "gpu1": NEW, "gpu2": NEW, "read": {"gpu2": lines(OLD)}}, [], ["gpu2"], False),
        ({"api": NEW, "cp1": NEW, "gpu1": NEW, "gpu2": NEW}, [], [], False),
    ],
)
def test_what_a_killed_run_left_is_completed(given, control, workers, apply):
    plan = planned(**given)
    assert (plan["errors"], plan["control_plane"], plan["workers"], plan["apply"]) == ([], control, workers, apply)


def test_kube_proxy_of_three_comes_with_the_last_of_them():
    """So its version says nothing of the first host before."""
    groups = {**GROUPS, "kubernetes_control_plane": ["cp1", "cp2", "cp3"]}
    begun = {"cp2": lines(OLD, api=True), "cp3": lines(OLD, api=True)}
    plan = planned(groups=groups, read=begun, api=NEW, proxy=OLD, cp1=NEW, cp2=OLD, cp3=OLD)
    assert (plan["apply"], plan["control_plane"]) == (False, ["cp2", "cp3"])
    done = {"cp2": lines(NEW, api=True), "cp3": lines(NEW, api=True)}
    plan = planned(groups=groups, read=done, api=NEW, proxy=OLD, cp1=NEW, cp2=NEW, cp3=NEW)
    assert (plan["apply"], plan["control_plane"]) == (True, ["cp1"])


def test_workers_outside_of_the_run_are_named():
    assert planned(read={"gpu2": ""})["left"] == ["gpu2 does not answer and has kubelet 1.37.2"]


def test_a_worker_that_never_joined_is_no_part_of_an_upgrade():
    groups = {**GROUPS, "kubernetes_workers": ["gpu1", "gpu2", "gpu3"]}
    assert planned(groups=groups, read={"gpu3": lines(OLD)})["workers"] == ["gpu1", "gpu2"]


@pytest.mark.parametrize(("cgroup", "ignored"), [(1, ["SystemVerification"]), (2, None)])
def test_kubeadm_is_given_the_version_and_the_time(cgroup, ignored):
    given = upgrade.configuration(NEW, "Never", cgroup, 60)
    assert (
        given["apply"]["kubernetesVersion"] == "v1.37.3"
        and given["apply"]["forceUpgrade"]
        and given["timeouts"] == {"upgradeManifests": "60s"}
    )
    assert [given[part].get("ignorePreflightErrors") for part in ("apply", "node")] == [ignored] * 2
    assert given["node"]["imagePullPolicy"] == "Never" and "kubernetesVersion" not in given["node"]


def pod(name: str, container: str, **more):
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "containerID": container, "state": {"running": {}}}]}
    return {"metadata": {"uid": name, "namespace": "physics", "name": name, **more}, "spec": {"containers": []}, "status": status}


def test_a_pod_with_another_container_is_named():
    of_daemon = {"ownerReferences": [{"kind": "DaemonSet", "name": "plugin", "controller": True}]}
    before = [pod("same", "1"), pod("other", "2"), pod("gone", "3"), pod("plugin", "4", **of_daemon)]
    after = [pod("same", "1"), pod("other", "9"), pod("plugin", "8", **of_daemon)]
    assert upgrade.restarted(before, after) == ["pod physics/other"]
    ended = pod("same", "1")
    ended["status"]["containerStatuses"][0]["state"] = {"terminated": {}}
    assert upgrade.restarted([pod("same", "1")], [ended]) == []


CORDONED = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
FOR_GPUS = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
CONTROL = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
BEGUN = {"accelerators.deephdc.org/held": "kubernetes_upgrade: to 1.37.3"}
DRAINED = {"accelerators.deephdc.org/drained": "disk"}


@pytest.mark.parametrize(
    ("control", "notes", "worker", "is_refused"),
    [
        (CONTROL, {}, FOR_GPUS, False),
        (CORDONED, {}, FOR_GPUS, True),
        (CORDONED, DRAINED, FOR_GPUS, True),
        (CORDONED, BEGUN, FOR_GPUS, False),
        (CORDONED, {**BEGUN, **DRAINED}, FOR_GPUS, True),
        (CORDONED, {}, {}, False),
        (CORDONED, {}, {"taints": [{"key": "nvidia.com/gpu", "effect": "PreferNoSchedule"}]}, False),
        (CORDONED, {}, CORDONED, False),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}, {}, FOR_GPUS, True),
    ],
)
def test_a_node_must_take_the_job_by_which_kubeadm_begins(control, notes, worker, is_refused):
    given = {"specs": {"cp1": control, "gpu1": worker, "gpu2": worker}, "notes": {"cp1": notes}}
    plan = planned(**given)
    errors = plan["errors"]
    assert len(errors) == is_refused
    assert plan["held"] == (["cp1"] if BEGUN.items() <= notes.items() else [])
    if is_refused:
        assert "no node takes it: cp1 " in errors[0] and "gpu1 has the taint nvidia.com/gpu" in errors[0]
        assert "kubernetes_resume" in errors[0]
    # Without kubeadm's upgrade of the control plane there is no such Job.
    assert planned(target=OLD, **given)["errors"] == []
