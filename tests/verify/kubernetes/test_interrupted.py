# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs for a part of the hosts, and runs that are killed, while a user's pod goes on."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
import yaml
from kubernetes_site import PLAYBOOK, Site, recap
from kubernetes_versions import container, hosts, variables, version
from local import changed

OWNS = ("roles/kubernetes_cluster/tasks/main.yml",)

REMOVE = "playbooks/kubernetes_remove_node.yml"
RECORD = "cat /var/lib/deephdc/kubernetes_accelerators"
ROUTES = "ip route show proto 137"
SETTINGS = "cat /etc/kubernetes/kubelet.conf.d/50-deephdc.conf"


@pytest.fixture(scope="module")
def now(site: Site) -> dict[str, Any]:
    """What playbooks are given: the version that the cluster has."""
    return variables(site, version(site))


@pytest.fixture(scope="module")
def other(site: Site, now: dict[str, Any]) -> dict[str, Any]:
    """The same site with a setting that concerns every kubelet."""
    kubelet = yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]["vars"]["kubernetes_cluster_kubelet"]
    return {**now, "kubernetes_cluster_kubelet": {**kubelet, "maxPods": 80}}


@pytest.fixture(scope="module")
def working(site: Site):
    site.start("working", "sleep 36000", gpus=1, node="gpu1")
    site.phase("working", "Running")
    yield container(site, "working")
    site.remove("working")


def test_a_run_for_one_host_leaves_the_others_as_they_are(site: Site, now: dict[str, Any], other: dict[str, Any], working: str):
    """The plan has all hosts nevertheless: no route is lost, and no promise."""
    before = {host: site.out(host, f"{SETTINGS}; {ROUTES}") for host in hosts(site)}
    record = site.out("cp1", RECORD)
    said = site.playbook(PLAYBOOK, "--limit", "gpu1", variables=other)
    with pytest.raises(StopIteration):
        recap(said, "gpu2")
    assert '"maxPods": 80' in site.out("gpu1", SETTINGS)
    site.until("cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf get node gpu1 -o jsonpath={.status.allocatable.pods}", "80")
    for host in ("cp1", "gpu2"):
        assert site.out(host, f"{SETTINGS}; {ROUTES}") == before[host]
    site.playbook(PLAYBOOK, "--limit", "gpu1", variables=now)
    assert site.out("gpu1", f"{SETTINGS}; {ROUTES}") == before["gpu1"]
    assert site.out("cp1", RECORD) == record and "gpu2" in record
    assert container(site, "working") == working


def test_runs_that_are_killed_are_completed_by_a_plain_one(site: Site, now: dict[str, Any], other: dict[str, Any], working: str):
    """A node goes and comes again, with another setting of every kubelet and a new certificate: six runs are killed at random tasks."""
    seed = int(os.environ.get("KILL_SEED") or 1515)
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    leaves = {**now, "kubernetes_remove_nodes": "gpu2"}
    for _number in range(2):
        print("killed during:", site.killed_playbook(REMOVE, chance, 38, variables=leaves))
    site.playbook(REMOVE, variables=leaves)
    assert {node["metadata"]["name"] for node in site.get("nodes")["items"]} == {"cp1", "gpu1"}
    assert site.get("pods --all-namespaces --field-selector=spec.nodeName=gpu2")["items"] == []
    assert "gpu2" not in site.out("cp1", RECORD)
    assert changed(site.playbook(REMOVE, variables=leaves)) == []

    config = {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": f"v{version(site)}"}
    config["certificateValidityPeriod"] = "240h"
    site.out("cp1", f"echo '{json.dumps(config)}' > /root/short.yaml; kubeadm certs renew apiserver --config /root/short.yaml")
    for _number in range(4):
        print("killed during:", site.killed_playbook(PLAYBOOK, chance, 100, variables=other))
    site.playbook(PLAYBOOK, variables=other)
    site.kubectl("wait --for=condition=Ready node --all --timeout=120s")
    for host in hosts(site):
        assert '"maxPods": 80' in site.out(host, SETTINGS)
        assert len(site.out(host, ROUTES).splitlines()) == len(hosts(site)) - 1, host
    assert site.node("gpu2")["metadata"]["labels"]["accelerators.deephdc.org/t4"] == "2" and "gpu2" in site.out("cp1", RECORD)
    ends = site.out("cp1", "openssl s_client -connect 127.0.0.1:6443 </dev/null 2>/dev/null | openssl x509 -noout -checkend 8640000")
    assert "will not expire" in ends
    assert container(site, "working") == working, "the same container as before"
    assert changed(site.playbook(PLAYBOOK, variables=other)) == []
    site.playbook(PLAYBOOK, variables=now)
