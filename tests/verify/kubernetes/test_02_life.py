# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What happens to a cluster: a lost GPU, a host that is held, a run that is killed. A test begins with what the one before left."""

from __future__ import annotations

import json
import os
import random
import tempfile

import pytest
from kubernetes_site import BUSYBOX, KUBECTL, PLAYBOOK, Site, recap

OWNS = (
    "roles/containerd/tasks/main.yml",
    "roles/kubernetes_cluster/tasks/deliver.yml",
    "roles/kubernetes_node/files",
    "roles/kubernetes_node/meta/manager.yml",
    "roles/kubernetes_node/tasks/health.yml",
    "roles/kubernetes_node/tasks/hold.yml",
    "roles/kubernetes_node/tasks/join.yml",
    "roles/kubernetes_node/tasks/kubelet.yml",
    "roles/kubernetes_node/tasks/release.yml",
    "roles/kubernetes_node/templates",
    "roles/kubernetes_node/vars/main.yml",
    "plugins/module_utils/_kubernetes/lost.py",
    "plugins/module_utils/_kubernetes/pods.py",
    "plugins/modules/kubernetes_node_hold.py",
    "plugins/plugin_utils/_kubernetes/events.py",
    "plugins/plugin_utils/_kubernetes/nodes.py",
)

LOST = "accelerators.deephdc.org/lost"
HELD = "accelerators.deephdc.org/held"
EVENTS = f"{KUBECTL} get events --namespace default -o jsonpath={{.items[*].reason}}"
SIMULATED = "/var/lib/gpu_simulator"


def events(site: Site, *reasons: str) -> list[str]:
    """What the events of gpu1 with these reasons say."""
    return [one["message"] for one in site.get("events --namespace default")["items"] if one["reason"] in reasons]


def test_a_lost_gpu_takes_its_node_away_and_brings_it_back_by_itself(site: Site):
    """Within minutes, without a run of the playbook, which says the same and has nothing to change."""
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running")
    plugin = "--namespace deephdc-accelerators get pods --field-selector=spec.nodeName=gpu1 -o jsonpath={.items[*].metadata.uid}"
    before = site.kubectl(plugin)
    bus = f"{SIMULATED}/sys/bus/pci/devices"
    address = site.out("gpu1", f"ls {bus} | tail -1")
    seen_by_plugin = f"{SIMULATED}/proc/driver/nvidia/gpus/{address}"
    offered = f"{KUBECTL} get node gpu1 -o jsonpath={{.status.allocatable.nvidia\\\\.com/gpu}}"
    site.out("gpu1", f"mv {bus}/{address} /root/lost-device; mv {seen_by_plugin} /root/lost-information")
    away = f"{KUBECTL} get node gpu1 -o jsonpath={{.spec.unschedulable}}"
    try:
        site.until("cp1", away, "true", 120)
        why = site.node("gpu1")["metadata"]["annotations"][LOST]
        assert f"a100 at {address}" in why and "is missing" in why
        site.until("cp1", f"{EVENTS} | grep --only-matching AcceleratorLost", "AcceleratorLost", 60)
        assert events(site, "AcceleratorLost", "AcceleratorBack") == [why]
        assert site.kubectl(plugin) == before, "the pod of the device plugin is left alone as long as the device is lost"
        output = site.playbook(PLAYBOOK, succeeds=False)
        said = " ".join(output.split())
        assert f"a100 at {address}" in said and "is missing" in said and "gpu1" in said
        assert "failed=1" in recap(output, "cp1") and "changed=0" in recap(output, "cp1"), "it finds what the node said"
        assert "failed=1" in recap(site.playbook(PLAYBOOK, succeeds=False), "cp1"), "a second run says it again"
        assert site.node("gpu1")["metadata"]["annotations"][LOST] == why and site.node("gpu1")["spec"]["unschedulable"]
        assert site.get("pod working")["status"]["phase"] == "Running", "users' pods go on"
        # As after a reboot with the device away.
        site.kubectl("delete pods --namespace deephdc-accelerators --field-selector=spec.nodeName=gpu1")
        site.until("cp1", offered, "1", 60)
    finally:
        site.out("gpu1", f"mv /root/lost-device {bus}/{address}; mv /root/lost-information {seen_by_plugin}")
    site.until("cp1", f'test -n "$({away})" || echo uncordoned', "uncordoned", 120)
    assert LOST not in site.node("gpu1")["metadata"].get("annotations", {})
    site.until("cp1", offered, "2", 60)
    site.until("cp1", f"{EVENTS} | grep --only-matching AcceleratorBack", "AcceleratorBack", 60)
    assert events(site, "AcceleratorLost") == []
    output = site.playbook(PLAYBOOK)
    assert "changed=0" in recap(output, "cp1") and "changed=0" in recap(output, "gpu1")
    assert site.get("pod working")["status"]["phase"] == "Running"
    site.remove("working")


