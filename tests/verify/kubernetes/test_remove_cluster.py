# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The cluster is taken off its hosts: not under a pod, not by a wrong name; then the hosts are as before."""

from __future__ import annotations

import random

import pytest
from kubernetes_site import Site, recap
from local import ROOT, changed

OWNS = (
    "playbooks/kubernetes_remove_cluster.yml",
    "roles/kubernetes_operations/files",
    "roles/kubernetes_operations/tasks/host.yml",
    "roles/kubernetes_operations/tasks/packages.yml",
    "roles/kubernetes_operations/tasks/remove_cluster*.yml",
    "roles/kubernetes_packages/tasks/before.yml",
)

PLAYBOOK = "playbooks/kubernetes_remove_cluster.yml"
LEAVES = "the cluster is removed"
NAME = "kubernetes"
HOSTS = ("cp1", "gpu1", "gpu2")
BACKUPS = "/var/backups/kubernetes"
# Made by the kernel's file systems that the hosts have from outside.
MOUNTS = ("/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd", "/srv/kubernetes")


def refused(site: Site, sentence: str, *arguments: str, **variables: str) -> None:
    said = " ".join(site.playbook(PLAYBOOK, *arguments, variables=variables, succeeds=False).split())
    assert sentence in said, said[-2000:]
    assert site.kubectl("get --raw /readyz") == "ok"
    assert not any(node["spec"].get("unschedulable") for node in site.get("nodes")["items"])


def test_another_name_is_refused(site: Site):
    refused(site, "kubernetes_remove_cluster is not set, but this inventory is of the cluster kubernetes")
    refused(site, "half a cluster serves no user", "--limit", "gpu1", kubernetes_remove_cluster=NAME)


def test_a_pod_of_a_user_is_not_ended(site: Site):
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running", 90)
    refused(site, "There are still pods of users: pod default/working on gpu1", kubernetes_remove_cluster=NAME)
    refused(site, "There are still pods of users: pod default/working on gpu1", "--check", kubernetes_remove_cluster=NAME)
    assert site.get("pod working")["status"]["phase"] == "Running"
    site.remove("working")


def listed(site: Site, host: str, file: str) -> set[str]:
    script = (ROOT / "tests/verify/slurm_uninstall/list_of_host").read_text()
    site.out(host, f"cat > /root/list_of_host <<'EOF'\n{script}\nEOF\nbash /root/list_of_host {file}", timeout=300)
    return of_the_host(site.out(host, f"cat {file}"))


def of_the_host(text: str) -> set[str]:
    """Without backups, which stay, and have their own test."""
    return {line for line in text.splitlines() if not any(f" {path} " in line for path in MOUNTS) and f" {BACKUPS}" not in line}


# What an upgrade, a restore and a change of a file of an earlier release leave, as test_upgrade.py and test_backup.py make the first two.
TRACES = """
cp /etc/kubernetes/deephdc-init.yaml /etc/kubernetes/deephdc-upgrade.yaml
mkdir -p /etc/kubernetes.before-restore-20261127T000000Z/pki /var/lib/etcd/before-restore-20261127T000000Z/snap
cp /etc/cni/net.d/10-deephdc.conflist /etc/cni/net.d/10-deephdc.conflist.before-deephdc
cp /etc/kubernetes/pki/ca.key /etc/kubernetes.before-restore-20261127T000000Z/pki
"""


@pytest.fixture(scope="module")
def gone(site: Site) -> dict[str, set[str]]:
    """What each host has after a run that was killed and the one that completed it.

    Before, the cluster published numbers and had a backup.
    """
    site.playbook("playbooks/kubernetes_information.yml")
    site.playbook("playbooks/kubernetes_backup.yml")
    site.out("cp1", TRACES)
    variables = {"kubernetes_remove_cluster": NAME}
    seed = random.randrange(10**6)
    print(f"KILL_SEED={seed}")
    task = site.killed_playbook(PLAYBOOK, random.Random(seed), 24, variables=variables)
    print(f"killed at {task}")
    site.playbook(PLAYBOOK, variables=variables)
    return {host: listed(site, host, "/root/after") for host in HOSTS}


@pytest.mark.parametrize("host", HOSTS)
def test_files_packages_users_and_units_are_as_before(site: Site, gone: dict[str, set[str]], host: str):
    before = of_the_host(site.out(host, "cat /root/before"))
    assert sorted(gone[host] - before) == []
    assert sorted(before - gone[host]) == []


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_of_it_runs_and_no_network_is_left(site: Site, gone: dict[str, set[str]], host: str):
    assert site.out(host, "pgrep -l 'kube|etcd|containerd|coredns|nvidia-device' || true") == ""
    assert site.out(host, "ip link show cni0 2>/dev/null; ip route show proto 137") == ""
    assert site.out(host, "ls -A /var/lib/kubelet /var/lib/etcd /var/lib/containerd 2>/dev/null | grep -v : || true") == ""


def test_backups_stay(site: Site, gone: dict[str, set[str]]):
    """They are private, and what a wrong decision could be taken back by."""
    assert site.out("cp1", f"stat --format=%a {BACKUPS}") == "700" and site.out("cp1", f"ls {BACKUPS}/*/etcd.db")
    assert site.out("cp1", "ls --directory /etc/kubernetes* 2>/dev/null || true") == "", "keys of the cluster"


def test_a_second_run_changes_nothing(site: Site, gone: dict[str, set[str]]):
    assert changed(site.playbook(PLAYBOOK, variables={"kubernetes_remove_cluster": NAME})) == []


def test_check_mode_predicts_a_cluster_on_hosts_without_one(site: Site, gone: dict[str, set[str]]):
    """As before the first run: nothing of it is installed, and a prediction changes nothing."""
    said = site.playbook("playbooks/kubernetes.yml", "--check")
    for host in HOSTS:
        line = recap(said, host)
        assert "failed=0" in line and "unreachable=0" in line and "changed=0" not in line, said[-4000:]
        assert site.run(host, "test -e /usr/bin/kubelet || test -e /etc/kubernetes").returncode, host
