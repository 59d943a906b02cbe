# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The modules kubernetes_backup and kubernetes_restore: what is not whole is no backup, and a killed restore is completed or refused."""

from __future__ import annotations

import fcntl
import json
import os
import tarfile
import threading
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import backup, etcd
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_backup, kubernetes_restore

NAME = "20261121T150000Z"
MEMBER = """\
    - --initial-advertise-peer-urls=https://192.0.2.10:2380
    - --initial-cluster=cp1=https://192.0.2.10:2380
    - --name=cp1
    image: registry.k8s.io/etcd:3.7.0-0
"""
# Does what etcd's programs do with files: etcdctl saves what the data directory has, etcdutl makes a data directory of it.
CTR = """\
case "$*" in
*"containers list"*|*"tasks list"*) exit 0 ;;
*"images list"*) echo registry.k8s.io/etcd:3.7.0-0 ;;
*"snapshot save"*) for word in "$@"; do case $word in *dst=/backup,*) place=${word#*src=}; cat STATE > ${place%%,*}/etcd.db ;; esac; done ;;
*"snapshot status"*) echo '{"hash": 1, "revision": 7, "totalKey": KEYS, "totalSize": 9}' ;;
*"snapshot restore"*)
    for word in "$@"; do case $word in
        *dst=/backup,*) place=${word#*src=}; from=${place%%,*} ;;
        --data-dir=*) to=${word#--data-dir=} ;;
    esac; done
    mkdir -p "$to/member" && cp "$from/etcd.db" "$to/member/db" ;;
esac
"""


class Killed(BaseException):
    """Stands for SIGKILL: nothing handles it."""


