# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An upgrade under a running pod, and one that goes back."""

from __future__ import annotations

import os
import random
import signal
import subprocess

import pytest
from kubernetes_site import PLAYBOOK, Site, recap
from kubernetes_versions import IMAGES, NEW, OLD, asked, container, hosts, kubelets, variables, version

OWNS = (
    "playbooks/kubernetes_upgrade.yml",
    "plugins/plugin_utils/_kubernetes/networks.py",
    "plugins/plugin_utils/_kubernetes/settings.py",
    "roles/kubernetes_upgrade/tasks/back.yml",
    "roles/kubernetes_upgrade/tasks/begin.yml",
    "roles/kubernetes_upgrade/tasks/control_plane.yml",
    "roles/kubernetes_upgrade/tasks/main.yml",
)

UPGRADE = "playbooks/kubernetes_upgrade.yml"
CTR = "ctr --namespace k8s.io images"
LEAVES = "Kubernetes can't go back to an older version"


@pytest.fixture(scope="module")
def working(site: Site):
    """A user's pod with a GPU, and its container."""
    site.playbook(PLAYBOOK)  # because test_remove_cluster.py has removed the cluster where all files run one after the other
    site.start("working", "sleep 36000", gpus=1, node="gpu1")
    site.phase("working", "Running")
    yield container(site, "working")
    site.remove("working")


def test_what_an_upgrade_refuses(site: Site, working: str):
    said = " ".join(site.playbook(PLAYBOOK, variables=variables(site, NEW), succeeds=False).split())
    assert "an upgrade has an order, so this role makes none" in said and "run the playbook kubernetes_upgrade" in said
    said = " ".join(site.playbook(UPGRADE, variables=variables(site, "1.37.1"), succeeds=False).split())
    assert "Kubernetes can't go back. Set kubernetes_cluster_version to 1.37.2" in said
    assert "Nothing to do: every host has Kubernetes 1.37.2." in " ".join(site.playbook(UPGRADE).split())


@pytest.mark.parametrize("playbook", [PLAYBOOK, UPGRADE])
def test_what_a_cluster_was_made_with_stays(site: Site, working: str, playbook: str):
    wanted = {"pod_network": "10.99.0.0/16", "service_network": "10.98.0.0/16", "node_prefix": 25}
    moved = {f"kubernetes_cluster_{name}": value for name, value in wanted.items()}
    said = site.playbook(playbook, variables=variables(site, OLD, **moved), succeeds=False)
    for name, value in wanted.items():
        assert f"The cluster was made with kubernetes_cluster_{name}" in " ".join(said.split()) and f"it would be {value} now" in said
    for host in hosts(site):
        assert "changed=0" in recap(said, host)


def test_check_mode_shows_the_plan(site: Site, working: str):
    said = " ".join(site.playbook(UPGRADE, "--check", variables=variables(site, NEW)).split())
    assert f"Kubernetes {NEW} comes to {', '.join(hosts(site))}, one after the other; the control plane had {OLD}." in said
    assert version(site) == OLD and kubelets(site) == {f"v{OLD}"}


def test_an_upgrade_to_a_broken_image_goes_back(site: Site, working: str):
    """The API server's new image has no API server."""
    control = [host for host in hosts(site) if host.startswith("cp")]
    for host in control:
        site.out(host, "; ".join(f"{CTR} tag --force docker.io/library/busybox:1.37 registry.k8s.io/{name}:v{NEW}" for name in IMAGES))
    try:
        said = " ".join(site.playbook(UPGRADE, variables=variables(site, NEW, kubernetes_upgrade_patience=40), succeeds=False).split())
        assert f"The upgrade to {NEW} failed on cp1 and was taken back: the control plane has {OLD} as before" in said, said[-3000:]
        assert version(site) == OLD and kubelets(site) == {f"v{OLD}"} and container(site, "working") == working
        assert OLD in site.out("cp1", "dpkg-query --show kubeadm") and "kubeadm" in site.out(
            "cp1", "cat /etc/apt/preferences.d/deephdc-kubernetes"
        )
        site.out("cp1", "test ! -e /var/lib/deephdc/kubernetes_upgrading")
    finally:
        for host in control:
            site.out(host, f"{CTR} rm {' '.join(f'registry.k8s.io/{name}:v{NEW}' for name in IMAGES)}")
    assert "failed=0" in recap(site.playbook(PLAYBOOK), "cp1"), "the cluster is as it was"


def services_answer_from_every_node(site: Site) -> None:
    address = site.kubectl("get service kubernetes -o jsonpath={.spec.clusterIP}")
    for host in hosts(site):
        assert asked(site, host, f"https://{address}/livez") == "ok", host


def a_run_changes_nothing(site: Site) -> None:
    said = site.playbook(UPGRADE, variables=variables(site, NEW))
    assert f"Nothing to do: every host has Kubernetes {NEW}." in " ".join(said.split())
    plain = site.playbook(PLAYBOOK, variables=variables(site, NEW))
    for host in hosts(site):
        assert "changed=0" in recap(said, host) and "changed=0" in recap(plain, host), plain[-3000:]
    said = " ".join(site.playbook(UPGRADE, variables=variables(site, OLD), succeeds=False).split())
    assert "Kubernetes can't go back" in said


def a_backup_was_made_before(site: Site) -> None:
    """By the first run. Those that completed it made one each, of what they found."""
    made = site.out("cp1", "grep --no-filename version /var/backups/kubernetes/*/manifest.json")
    assert f'"version": "{OLD}"' in made and f'"version": "{NEW}"' in made


def test_an_upgrade_that_is_killed_is_completed_by_the_same_command(site: Site, working: str):
    """Then services answer from every node, another run changes nothing, and there is a backup of before."""

    def kill(line: str, process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [") and "Install kubelet and kubectl of the new version" in line:
            os.killpg(process.pid, signal.SIGKILL)

    # The only host of the control plane is cordoned then, the workers have taints, and kubeadm waits for its own Job.
    code, said = site.watched_playbook(UPGRADE, kill, variables=variables(site, NEW))
    assert code == -signal.SIGKILL, said[-3000:]
    control = site.node("cp1")
    assert control["spec"].get("unschedulable") and "accelerators.deephdc.org/held" in control["metadata"]["annotations"]
    assert all(node["spec"].get("taints") for node in site.get("nodes")["items"])

    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
    print(f"KILL_SEED={seed}")
    # Behind the plan and the backup: from the first change of a host on.
    chance = random.Random(seed)
    task = site.killed_playbook(UPGRADE, chance, 110, variables=variables(site, NEW))
    print(f"killed at {task}")
    site.playbook(UPGRADE, variables=variables(site, NEW))
    assert version(site) == NEW and kubelets(site) == {f"v{NEW}"}
    assert container(site, "working") == working, "the same container as before"
    for node in site.get("nodes")["items"]:
        assert not node["spec"].get("unschedulable"), node["metadata"]["name"]
        assert "accelerators.deephdc.org/held" not in node["metadata"].get("annotations", {})
    services_answer_from_every_node(site)
    a_run_changes_nothing(site)
    a_backup_was_made_before(site)
