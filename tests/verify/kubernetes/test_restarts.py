# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Kubelet, containerd, the control plane or a whole node begins again under a user's pod."""

from __future__ import annotations

import time
from pathlib import Path

import yaml
from kubernetes_nodes import container, drift, job, words
from kubernetes_site import PLAYBOOK, Site, recap

OWNS = (
    "roles/containerd/tasks/main.yml",
    "roles/kubernetes_control_plane/tasks/certificates.yml",
    "roles/kubernetes_node/tasks/kubelet.yml",
    "roles/kubernetes_node/templates",
    "roles/kubernetes_node/vars/main.yml",
    "plugins/modules/kubernetes_static_pods.py",
    "plugins/plugin_utils/_kubernetes/certificates.py",
)

RESUME, REMOVE = "playbooks/kubernetes_resume.yml", "playbooks/kubernetes_remove_node.yml"


def kubelet(site: Site) -> dict[str, object]:
    """The site's own settings, as the inventory has them."""
    return yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]["vars"]["kubernetes_cluster_kubelet"]


def test_kubelet_and_containerd_are_restarted_under_a_running_pod(site: Site):
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running")
    before = site.get("pod working")["status"]["containerStatuses"][0]["containerID"]
    variables = {"kubernetes_cluster_kubelet": {**kubelet(site), "maxPods": 90}}
    said = site.playbook(PLAYBOOK, variables=variables)
    assert "changed=" in recap(said, "gpu1") and "changed=0" not in recap(said, "gpu1")
    site.until("cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf get node gpu1 -o jsonpath={.status.allocatable.pods}", "90")
    site.out("gpu1", "systemctl restart containerd")
    site.playbook(PLAYBOOK)
    status = site.get("pod working")["status"]
    assert status["phase"] == "Running" and status["containerStatuses"][0]["containerID"] == before
    site.remove("working")


# What ends kubelet at once, and what ends it some seconds after it said that it is healthy.
BEST = {"topologyManagerPolicy": "best"}
STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}


def test_settings_that_kubelet_refuses_reach_one_host_and_are_taken_back(site: Site):
    """Of all hosts or of one: the run fails, and each kubelet runs with what it had before."""
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running")
    before = site.get("pod working")["status"]["containerStatuses"][0]["containerID"]
    path = "/etc/kubernetes/kubelet.conf.d/50-deephdc.conf"
    look = f"sha256sum {path}; systemctl show -P MainPID kubelet"
    there = {host: site.out(host, look) for host in ("cp1", "gpu1", "gpu2")}
    for first, more, bad, says in (("gpu1", (), BEST, "topology"), ("gpu2", ("--limit", "gpu2"), STATIC, "checkpoint")):
        variables = {"kubernetes_cluster_kubelet": {**kubelet(site), **bad}}
        said = words(site.playbook(PLAYBOOK, *more, variables=variables, succeeds=False))
        assert f"The former {path} is back, and kubelet runs with it" in said and says in said, said[-3000:]
        assert site.out(first, "systemctl is-active kubelet") == "active"
        file = there.pop(first).splitlines()[0]
        assert site.out(first, f"sha256sum {path}") == file
        assert {host: site.out(host, look) for host in there} == there, "no further than that host"
        assert not site.out(first, f"ls -A {path.rpartition('/')[0]}").count("former")
    site.playbook(PLAYBOOK)
    status = site.get("pod working")["status"]
    assert status["phase"] == "Running" and status["containerStatuses"][0]["containerID"] == before
    site.remove("working")


def test_the_control_plane_is_restarted_under_a_running_pod(site: Site):
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running", 90)
    number = site.get("pod working")["status"]["containerStatuses"][0]["containerID"]
    container("cp1", site, "restart", "--time", "2")
    deadline = time.monotonic() + 180
    while site.run("cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=5s get --raw /readyz").stdout.strip() != "ok":
        assert time.monotonic() < deadline, "the API did not come back"
        time.sleep(1)
    status = site.get("pod working")["status"]
    assert status["phase"] == "Running" and status["containerStatuses"][0]["containerID"] == number
    site.remove("working")


def test_a_node_loses_its_power_and_is_back(site: Site, tmp_path: Path):
    """Its pod is begun again there, with its GPU; meanwhile the report says who does not answer."""
    job(site, "lasting", "gpu2")
    container("gpu2", site, "kill")
    try:
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        site.until("cp1", f'kubectl --kubeconfig /etc/kubernetes/admin.conf get node gpu2 -o "{path}"', "Unknown", 120)
        report = drift(site, tmp_path / "report.json", succeeds=False)
        assert (report["complete"], report["not_reached"]) == (False, ["gpu2"])
        silent = [line for line in report["summary"] if not line.startswith("gpu2: ")]
        assert not any("routes" in line or "accelerators" in line for line in silent), silent
        assert any(line.startswith("gpu2: it is not ready") for line in report["summary"]), report["summary"]
        said = words(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2"}, succeeds=False))
        assert "gpu2 does not answer" in said and "kubernetes_remove_dead" in said
        said = words(site.playbook(RESUME, "--limit", "gpu2", succeeds=False))
        assert "gpu2" in said
    finally:
        container("gpu2", site, "start")
    site.kubectl("wait --for=condition=Ready node gpu2 --timeout=180s")
    site.kubectl("wait --for=jsonpath={.status.ready}=1 job lasting --timeout=180s")
    site.playbook(PLAYBOOK)
    site.kubectl("delete job lasting --cascade=foreground")