class Site:
    """A host of a control plane below a directory, and the programs that are called there."""

    def __init__(self, root: Path, fake) -> None:
        self.root, self.fake = root, fake
        self.backups = root / "backups"
        self.etc, self.etcd, self.kubelet, self.records = (root / name for name in ("etc", "etcd", "kubelet", "records"))

    def control_plane(self, state: str) -> None:
        for path, text in {
            self.etc / "manifests/etcd.yaml": MEMBER,
            self.etc / "manifests/kube-apiserver.yaml": "image: registry.k8s.io/kube-apiserver:v1.37.2\n",
            self.etc / "admin.conf": state,
            self.etc / "kubelet.conf": state,
            self.etc / "pki/ca.key": state,
            self.etc / "tmp/old.yaml": "left out",
            self.etcd / "member/db": state,
            self.kubelet / "config.yaml": state,
            self.kubelet / "pki/kubelet-client-2026.pem": state,
            self.records / "kubernetes_accelerators": state,
            self.records / "kubernetes_beginning": "left out",
            self.records / "slurm_accelerators": "left out",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        link = self.kubelet / "pki/kubelet-client-current.pem"
        link.unlink(missing_ok=True)
        link.symlink_to(self.kubelet / "pki/kubelet-client-2026.pem")

    def programs(self, keys: int = 5, certificate: int = 1) -> None:
        self.fake("ctr", CTR.replace("STATE", str(self.etcd / "member/db")).replace("KEYS", str(keys)))
        self.fake("kubectl", "exit 0")
        self.fake("systemctl", "exit 0")
        self.fake("openssl", f"exit {certificate}")

    def state(self) -> set[str]:
        """What the parts of the control plane are of."""
        places = (self.etc / "admin.conf", self.etc / "pki/ca.key", self.etcd / "member/db", self.kubelet / "config.yaml")
        places += (self.records / "kubernetes_accelerators",)
        return {path.read_text() if path.exists() else "missing" for path in places}

    def empty(self) -> None:
        import shutil

        for place in (self.etc, self.etcd, self.kubelet, self.records):
            shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def site(tmp_path, monkeypatch, fake):
    made = Site(tmp_path, fake)
    for name, value in {
        "ROOT": made.etc,
        "MANIFESTS": made.etc / "manifests",
        "ETCD_MANIFEST": made.etc / "manifests/etcd.yaml",
        "ETCD": made.etcd,
        "KUBELET": made.kubelet,
        "RECORDS": made.records,
    }.items():
        monkeypatch.setattr(backup, name, str(value))
    for name, value in {
        "ADMIN": made.etc / "admin.conf",
        "NOTE": made.records / "kubernetes_restoring",
        "MARK": made.etc / "deephdc-restored",
        "LOCK": tmp_path / "lock",
        "NEW_ROOT": tmp_path / "etc.new",
        "NEW_ETCD": made.etcd / "new",
        "STOPPED": made.etc / "manifests.stopped",
    }.items():
        monkeypatch.setattr(kubernetes_restore, name, str(value))
    monkeypatch.setattr(kubernetes_backup.os, "uname", lambda: os.uname_result(("Linux", "cp1.site", "", "", "")))
    made.control_plane("saved")
    made.programs()
    return made


@pytest.fixture
def save(run, site):
    return lambda name=NAME, **more: run(
        kubernetes_backup, directory=str(site.backups), name=name, cluster="physics", address="192.0.2.10", **more
    )


@pytest.fixture
def restore(run, site):
    wanted = {"cluster": "physics", "version": "1.37.2", "node": "cp1", "address": "192.0.2.10", "patience": 1}
    return lambda **more: run(kubernetes_restore, path=str(site.backups / NAME), **{**wanted, **more})


def test_a_backup_is_private_and_has_what_a_restore_needs(save, site):
    result = save()
    assert result["changed"] and result["key_count"] == 5 and result["files"][-1] == "manifest.json"
    path = site.backups / NAME
    assert (path.parent.stat().st_mode | path.stat().st_mode) & 0o077 == 0
    assert all(file.stat().st_mode & 0o177 == 0 for file in path.iterdir())
    manifest = json.loads((path / "manifest.json").read_text())
    assert [manifest[key] for key in backup.KEYS] == [
        *("physics", "1.37.2", "cp1", "192.0.2.10", "cp1", "https://192.0.2.10:2380"),
        "registry.k8s.io/etcd:3.7.0-0",
    ]
    with tarfile.open(path / "configuration.tar.gz") as tar:
        names = {f"/{name}" for name in tar.getnames()}
    assert str(site.etc / "pki/ca.key") in names and str(site.records / "kubernetes_accelerators") in names
    assert not [name for name in names if "/tmp/old" in name or name.endswith(("kubernetes_beginning", "slurm_accelerators"))]
    assert not save()["changed"], "one of that name is there"


def test_check_mode_makes_no_backup(save, site):
    assert save(_ansible_check_mode=True)["changed"] and not site.backups.exists()


def test_a_snapshot_without_keys_is_no_backup(save, site):
    site.programs(keys=0)
    assert "has no keys" in save()["msg"] and list(site.backups.iterdir()) == []


def test_no_backup_without_a_control_plane(save, site):
    site.empty()
    assert "has no etcd" in save()["msg"]


def test_only_the_newest_backups_are_kept(save, site):
    for name in ("20260101T000000Z", "20260102T000000Z"):
        save(name)
    (site.backups / ".partial.killed").mkdir()
    (site.backups / "by-hand").mkdir()
    assert save(keep=2)["removed"] == ["20260101T000000Z"]
    assert sorted(entry.name for entry in site.backups.iterdir()) == ["20260102T000000Z", NAME, "by-hand"]


def test_an_empty_host_gets_everything(save, restore, site):
    save()
    site.empty()
    assert restore()["changed"] and site.state() == {"saved"}
    assert (site.kubelet / "pki/kubelet-client-current.pem").read_text() == "saved"
    assert not (site.records / "kubernetes_restoring").exists() and not (site.records / "kubernetes_beginning").exists()
    words = next(line for line in site.fake.calls() if "snapshot restore" in line)
    assert "--bump-revision=1000000 --mark-compacted" in words and "--name=cp1" in words
    assert "systemctl enable --now kubelet" in site.fake.calls()


@pytest.mark.parametrize(
    ("made", "bumped"),
    [
        ("2026-11-24T12:00:00Z", 36_000_000),
        # Clocks that are not quite the same.
        ("2026-11-24T13:00:30Z", 1_000_000),
        # No such time: more than of any backup.
        ("", 17_955_252_000_000),
    ],
)
def test_programs_that_watch_have_seen_no_later_revision(made, bumped):
    """Not those of a cluster that was restored from the same backup before, either."""
    now = 1_795_525_200.0  # 2026-11-24T13:00:00Z
    assert kubernetes_restore.bump(made, now) == bumped
    assert kubernetes_restore.bump("2026-11-24T12:00:00Z", now + 60) - kubernetes_restore.bump("2026-11-24T12:00:00Z", now) == 600_000


def test_a_certificate_of_kubelet_that_the_cluster_still_takes_stays(save, restore, site):
    save()
    site.control_plane("newer")
    site.programs(certificate=0)
    restore(overwrite=True)
    assert site.state() == {"saved"} and (site.kubelet / "pki/kubelet-client-current.pem").read_text() == "newer"


def test_a_living_control_plane_is_replaced_only_when_confirmed(save, restore, site):
    save()
    site.control_plane("living")
    assert "Nothing was restored" in restore()["msg"] and site.state() == {"living"}
    assert not any("stop kubelet" in line for line in site.fake.calls())
    result = restore(overwrite=True)
    assert site.state() == {"saved"}
    assert sorted(Path(path).read_text() for path in (f"{result['kept'][0]}/db", f"{result['kept'][1]}/admin.conf")) == ["living"] * 2


def test_a_call_that_outlives_its_run_is_waited_for(save, restore, site):
    """Two at once would take each other's files."""
    save()
    with open(kubernetes_restore.LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        released: list[bool] = []
        timer = threading.Timer(0.5, lambda: (released.append(True), fcntl.flock(lock, fcntl.LOCK_UN)))
        timer.start()
        assert not restore(overwrite=True).get("failed") and released
        timer.join()


def test_the_same_backup_is_restored_twice(save, restore, site):
    save()
    restore(overwrite=True)
    site.control_plane("used since")
    assert "(restored from this backup and used since)" in restore()["msg"] and site.state() == {"used since"}
    assert not restore(overwrite=True).get("failed") and site.state() == {"saved"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"cluster": "chemistry"}, "kubernetes_cluster_name is chemistry"),
        ({"version": "1.37.3"}, "set it to 1.37.2 for the restore"),
        ({"node": "cp2"}, "give the new host the former one's name"),
        ({"address": "192.0.2.11"}, "give it the former address"),
    ],
)
def test_a_backup_that_does_not_fit_is_refused(save, restore, site, given, sentence):
    save()
    site.empty()
    assert sentence in restore(**given)["msg"] and not site.etc.exists()


