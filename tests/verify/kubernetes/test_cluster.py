# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The cluster that Molecule has made: what nodes offer, what pods get, and hosts that are refused."""

from __future__ import annotations

import pytest
from kubernetes_nodes import words
from kubernetes_site import PLAYBOOK, Site, recap

OWNS = (
    "roles/kubernetes_node/tasks/network.yml",
    "plugins/modules/kubernetes_gpu_probe.py",
    "plugins/plugin_utils/_kubernetes/device_plugin.py",
    "plugins/plugin_utils/_kubernetes/manifests.py",
    "tests/verify/kubernetes/conftest.py",
    "tests/verify/kubernetes_site.py",
)


def test_nodes_are_ready_and_tell_their_gpus(site: Site):
    offered = {}
    for node in site.get("nodes")["items"]:
        ready = next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready")
        assert ready == "True", node["metadata"]["name"]
        labels = {
            key.split("/")[1]: value for key, value in node["metadata"]["labels"].items() if key.startswith("accelerators.deephdc.org/")
        }
        labels.pop("device-plugin", None)
        offered[node["metadata"]["name"]] = (node["status"]["allocatable"].get("nvidia.com/gpu"), labels)
    assert offered == {"cp1": (None, {}), "gpu1": ("2", {"a100": "2"}), "gpu2": ("2", {"t4": "2"})}


def test_a_pod_gets_a_type_by_its_label_and_two_at_once(site: Site):
    site.kubectl(
        "create -f -",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "typed"},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"accelerators.deephdc.org/t4": "2"},
                "containers": [
                    {
                        "name": "c",
                        "image": "docker.io/library/busybox:1.37",
                        "imagePullPolicy": "Never",
                        "command": ["sh", "-c", "ls /dev/nvidia[0-9]*"],
                        "resources": {"limits": {"nvidia.com/gpu": 2}},
                    }
                ],
            },
        },
    )
    try:
        site.phase("typed", "Succeeded")
        assert site.logs("typed").split() == ["/dev/nvidia0", "/dev/nvidia1"]
        assert site.get("pod typed")["spec"]["nodeName"] == "gpu2"
    finally:
        site.remove("typed")


def test_more_than_a_node_has_waits_with_a_reason(site: Site):
    site.start("three", gpus=3)
    try:
        assert "2 Insufficient nvidia.com/gpu" in site.why("three")
    finally:
        site.remove("three")


def test_a_pod_without_a_gpu_does_not_take_a_gpu_host(site: Site):
    site.start("plain")
    try:
        assert "untolerated taint" in site.why("plain")
    finally:
        site.remove("plain")


@pytest.mark.parametrize("way", ["name", "address"])
def test_pods_of_two_hosts_reach_each_other(site: Site, way: str):
    """By the service's name, which CoreDNS on a third host resolves, or by the pod's own address over the routes."""
    site.start("web", "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www", gpus=1, node="gpu1")
    try:
        site.kubectl("label pod web app=web")
        site.kubectl("expose pod web --port=80 --target-port=8080")
        site.phase("web", "Running")
        address = site.get("pod web")["status"]["podIP"]
        url = "web.default.svc.cluster.local:80" if way == "name" else f"{address}:8080"
        host, port = url.split(":")
        get = f"printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {host} {port}"
        ask = f"for i in 1 2 3 4 5 6 7 8 9 10; do {get} && exit 0; sleep 1; done; exit 1"
        site.start("asking", ask, gpus=1, node="gpu2")
        site.phase("asking", "Succeeded")
        assert "hello" in site.logs("asking")
    finally:
        site.remove("web", "asking")
        site.kubectl("delete service web --ignore-not-found")


def test_a_kernel_without_a_module_is_named(site: Site):
    """As where br_netfilter lacks: there is no such setting."""
    wrong = {"__kubernetes_node_sysctl": ["net.ipv4.ip_forward", "net.bridge.no-such-setting"]}
    said = words(site.playbook(PLAYBOOK, "--limit", "gpu2", "--tags", "kubernetes_node", variables=wrong, succeeds=False))
    assert "The kernel of gpu2 does not take what Kubernetes needs" in said and "no-such-setting" in said and "br_netfilter" in said
    site.playbook(PLAYBOOK, "--limit", "gpu2", "--tags", "kubernetes_node")


def test_what_another_cluster_has_is_refused(site: Site):
    path = "/etc/kubernetes/kubelet.conf"
    site.out("gpu2", f"cp --preserve {path} /root/kubelet.conf && sed -i 's/\\(certificate-authority-data: \\).*/\\1AAAA/' {path}")
    try:
        said = " ".join(site.playbook(PLAYBOOK, succeeds=False).split())
        assert "gpu2 is a node of another cluster" in said
    finally:
        site.out("gpu2", f"cp --preserve /root/kubelet.conf {path}")


def test_a_second_run_changes_nothing(site: Site):
    said = site.playbook(PLAYBOOK)
    for host in ("cp1", "gpu1", "gpu2", "iam1"):
        assert "changed=0" in recap(said, host), said[-4000:]
