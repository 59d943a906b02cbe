# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A node is drained and resumed, on the word of an operator alone."""

from __future__ import annotations

from pathlib import Path

from kubernetes_nodes import job, words
from kubernetes_site import PLAYBOOK, Site
from local import changed

OWNS = (
    "tests/verify/kubernetes_nodes.py",
    "playbooks/kubernetes_drain.yml",
    "playbooks/kubernetes_resume.yml",
    "roles/kubernetes_operations",
    "plugins/filter/kubernetes_operations.py",
    "plugins/plugin_utils/_kubernetes/operations.py",
)

DRAINED = "accelerators.deephdc.org/drained"
DRAIN, RESUME, REMOVE = "playbooks/kubernetes_drain.yml", "playbooks/kubernetes_resume.yml", "playbooks/kubernetes_remove_node.yml"
SIMULATED = "/var/lib/gpu_simulator/sys/bus/pci/devices"


def test_a_request_that_is_not_clear_is_refused(site: Site):
    said = words(site.playbook(DRAIN, variables={"kubernetes_drain_nodes": "cp1"}, succeeds=False))
    assert "kubernetes_drain_nodes names cp1, which is in kubernetes_control_plane" in said
    assert "kubernetes_drain_reason is not set" in said
    said = words(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "cp1"}, succeeds=False))
    assert "a host with a member of etcd is left alone" in said


def test_a_drain_waits_for_a_job_and_ends_none_and_resuming_gives_back(site: Site):
    job(site, "training", "gpu1")
    wanted = {"kubernetes_drain_nodes": "gpu1", "kubernetes_drain_reason": "new fan", "kubernetes_drain_wait": 3}
    said = words(site.playbook(DRAIN, "--check", variables=wanted))
    assert "pod default/training-" in said and "of Job training on gpu1" in said
    assert not site.node("gpu1")["spec"].get("unschedulable"), "only a prediction"
    said = words(site.playbook(DRAIN, variables=wanted, succeeds=False))
    assert "After 3 s there is still pod default/training-" in said and "Nothing was ended" in said
    node = site.node("gpu1")
    assert node["spec"]["unschedulable"] and node["metadata"]["annotations"][DRAINED] == "new fan"
    assert site.get("job training")["status"]["active"] == 1
    # A run of the site gives nothing back, and neither does a node that lacks a device.
    site.playbook(PLAYBOOK, "--tags", "kubernetes_cluster")
    assert site.node("gpu1")["spec"]["unschedulable"]
    address = site.out("gpu1", f"ls {SIMULATED} | tail -1")
    # Else the worker may find the loss itself, and marks the node.
    site.out("gpu1", f"systemctl stop kubernetes-gpu-health.timer; mv {SIMULATED}/{address} /root/lost-device")
    said = words(site.playbook(RESUME, "--limit", "gpu1", succeeds=False))
    assert "gpu1 stays as it is, because" in said and address in said and "is missing" in said
    site.out("gpu1", f"mv /root/lost-device {SIMULATED}/{address}; systemctl start kubernetes-gpu-health.timer")
    site.playbook(RESUME, "--limit", "gpu1")
    node = site.node("gpu1")
    assert not node["spec"].get("unschedulable") and DRAINED not in node["metadata"]["annotations"]
    assert changed(site.playbook(RESUME, "--limit", "gpu1")) == []
    site.kubectl("delete job training --cascade=foreground")


def test_what_no_drain_took_is_not_given_back(site: Site):
    site.kubectl("cordon gpu2")
    try:
        said = words(site.playbook(RESUME, "--limit", "gpu2", succeeds=False))
        assert "gpu2 stays cordoned, because no run of kubernetes_drain did that" in said
        assert site.node("gpu2")["spec"]["unschedulable"]
    finally:
        site.kubectl("uncordon gpu2")


def test_another_host_is_asked_where_the_first_one_of_the_control_plane_is_down(site: Site, tmp_path: Path):
    """It is drained and given back, and the promise of its devices is read from the one that answers."""
    path = tmp_path / "down.yml"
    path.write_text("{kubernetes_control_plane: {hosts: {cp0: {ansible_host: cp0.invalid}}}}", encoding="utf-8")
    inventories = (str(path), "hosts.yml")
    site.playbook(DRAIN, "--limit", "gpu2", inventories=inventories, variables={"kubernetes_drain_reason": "new fan"})
    assert site.node("gpu2")["metadata"]["annotations"][DRAINED] == "new fan"
    address = site.out("gpu2", f"ls {SIMULATED} | tail -1")
    # Else the worker may find the loss itself, and marks the node.
    site.out("gpu2", f"systemctl stop kubernetes-gpu-health.timer; mv {SIMULATED}/{address} /root/lost-device")
    try:
        said = words(site.playbook(RESUME, "--limit", "gpu2", inventories=inventories, succeeds=False))
        assert "gpu2 stays as it is, because" in said and f"{address}" in said
    finally:
        site.out("gpu2", f"mv /root/lost-device {SIMULATED}/{address}; systemctl start kubernetes-gpu-health.timer")
    site.playbook(RESUME, "--limit", "gpu2", inventories=inventories)
    assert not site.node("gpu2")["spec"].get("unschedulable")
