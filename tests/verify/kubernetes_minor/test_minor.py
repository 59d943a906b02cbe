# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of 1.36, and its upgrade to 1.37 under a user's pod.

A test begins with what the one before left.

It runs where 1.36 was compiled: always by `make test NAME=kubernetes_minor`, else where an earlier run kept it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes_site import KUBECTL, PLAYBOOK, TRY, Site, recap
from kubernetes_versions import asked, container, hosts, kubelets, variables, version

OWNS = (
    "roles/kubernetes_packages/tasks/main.yml",
    "roles/kubernetes_packages/tasks/upgrade.yml",
    "roles/kubernetes_upgrade",
    "roles/kubernetes_upgrade/tasks/control_plane.yml",
    "roles/kubernetes_upgrade/tasks/main.yml",
    "plugins/plugin_utils/_kubernetes/runtimes.py",
    "plugins/plugin_utils/_kubernetes/upgrade.py",
    "molecule/kubernetes_minor",
    "tests/kubernetes/older",
    "tests/verify/kubernetes_minor/conftest.py",
    "tests/verify/kubernetes_versions.py",
)

UPGRADE = "playbooks/kubernetes_upgrade.yml"
OLDER, NEWER = "1.36.3", "1.37.2"


def words(text: str) -> str:
    """What a run said, without line ends and without what YAML makes of an apostrophe."""
    return " ".join(text.split()).replace("''", "'")


def images(site: Site) -> set[str]:
    """What the control plane's own pods run, without the registry's name."""
    pods = site.get("pods --namespace kube-system")["items"]
    return {one["image"].rpartition("/")[2] for pod in pods for one in pod["spec"]["containers"]}


def has_its_gpu(site: Site, pod: str) -> None:
    """A pod that runs TRY opens its own GPU, and no other one."""
    site.until("cp1", f"{KUBECTL} logs {pod}", "own ")
    lines = site.logs(pod).splitlines()
    mine = lines[-1].split()[1]
    assert [line for line in lines if line.startswith("has ")] == [f"has /dev/nvidia{mine}"], lines
    other = [line for line in lines if line.startswith(f"{1 - int(mine)}: ")]
    assert len(other) == 1 and "Operation not permitted" in other[0], lines


@pytest.fixture(scope="module")
def working(site: Site) -> Iterator[str]:
    """A user's pod with a GPU, and its container."""
    site.start("working", f"{TRY}sleep 36000", gpus=1, node="gpu1")
    site.phase("working", "Running")
    yield container(site, "working")
    site.remove("working")


def test_a_cluster_of_the_older_release_has_all_of_it(site: Site):
    assert version(site) == OLDER and kubelets(site) == {f"v{OLDER}"}
    assert {"etcd:3.6.8-0", "coredns:v1.14.2", f"kube-apiserver:v{OLDER}", f"kube-proxy:v{OLDER}"} <= images(site)
    assert site.node("gpu1")["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_a_users_pod_has_its_gpu_on_the_older_release(site: Site, working: str):
    has_its_gpu(site, "working")


def test_two_releases_at_once_are_refused(site: Site, working: str):
    said = words(site.playbook(UPGRADE, variables={"kubernetes_cluster_version": "1.38.0"}, succeeds=False))
    assert "kubernetes_cluster_version is 1.38.0, but no test ran on 1.38: choose one of 1.36, 1.37." in said, said[-3000:]
    said = words(site.playbook(PLAYBOOK, variables=variables(site, NEWER), succeeds=False))
    assert "run the playbook kubernetes_upgrade" in said, said[-3000:]
    assert version(site) == OLDER and kubelets(site) == {f"v{OLDER}"}


def test_an_upgrade_by_a_minor_release_leaves_a_users_pod_alone(site: Site, working: str):
    said = words(site.playbook(UPGRADE, variables=variables(site, NEWER)))
    assert f"Kubernetes {NEWER} comes to cp1, gpu1, one after the other; the control plane had {OLDER}." in said
    assert version(site) == NEWER and kubelets(site) == {f"v{NEWER}"}
    assert container(site, "working") == working, "the same container as before"
    assert {"etcd:3.7.0-0", "coredns:v1.14.6", f"kube-apiserver:v{NEWER}", f"kube-proxy:v{NEWER}"} <= images(site)
    assert not [image for image in images(site) if OLDER in image]
    for node in site.get("nodes")["items"]:
        assert not node["spec"].get("unschedulable"), node["metadata"]["name"]


def test_services_answer_from_every_node_afterwards(site: Site):
    address = site.kubectl("get service kubernetes -o jsonpath={.spec.clusterIP}")
    for host in hosts(site):
        assert asked(site, host, f"https://{address}/livez") == "ok", host


def test_the_next_pod_has_the_other_gpu(site: Site, working: str):
    site.start("next", f"{TRY}sleep 600", gpus=1, node="gpu1")
    try:
        site.phase("next", "Running")
        has_its_gpu(site, "next")
        assert site.logs("next").splitlines()[-1] != site.logs("working").splitlines()[-1]
    finally:
        site.remove("next")


def test_a_plain_run_afterwards_changes_nothing(site: Site, working: str):
    said = site.playbook(PLAYBOOK, variables=variables(site, NEWER))
    for host in hosts(site):
        assert "changed=0" in recap(said, host), said[-4000:]
    assert container(site, "working") == working


def test_the_way_back_is_refused(site: Site, working: str):
    """Both playbooks, with what the inventory says."""
    said = words(site.playbook(UPGRADE, succeeds=False))
    assert f"Kubernetes can't go back. Set kubernetes_cluster_version to {NEWER}, or restore a backup" in said, said[-3000:]
    said = words(site.playbook(PLAYBOOK, succeeds=False))
    assert "an upgrade has an order, so this role makes none" in said, said[-3000:]
    assert version(site) == NEWER and kubelets(site) == {f"v{NEWER}"} and container(site, "working") == working