def test_a_node_that_a_role_holds_is_not_looked_at(site: Site):
    """Its GPUs must not be in use while a role changes them, and what goes away then is not lost."""
    bus = f"{SIMULATED}/sys/bus/pci/devices"
    address = site.out("gpu1", f"ls {bus} | tail -1")
    site.kubectl(f"annotate node gpu1 {HELD}=gpu_hold:test")
    site.out("gpu1", f"mv {bus}/{address} /root/lost-device")
    try:
        site.out("gpu1", "systemctl start kubernetes-gpu-health.service")
        node = site.node("gpu1")
        assert LOST not in node["metadata"]["annotations"] and not node["spec"].get("unschedulable")
    finally:
        site.out("gpu1", f"mv /root/lost-device {bus}/{address}")
        site.kubectl(f"annotate node gpu1 {HELD}-")


def test_the_check_of_gpus_has_the_rights_of_its_node(site: Site):
    """It says so when the API refuses it, and does nothing."""
    path = "/etc/kubernetes/deephdc-gpus.json"
    site.out("gpu1", f'cp {path} /root && sed -i \'s/"gpu1"/"gpu2"/; s/0000:/ffff:/\' {path}')
    journal = "journalctl --unit=kubernetes-gpu-health.service --lines=5 --output=cat"
    try:
        assert site.run("gpu1", "systemctl start kubernetes-gpu-health.service").returncode != 0
        assert "forbidden" in site.out("gpu1", journal)
        assert LOST not in site.node("gpu2")["metadata"].get("annotations", {})
    finally:
        site.out("gpu1", f"cp /root/deephdc-gpus.json {path} && systemctl start kubernetes-gpu-health.service")


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


def kubelet(site: Site) -> dict[str, object]:
    """The site's own settings, as the inventory has them."""
    import yaml

    return yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]["vars"]["kubernetes_cluster_kubelet"]


def test_what_another_cluster_has_is_refused(site: Site):
    path = "/etc/kubernetes/kubelet.conf"
    site.out("gpu2", f"cp --preserve {path} /root/kubelet.conf && sed -i 's/\\(certificate-authority-data: \\).*/\\1AAAA/' {path}")
    try:
        said = " ".join(site.playbook(PLAYBOOK, succeeds=False).split())
        assert "gpu2 is a node of another cluster" in said
    finally:
        site.out("gpu2", f"cp --preserve /root/kubelet.conf {path}")


@pytest.mark.parametrize("number", range(2))
def test_a_killed_run_is_completed_by_the_next(site: Site, number: int):
    """A worker that is made again, killed at a random task."""
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6)) + number
    print(f"KILL_SEED={seed}")
    site.kubectl("delete node gpu2 --ignore-not-found")
    site.out(
        "gpu2", "kubeadm reset --force >/dev/null 2>&1; rm -f /etc/cni/net.d/10-deephdc.conflist; ip link delete cni0 2>/dev/null; true"
    )
    chance = random.Random(seed)
    task = site.killed_playbook(PLAYBOOK, chance, 45, "--skip-tags", "install")
    print(f"killed at {task}")
    site.playbook(PLAYBOOK)
    assert site.node("gpu2")["metadata"]["labels"]["accelerators.deephdc.org/t4"] == "2"
    said = site.playbook(PLAYBOOK)
    for host in ("cp1", "gpu1", "gpu2"):
        assert "changed=0" in recap(said, host), said[-4000:]