@pytest.mark.parametrize("name", ["etcd.db", "configuration.tar.gz", "manifest.json"])
@pytest.mark.parametrize("kind", ["damaged", "missing"])
def test_a_backup_that_is_not_whole_is_refused(save, restore, site, name, kind):
    save()
    path = site.backups / NAME / name
    path.unlink() if kind == "missing" else path.write_text("{}")
    assert restore(overwrite=True)["failed"] and site.state() == {"saved"}


@pytest.mark.parametrize("command", ["only_check", "_ansible_check_mode"])
def test_a_check_changes_nothing(save, restore, site, command):
    save()
    site.empty()
    assert not restore(**{command: True}).get("failed") and not site.etc.exists()


def steps(monkeypatch, fatal: int) -> None:
    """Kill the call at its so-manieth change of a name: all stages are made of these."""
    count = 0

    def killing(real):
        def call(*words, **more):
            nonlocal count
            count += 1
            if count == fatal:
                raise Killed
            return real(*words, **more)

        return call

    for name in ("rename", "replace"):
        monkeypatch.setattr(kubernetes_restore.os, name, killing(getattr(os, name)))


@pytest.mark.parametrize("there", ["living", "empty"])
@pytest.mark.parametrize("fatal", range(1, 15))
def test_a_killed_restore_is_completed_or_refused(save, restore, site, monkeypatch, there, fatal):
    save()
    site.control_plane("living") if there == "living" else site.empty()
    with monkeypatch.context() as context:
        steps(context, fatal)
        try:
            restore(overwrite=there == "living")
            killed = False
        except Killed:
            killed = True
    if not killed:
        assert site.state() == {"saved"} and fatal > 8
        return
    # The control plane can start as a whole only: with all of the former one, or all of the new one.
    if (site.etc / "manifests/etcd.yaml").exists():
        assert len({(site.etc / "admin.conf").read_text(), (site.etcd / "member/db").read_text()}) == 1
    result = restore()
    if result.get("failed"):
        assert "Nothing was restored" in result["msg"] and site.state() == {"living"}
        result = restore(overwrite=True)
    assert not result.get("failed") and site.state() == {"saved"}
    assert not (site.records / "kubernetes_restoring").exists()


def test_a_note_of_long_ago_allows_nothing(save, restore, site, monkeypatch):
    """Killed in the middle; then a person built a new cluster, which a plain run must not replace."""
    save()
    site.empty()
    with monkeypatch.context() as context:
        steps(context, 4)
        with pytest.raises(Killed):
            restore()
    site.control_plane("new cluster")
    assert "Nothing was restored" in restore()["msg"] and site.state() == {"new cluster"}


def test_etcd_is_run_without_network_of_its_own_and_killed_ones_are_removed(save, site):
    site.fake("ctr", CTR.replace("STATE", str(site.etcd / "member/db")).replace("KEYS", "1").replace("exit 0", "echo deephdc-etcd-9", 1))
    save()
    calls = site.fake.calls()
    assert any("containers delete deephdc-etcd-9" in line for line in calls)
    assert any("--net-host" in line and f"{etcd.PREFIX}" in line for line in calls)
