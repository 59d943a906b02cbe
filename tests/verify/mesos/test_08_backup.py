# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Applications and jobs come back: those that were deleted, and all of them on hosts that lost everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local import Cluster
from mesos_site import MASTERS, app, ask, remove, start, tasks, until

OWNS = (
    "playbooks/mesos_backup.yml",
    "playbooks/mesos_restore.yml",
    "roles/mesos_backup",
    "plugins/module_utils/_host/as_user.py",
    "plugins/module_utils/_mesos/backup.py",
    "plugins/module_utils/_mesos/marathon_api.py",
    "plugins/modules/mesos_backup.py",
    "plugins/modules/mesos_marathon_state.py",
    "plugins/modules/mesos_restore.py",
    "tests/stand_ins/mesos/marathon_state.py",
)

BACKUP, RESTORE = "playbooks/mesos_backup.yml", "playbooks/mesos_restore.yml"
JOB = {"name": "nightly", "command": "true", "schedule": "R/2030-01-01T00:00:00Z/PT24H", "cpus": 0.1, "mem": 32, "runAsUser": "nobody"}


@pytest.fixture(scope="module")
def saved(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A backup of a cluster with an application that runs and a job that waits."""
    start(cluster, app("kept", "sleep 3000", gpus=1))
    assert ask(cluster, "chronos", "/v1/scheduler/iso8601", JOB).status == 204
    folder = tmp_path_factory.mktemp("backups")
    cluster.playbook(BACKUP, variables={"mesos_backup_fetch": str(folder)})
    (backup,) = folder.iterdir()
    yield backup
    ask(cluster, "chronos", f"/v1/scheduler/job/{JOB['name']}", method="DELETE")
    remove(cluster, "kept")
    for host in MASTERS:
        cluster.out(host, "rm -rf /var/backups/mesos")


def applications(cluster: Cluster) -> list[str]:
    return sorted(one["id"] for one in ask(cluster, "marathon", "/v2/apps").content["apps"])


def test_a_backup_is_private_and_ends_no_task(cluster: Cluster, saved: Path) -> None:
    assert sorted(path.name for path in saved.rglob("*.tar*")) == ["marathon.tar", "zookeeper.tar.gz"]
    assert {path.stat().st_mode & 0o077 for path in saved.rglob("*")} == {0}
    assert len(tasks(cluster, "kept")) == 1
    assert cluster.out("m1", "stat -c %a /var/backups/mesos") == "700"


def test_a_server_that_is_down_is_not_backed_up(cluster: Cluster, saved: Path) -> None:
    """Its data are those of when it went down."""
    cluster.out("m1", "systemctl stop zookeeper")
    try:
        said = cluster.playbook(BACKUP)
        assert any(f"{host}:/var/backups/mesos/" in said and "zookeeper.tar.gz" in said for host in ("m2", "m3"))
        newest = cluster.out("m1", "ls -d /var/backups/mesos/* | tail -n 1")
        assert cluster.run("m1", f"test -e {newest}/zookeeper.tar.gz").returncode == (0 if newest.endswith(saved.name) else 1)
    finally:
        cluster.out("m1", "systemctl start zookeeper")
        cluster.until("m1", "echo mntr | timeout 5 bash -c 'exec 3<>/dev/tcp/m1/2181; cat >&3; cat <&3'", "zk_server_state", 60)


def test_a_restore_that_is_not_clear_is_refused(cluster: Cluster, saved: Path) -> None:
    said = " ".join(cluster.playbook(RESTORE, succeeds=False).split())
    assert "mesos_restore_from is not set" in said
    said = " ".join(cluster.playbook(RESTORE, variables={"mesos_restore_from": str(saved)}, succeeds=False).split())
    assert "ZooKeeper has data here" in said
    wanted = {"mesos_restore_from": str(saved), "mesos_restore_overwrite": "other"}
    assert "but this cluster is test" in " ".join(cluster.playbook(RESTORE, variables=wanted, succeeds=False).split())
    assert applications(cluster) == ["/kept"]


def test_deleted_applications_come_back(cluster: Cluster, saved: Path) -> None:
    remove(cluster, "kept")
    wanted = {"mesos_restore_from": str(saved), "mesos_restore_marathon": True, "mesos_restore_overwrite": "test"}
    cluster.playbook(RESTORE, variables=wanted)
    until(lambda: applications(cluster), lambda seen: seen == ["/kept"], 60)
    until(lambda: tasks(cluster, "kept"), lambda seen: len(seen) == 1, 90)


def test_no_link_of_marathons_leads_root_elsewhere(cluster: Cluster, saved: Path) -> None:
    """Its account makes one in the place of the folder that a backup and a restore use."""
    look = "stat -c '%U %a %y' /etc/profile.d; ls -A /etc/profile.d"
    before = {host: cluster.out(host, look) for host in MASTERS}
    folder = "/var/lib/marathon/backup"
    for host in MASTERS:
        cluster.out(host, f"rm -rf {folder}; runuser -u marathon -- ln -s /etc/profile.d {folder}")
    try:
        said = " ".join(cluster.playbook(BACKUP, succeeds=False).split())
        assert f"{folder} shall be a directory but is something else" in said
        wanted = {"mesos_restore_from": str(saved), "mesos_restore_marathon": True, "mesos_restore_overwrite": "test"}
        assert "Permission denied" in cluster.playbook(RESTORE, variables=wanted, succeeds=False)
        assert {host: cluster.out(host, look) for host in MASTERS} == before
    finally:
        for host in MASTERS:
            cluster.out(host, f"rm {folder}")
    assert applications(cluster) == ["/kept"]


def test_a_cluster_comes_back_on_empty_masters(cluster: Cluster, saved: Path) -> None:
    for host in MASTERS:
        cluster.out(host, "systemctl stop marathon chronos mesos-master zookeeper; rm -rf /var/lib/zookeeper/deephdc /var/lib/mesos/master")
    cluster.playbook(RESTORE, variables={"mesos_restore_from": str(saved)})
    until(lambda: applications(cluster), lambda seen: seen == ["/kept"], 120)
    until(lambda: tasks(cluster, "kept"), lambda seen: len(seen) == 1, 120)
    jobs = until(lambda: ask(cluster, "chronos", "/v1/scheduler/jobs").content, lambda seen: len(seen) > 0, 60)
    assert [one["name"] for one in jobs] == ["nightly"]
    assert ask(cluster, "chronos", "/v1/scheduler/job/nightly", method="DELETE").status == 204
