# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A host that a role holds while it changes the GPUs, and one that an administrator cordoned."""

from __future__ import annotations

import json
import tempfile

from kubernetes_site import BUSYBOX, Site

OWNS = (
    "roles/kubernetes_node/meta/manager.yml",
    "roles/kubernetes_node/tasks/hold.yml",
    "roles/kubernetes_node/tasks/release.yml",
    "plugins/module_utils/_kubernetes/pods.py",
    "plugins/modules/kubernetes_node_hold.py",
)

HELD = "accelerators.deephdc.org/held"


def held(site: Site, *entries: str, succeeds: bool = True, **variables: object) -> str:
    """A play that does what a role does that disturbs gpu1."""
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "deephdc.accelerators.gpu_hold", "tasks_from": entry},
            "vars": {"gpu_hold_holder": "nvidia_driver"},
        }
        for entry in entries
    ]
    play = [{"hosts": "gpu1", "gather_facts": False, "vars": {"gpu_hold_wait": 0.1, **variables}, "tasks": tasks}]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump(play, file)
        file.flush()
        return " ".join(site.playbook(file.name, succeeds=succeeds).split())


def deployment(site: Site) -> None:
    """A service of two pods, of which one must always be there."""
    labels = {"app": "service"}
    container = {
        "name": "c",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sleep", "3600"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    pod = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    site.kubectl("create -f -", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "service"}, "spec": spec})
    budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    site.kubectl("create -f -", {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "service"}, "spec": budget})
    site.kubectl("rollout status deployment service --timeout=60s")


def test_a_host_is_not_taken_from_a_job_and_services_move(site: Site):
    """The job's pod ends by itself or not at all.

    The service's pods go to the other host.
    """
    site.kubectl(f"create job training --image={BUSYBOX} -- sleep 600")
    job = site.get("job training")
    site.kubectl("delete job training")
    job["spec"]["template"]["spec"]["containers"][0].update({"imagePullPolicy": "Never", "resources": {"limits": {"nvidia.com/gpu": 1}}})
    job["spec"]["template"]["spec"].update({"nodeSelector": {"kubernetes.io/hostname": "gpu1"}, "terminationGracePeriodSeconds": 0})
    spec = {"template": {"spec": job["spec"]["template"]["spec"]}}
    site.kubectl("create -f -", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "training"}, "spec": spec})
    site.kubectl("wait --for=jsonpath={.status.ready}=1 job training --timeout=60s")
    deployment(site)
    try:
        said = held(site, "main", succeeds=False)
        # On a busy machine the service's pod may still be there, too.
        assert "there still is pod default/" in said and "pod default/training-" in said and "of Job training" in said
        assert "It was given back to its users" in said
        assert site.get("job training")["status"].get("active") == 1
        assert not site.node("gpu1")["spec"].get("unschedulable"), "given back"
        site.kubectl("delete job training --cascade=foreground")
        held(site, "main", gpu_hold_wait=1)
        node = site.node("gpu1")
        assert node["spec"]["unschedulable"] and node["metadata"]["annotations"][HELD].startswith("gpu_hold: nvidia_driver")
        where = [
            pod["spec"].get("nodeName") for pod in site.get("pods --selector=app=service")["items"] if pod["status"]["phase"] == "Running"
        ]
        assert "gpu1" not in where and len(where) >= 1
        held(site, "release")
        node = site.node("gpu1")
        assert not node["spec"].get("unschedulable") and HELD not in node["metadata"].get("annotations", {})
    finally:
        site.kubectl("delete deployment,pdb service --ignore-not-found")
        site.kubectl("delete job training --ignore-not-found")


def test_a_node_that_an_administrator_cordoned_stays_so(site: Site):
    site.kubectl("cordon gpu1")
    try:
        said = held(site, "main", "release")
        assert "gpu1 was cordoned already and stays so" in said
        assert site.node("gpu1")["spec"]["unschedulable"]
    finally:
        site.kubectl("uncordon gpu1")
