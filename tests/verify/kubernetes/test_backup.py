# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A backup, the loss of the control plane, and its restore on an empty host, while a user's pod goes on."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_site import Site
from kubernetes_versions import container, variables, version

OWNS = (
    "playbooks/kubernetes_backup.yml",
    "playbooks/kubernetes_restore.yml",
    "roles/kubernetes_backup",
    "plugins/module_utils/_kubernetes/backup.py",
    "plugins/module_utils/_kubernetes/etcd.py",
    "plugins/modules/kubernetes_backup.py",
    "plugins/modules/kubernetes_restore.py",
)

BACKUP, RESTORE = "playbooks/kubernetes_backup.yml", "playbooks/kubernetes_restore.yml"
FORMER = "/var/lib/etcd/before-restore-* /etc/kubernetes.before-restore-*"
LOSE = "rm -rf /etc/kubernetes /var/lib/etcd/member /var/lib/deephdc /var/backups/kubernetes"


@pytest.fixture(scope="module")
def now(site: Site):
    """What playbooks are given: the version that the cluster has."""
    return variables(site, version(site))


@pytest.fixture(scope="module")
def working(site: Site):
    site.start("working", "sleep 36000", gpus=1, node="gpu1")
    site.phase("working", "Running")
    yield container(site, "working")
    site.remove("working")


@pytest.fixture(scope="module")
def saved(site: Site, working: str, now: dict[str, object], tmp_path_factory) -> Iterator[Path]:
    """A backup on the control node, with an object of before it and one of after it."""
    directory = tmp_path_factory.mktemp("backups")
    # Of an earlier run on these hosts.
    site.kubectl("delete configmap before after --ignore-not-found")
    site.kubectl("create configmap before --from-literal=a=1")
    site.playbook(BACKUP, variables={**now, "kubernetes_backup_fetch": str(directory)})
    site.kubectl("create configmap after --from-literal=a=1")
    (path,) = directory.iterdir()
    yield path
    site.kubectl("delete configmap before after --ignore-not-found")
    # What operators remove when all is well, and the note of which backup it was.
    site.out("cp1", f"rm -rf {FORMER} /etc/kubernetes/deephdc-restored /var/backups/kubernetes/{path.name}")


def test_a_backup_is_private_and_verified(site: Site, saved: Path):
    assert not any(path.stat().st_mode & 0o077 for path in (saved, *saved.iterdir()))
    manifest = json.loads((saved / "manifest.json").read_text())
    assert (manifest["cluster"], manifest["version"], manifest["node"]) == ("kubernetes", version(site), "cp1")
    assert manifest["etcd"]["totalKey"] > 100 and set(manifest["files"]) == {"configuration.tar.gz", "etcd.db", "kubeadm.yaml"}
    modes = site.out("cp1", f"stat --format=%a /var/backups/kubernetes /var/backups/kubernetes/{saved.name}/*").split()
    assert set(modes) == {"700", "600"}
    assert not site.run("gpu1", "ls /var/backups/kubernetes").stdout


def test_a_living_cluster_is_not_replaced(site: Site, saved: Path, now: dict[str, object]):
    said = " ".join(site.playbook(RESTORE, variables={**now, "kubernetes_restore_from": str(saved)}, succeeds=False).split())
    assert "Nothing was restored" in said and "set kubernetes_restore_overwrite to the cluster's name" in said
    wrong = {**now, "kubernetes_restore_from": str(saved), "kubernetes_restore_overwrite": "other"}
    assert "kubernetes_restore_overwrite is other, but this cluster is kubernetes" in " ".join(
        site.playbook(RESTORE, variables=wrong, succeeds=False).split()
    )
    assert site.kubectl("get configmap after -o name") == "configmap/after"


def lasting(site: Site, working: str) -> None:
    """What a restore must bring, and what it must leave alone."""
    assert site.kubectl("get configmap before -o name") == "configmap/before"
    assert "not found" in site.kubectl("get configmap after", succeeds=False)
    site.kubectl("wait --for=condition=Ready node --all --timeout=120s")
    assert container(site, "working") == working
    site.start("new", "sleep 1", gpus=1, node="gpu1")
    site.phase("new", "Succeeded")
    site.remove("new")


def test_an_empty_host_becomes_the_control_plane_again(site: Site, saved: Path, working: str, now: dict[str, object]):
    site.out("cp1", f"{LOSE}; systemctl stop kubelet")
    seed = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
    print(f"KILL_SEED={seed}")
    given = {**now, "kubernetes_restore_from": str(saved)}
    print(f"killed at {site.killed_playbook(RESTORE, random.Random(seed), 90, variables=given)}")
    if site.run("cp1", "test -e /var/lib/deephdc/kubernetes_restoring").returncode == 0:
        said = " ".join(site.playbook("playbooks/kubernetes.yml", variables=now, succeeds=False).split())
        assert "A restore of the control plane on cp1 was not completed" in said
    if site.run("cp1", "test -e /etc/kubernetes/deephdc-restored && test ! -e /var/lib/deephdc/kubernetes_restoring").returncode == 0:
        site.playbook("playbooks/kubernetes.yml", variables=now)
    else:
        site.playbook(RESTORE, variables=given)
    lasting(site, working)


def test_the_same_backup_is_restored_a_second_time_when_confirmed(site: Site, saved: Path, working: str, now: dict[str, object]):
    site.kubectl("create configmap after --from-literal=a=2")
    given = {**now, "kubernetes_restore_from": str(saved)}
    said = " ".join(site.playbook(RESTORE, variables=given, succeeds=False).split())
    assert "(restored from this backup and used since)" in said
    said = " ".join(site.playbook(RESTORE, variables={**given, "kubernetes_restore_overwrite": "kubernetes"}).split())
    assert "The former state is kept in /var/lib/etcd/before-restore-" in said
    lasting(site, working)
