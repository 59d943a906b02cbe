# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The modules mesos_backup, mesos_restore and mesos_marathon_state: what is saved comes back, and what is damaged does not."""

from __future__ import annotations

import errno
import getpass
import io
import json
import os
import pathlib
import pwd
import shutil
import tarfile
import tempfile
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import backup, marathon_api
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.marathon_api import url_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.modules import mesos_backup, mesos_marathon_state, mesos_restore

NAME = "20261121T150000Z"
CLUSTER = "physics"


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    """ZooKeeper's data: two snapshots, of which the newer was not written to its end, and three logs."""
    folder = tmp_path / "zookeeper/version-2"
    folder.mkdir(parents=True)
    for name, content in {
        "snapshot.0": b"old" + backup.END,
        "snapshot.1f": b"tree" + backup.END,
        "snapshot.30": b"half of a tree",
        "log.1": b"first",
        "log.1a": b"second",
        "log.2b": b"third",
        "currentEpoch": b"3",
        "acceptedEpoch": b"3",
    }.items():
        (folder / name).write_bytes(content)
    return folder.parent


def saved(run, tmp_path, **options: t.Any) -> dict[str, t.Any]:
    options = {"zookeeper_user": getpass.getuser(), "marathon_user": getpass.getuser(), **options}
    return run(mesos_backup, directory=str(tmp_path / "backups"), name=NAME, cluster=CLUSTER, **options)


def restored(run, fake, tmp_path, target: str, **options: t.Any) -> dict[str, t.Any]:
    fake("systemctl")
    place = str(tmp_path / target)
    options = {"cluster": CLUSTER, "owner": getpass.getuser(), **options}
    return run(mesos_restore, path=str(tmp_path / "backups" / NAME), zookeeper=place, **options)


def test_the_files_that_belong_together_are_chosen() -> None:
    names = ["snapshot.0", "snapshot.1f", "snapshot.30", "log.1", "log.1a", "log.2b", "currentEpoch"]
    assert backup.chosen(names, ["snapshot.0", "snapshot.1f"]) == ["snapshot.1f", "log.1a", "log.2b"]
    assert backup.chosen(names, ["snapshot.0"]) == ["snapshot.0", "log.1", "log.1a", "log.2b"]
    assert backup.chosen(["log.1", "snapshot.0"], []) == []


def test_data_of_zookeeper_come_back_on_an_empty_host(run, fake, tmp_path, data) -> None:
    result = saved(run, tmp_path, zookeeper=str(data))
    assert result["changed"] and result["files"] == [backup.ZOOKEEPER, backup.MANIFEST]
    assert (tmp_path / "backups").stat().st_mode & 0o777 == 0o700
    assert not saved(run, tmp_path, zookeeper=str(data))["changed"]
    result = restored(run, fake, tmp_path, "empty")
    assert result["changed"] and result["kept"] == ""
    found = {path.name: path.read_bytes() for path in (tmp_path / "empty/version-2").iterdir()}
    assert sorted(found) == ["acceptedEpoch", "currentEpoch", "log.1a", "log.2b", "snapshot.1f"]
    assert found["snapshot.1f"] == b"tree" + backup.END
    assert "systemctl stop zookeeper.service" in fake.calls()


def test_no_link_of_the_service_leads_elsewhere(run, fake, tmp_path, data) -> None:
    """The directory is ZooKeeper's own, and root restores."""
    saved(run, tmp_path, zookeeper=str(data))
    victim = tmp_path / "victim"
    victim.write_text("of root", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / f"{mesos_restore.NOTE}.new").symlink_to(victim)
    (tmp_path / "empty/version-2.restoring").symlink_to(tmp_path)
    restored(run, fake, tmp_path, "empty")
    assert victim.read_text(encoding="utf-8") == "of root" and not list(tmp_path.glob("snapshot*"))


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_note_that_is_no_file_keeps_root_from_nothing(run, fake, tmp_path, data, kind) -> None:
    """Root would wait for a writer, or read for ever."""
    saved(run, tmp_path, zookeeper=str(data))
    note = data / mesos_restore.NOTE
    if kind == "pipe":
        os.mkfifo(note)
    else:
        note.symlink_to("/dev/zero")
    said = restored(run, fake, tmp_path, "zookeeper", overwrite=True)["msg"]
    assert str(note) in said and (data / "version-2/snapshot.0").exists() and fake.calls() == []


def test_zookeepers_data_are_brought_back_with_its_rights(run, fake, reached, data) -> None:
    """A restore as root would follow what ZooKeeper puts into its directory."""
    saved(run, reached, zookeeper=str(data))
    own(reached)
    assert "msg" not in restored(run, fake, reached, "made", owner="nobody")
    files = [reached / "made", *(reached / "made").rglob("*")]
    assert {path.stat().st_uid for path in files} == {pwd.getpwnam("nobody").pw_uid} and len(files) > 4
    (reached / "of_root").mkdir()
    (reached / "closed").mkdir(mode=0o755)
    own(reached / "closed")
    (reached / "closed/version-2").symlink_to(reached / "of_root")
    restored(run, fake, reached, "closed", owner="nobody", overwrite=True)
    assert list((reached / "of_root").iterdir()) == [] and (reached / "of_root").stat().st_uid == 0


def test_data_that_are_there_stay_unless_a_person_says_so(run, fake, tmp_path, data) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    result = restored(run, fake, tmp_path, "zookeeper")
    assert "ZooKeeper has data here" in result["msg"] and (data / "version-2/snapshot.0").exists() and fake.calls() == []
    result = restored(run, fake, tmp_path, "zookeeper", overwrite=True)
    kept = pathlib.Path(result["kept"])
    assert (kept / "snapshot.0").read_bytes() == b"old" + backup.END and not (data / "version-2/snapshot.0").exists()


def test_data_that_can_not_be_looked_at_are_not_absent(run, fake, tmp_path, data, monkeypatch) -> None:
    """A disk that fails: data that can't be looked at are not those of a killed call."""
    saved(run, tmp_path, zookeeper=str(data))
    look = mesos_restore.os.lstat

    def failing(path, **options):
        if str(path).endswith("version-2"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return look(path, **options)

    monkeypatch.setattr(mesos_restore.os, "lstat", failing)
    result = restored(run, fake, tmp_path, "zookeeper", overwrite=True)
    monkeypatch.undo()
    assert result["msg"].startswith("Nothing was restored:") and "Input/output error" in result["msg"]
    assert (data / "version-2").is_dir()


def test_a_killed_restore_is_completed(run, fake, tmp_path, data) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    (tmp_path / "empty/version-2").mkdir(parents=True)
    (tmp_path / "empty/version-2/log.1").write_bytes(b"half")
    digest = backup.digest(str(tmp_path / "backups" / NAME / backup.MANIFEST))
    (tmp_path / "empty" / mesos_restore.NOTE).write_text(f"{digest} replacing\n", encoding="utf-8")
    result = restored(run, fake, tmp_path, "empty")
    assert result["changed"] and result["kept"] == ""
    assert not (tmp_path / "empty/version-2/log.1").exists()


def test_what_was_restored_is_left_until_a_server_ran(run, fake, tmp_path, data) -> None:
    """One host was killed, the others are complete: the next run goes on."""
    saved(run, tmp_path, zookeeper=str(data))
    restored(run, fake, tmp_path, "empty")
    assert not restored(run, fake, tmp_path, "empty")["changed"]
    (tmp_path / "empty/version-2/log.40").write_bytes(b"new")
    assert "ZooKeeper has data here" in restored(run, fake, tmp_path, "empty")["msg"]


def test_a_check_restores_nothing(run, fake, tmp_path, data) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    for options in ({"only_check": True}, {"_ansible_check_mode": True}):
        assert "msg" not in restored(run, fake, tmp_path, "empty", **options)
        assert not (tmp_path / "empty").exists() and fake.calls() == []


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: (path / backup.ZOOKEEPER).write_bytes(b"x"), "is damaged or missing"),
        (lambda path: (path / backup.ZOOKEEPER).unlink(), "is damaged or missing"),
        (lambda path: (path / backup.MANIFEST).unlink(), "is no backup"),
    ],
)
def test_a_damaged_backup_is_refused(run, fake, tmp_path, data, damage, sentence) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    damage(tmp_path / "backups" / NAME)
    result = restored(run, fake, tmp_path, "empty")
    assert result["msg"].startswith("Nothing was restored:") and sentence in result["msg"] and not (tmp_path / "empty").exists()


def test_a_backup_of_another_cluster_is_refused(run, fake, tmp_path, data) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    assert "is a backup of the cluster physics, and this one is biology" in restored(run, fake, tmp_path, "empty", cluster="biology")["msg"]


@pytest.mark.parametrize("name", ["../etc/passwd", "version-2/../x", "version-2/data", "/version-2/log.1", "other/log.1"])
def test_an_archive_with_other_files_is_refused(run, fake, tmp_path, data, name) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    place = tmp_path / "backups" / NAME
    with tarfile.open(place / backup.ZOOKEEPER, "w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    manifest = json.loads((place / backup.MANIFEST).read_text(encoding="utf-8"))
    manifest["files"] = {backup.ZOOKEEPER: backup.digest(str(place / backup.ZOOKEEPER))}
    (place / backup.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert "which is no file of ZooKeeper's data" in restored(run, fake, tmp_path, "empty")["msg"]
    assert not (tmp_path / "empty/version-2").exists()


def test_a_host_without_data_is_one_sentence(run, tmp_path) -> None:
    (tmp_path / "none/version-2").mkdir(parents=True)
    result = saved(run, tmp_path, zookeeper=str(tmp_path / "none"))
    assert "has no snapshot that was written to its end" in result["msg"] and list((tmp_path / "backups").iterdir()) == []


def write_archive(path: pathlib.Path) -> pathlib.Path:
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("category/key")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"app"))
    return path


def test_the_archive_of_marathon_is_moved_into_the_backup(run, tmp_path) -> None:
    archive = write_archive(tmp_path / "written.tar")
    assert saved(run, tmp_path, marathon=str(archive))["files"] == [backup.MARATHON, backup.MANIFEST]
    assert not archive.exists() and (tmp_path / "backups" / NAME / backup.MARATHON).exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_a_service_puts_in_the_place_of_its_file_is_refused(run, tmp_path, data, kind) -> None:
    """Root would read a secret file into the backup, or wait for ever."""
    made = {
        "link": lambda path: path.symlink_to(write_archive(tmp_path / "of_root.tar")),
        "pipe": os.mkfifo,
        "directory": lambda path: path.mkdir(),
    }[kind]
    made(tmp_path / "written.tar")
    result = saved(run, tmp_path, marathon=str(tmp_path / "written.tar"))
    assert result["msg"].startswith("No backup was made:") and list((tmp_path / "backups").iterdir()) == []
    assert kind != "link" or (tmp_path / "of_root.tar").exists()
    made(data / "version-2/snapshot.ff")
    assert saved(run, tmp_path, zookeeper=str(data))["changed"]
    with tarfile.open(tmp_path / "backups" / NAME / backup.ZOOKEEPER) as tar:
        assert all(member.isfile() for member in tar) and "version-2/snapshot.1f" in tar.getnames()


@pytest.fixture
def reached(tmp_path_factory) -> t.Iterator[pathlib.Path]:
    """A folder that all users of this machine reach; tmp_path is closed to others."""
    if os.geteuid() != 0:
        pytest.skip("Only root can be another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def own(path: pathlib.Path) -> pathlib.Path:
    """Give a path to an account without rights."""
    shutil.chown(path, "nobody")
    return path


def test_files_of_a_service_are_read_and_removed_as_that_service(run, reached) -> None:
    """Its folder is a link to files that are root's, and the service may not read."""
    (reached / "of_root").mkdir(mode=0o700)
    write_archive(reached / "of_root/a.tar")
    (reached / "own").mkdir()
    own(reached / "own")
    for place, said in (("backup", "Permission denied"), ("own", "")):
        if place == "backup":
            (reached / place).symlink_to(reached / "of_root")
        else:
            own(write_archive(reached / "own/a.tar"))
        result = saved(run, reached, marathon=str(reached / place / "a.tar"), marathon_user="nobody")
        assert said in result.get("msg", "") and bool(said) == ("msg" in result)
    assert (reached / "of_root/a.tar").exists() and not (reached / "own/a.tar").exists()


def test_data_of_zookeeper_are_read_as_zookeeper(run, reached, data) -> None:
    shutil.copytree(data, reached / "data")
    for closed in (False, True):
        (reached / "data").chmod(0o700 if closed else 0o755)
        name = f"2026112{closed:d}T150000Z"
        options = {"zookeeper": str(reached / "data"), "zookeeper_user": "nobody", "name": name}
        result = run(mesos_backup, directory=str(reached / "backups"), cluster=CLUSTER, **options)
        assert ("Permission denied" in result.get("msg", "")) == closed


def test_a_service_without_an_account_is_refused(run, tmp_path, data) -> None:
    """There is none whose rights could be taken."""
    archive = write_archive(tmp_path / "written.tar")
    for options in ({"marathon": str(archive), "marathon_user": "not-there"}, {"zookeeper": str(data), "zookeeper_user": "not-there"}):
        assert "not-there" in saved(run, tmp_path, **options)["msg"]
    assert archive.exists()


def test_an_archive_that_is_larger_than_the_room_is_no_backup(run, tmp_path) -> None:
    """A file with holes may have any size."""
    with open(tmp_path / "large.tar", "wb") as file:
        file.truncate(8 << 40)
    result = saved(run, tmp_path, marathon=str(tmp_path / "large.tar"))
    assert "has room for" in result["msg"] and list((tmp_path / "backups").iterdir()) == []


def test_what_marathon_wrote_is_not_unpacked(run, tmp_path) -> None:
    """Little may become very much."""
    with tarfile.open(tmp_path / "packed.tar", "w:bz2") as tar:
        tar.add(__file__)
    assert "is no whole archive" in saved(run, tmp_path, marathon=str(tmp_path / "packed.tar"))["msg"]


def test_an_archive_with_holes_is_no_backup(run, tmp_path) -> None:
    """Its size may be any number, and root would read all of it."""
    entry = tarfile.TarInfo("hole")
    entry.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    block[386:398] = b"%011o\0" % 0  # offset and bytes of the one part that is there
    block[398:410] = b"%011o\0" % 0
    block[483:495] = b"%011o\0" % 8**10
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    (tmp_path / "holes.tar").write_bytes(bytes(block) + b"\0" * 1024)
    result = saved(run, tmp_path, marathon=str(tmp_path / "holes.tar"))
    assert "hole has holes" in result["msg"] and list((tmp_path / "backups").iterdir()) == []


def brought(run, tmp_path, **options: t.Any) -> dict[str, t.Any]:
    options = {"cluster": CLUSTER, "owner": getpass.getuser(), "marathon": str(tmp_path / "of_marathon/restoring.tar"), **options}
    return run(mesos_restore, path=str(tmp_path / "backups" / NAME), **options)


def test_the_archive_of_marathon_is_brought_back(run, tmp_path) -> None:
    archive = write_archive(tmp_path / "written.tar")
    content = archive.read_bytes()
    saved(run, tmp_path, marathon=str(archive))
    target = tmp_path / "of_marathon/restoring.tar"
    assert brought(run, tmp_path, _ansible_check_mode=True)["changed"] and not target.exists()
    assert brought(run, tmp_path)["changed"] and target.read_bytes() == content and target.stat().st_mode & 0o777 == 0o400
    assert not brought(run, tmp_path)["changed"]
    (tmp_path / "backups" / NAME / backup.MARATHON).write_bytes(b"x")
    assert "is damaged or missing" in brought(run, tmp_path)["msg"]


def test_no_link_of_marathon_leads_elsewhere(run, tmp_path) -> None:
    saved(run, tmp_path, marathon=str(write_archive(tmp_path / "written.tar")))
    victim = tmp_path / "victim"
    victim.write_text("of root", encoding="utf-8")
    (tmp_path / "of_marathon").mkdir()
    (tmp_path / "of_marathon/restoring.tar").symlink_to(victim)
    assert brought(run, tmp_path)["changed"] and victim.read_text(encoding="utf-8") == "of root"


def test_a_folder_of_marathon_that_leads_to_root_is_not_written(run, reached) -> None:
    saved(run, reached, marathon=str(write_archive(reached / "written.tar")), marathon_user="root")
    (reached / "of_root").mkdir()
    (reached / "own").mkdir()
    own(reached / "own")
    (reached / "link").symlink_to(reached / "of_root")
    result = brought(run, reached, owner="nobody", marathon=str(reached / "link/a.tar"))
    assert "Permission denied" in result["msg"] and list((reached / "of_root").iterdir()) == []
    assert brought(run, reached, owner="nobody", marathon=str(reached / "own/backup/a.tar"))["changed"]
    assert (reached / "own/backup/a.tar").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert "not-there" in brought(run, reached, owner="not-there")["msg"]


def test_a_backup_of_zookeeper_alone_has_no_archive_of_marathon(run, tmp_path, data) -> None:
    saved(run, tmp_path, zookeeper=str(data))
    assert "has no marathon.tar" in brought(run, tmp_path)["msg"]


def test_half_an_archive_of_marathon_is_no_backup(run, tmp_path) -> None:
    (tmp_path / "half.tar").write_bytes(b"no archive")
    assert "is no whole archive" in saved(run, tmp_path, marathon=str(tmp_path / "half.tar"))["msg"]
    assert (tmp_path / "half.tar").exists()


def test_old_backups_are_removed() -> None:
    names = ["20261121T150000Z", "20261120T150000Z", "20261122T150000Z", "lost+found"]
    assert backup.superfluous(names, 2) == ["20261120T150000Z"]
    assert backup.superfluous(names, 0) == []


class Asked:
    """A Marathon that leads again at the third question after it gave its lead up."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.away = 0

    def ask(self, path: str, method: str = "GET") -> t.Any:
        self.asked.append((method, path))
        if method == "DELETE":
            self.away = 2
        elif self.away:
            self.away -= 1
            raise Refused("Marathon refuses GET /v2/leader with 503.")
        return (
            {"leader": "m2:8443"}
            if path == "/v2/leader"
            else {"apps": [1, 2]}
            if path == "/v2/apps"
            else {"message": "Leadership abdicated"}
        )


@pytest.fixture
def marathon(monkeypatch) -> Asked:
    known = Asked()
    monkeypatch.setattr(mesos_marathon_state, "Marathon", lambda *_files: known)
    monkeypatch.setattr(mesos_marathon_state, "POLL", 0.0)
    monkeypatch.setattr(mesos_marathon_state, "DELAY", 0.0)
    return known


@pytest.mark.parametrize(("state", "key"), [("saved", "backup"), ("restored", "restore")])
def test_marathon_is_asked_and_waited_for(run, marathon, state, key) -> None:
    result = run(mesos_marathon_state, state=state, path="/var/lib/marathon/backup/a.tar")
    assert result["changed"] and result["leader"] == "m2:8443" and result["applications"] == {"before": 2, "after": 2}
    assert ("DELETE", f"/v2/leader?{key}=file%3A%2F%2F%2Fvar%2Flib%2Fmarathon%2Fbackup%2Fa.tar") in marathon.asked


def test_marathon_is_not_asked_in_check_mode(run, marathon) -> None:
    run(mesos_marathon_state, state="saved", path="/a.tar", _ansible_check_mode=True)
    assert not [one for one in marathon.asked if one[0] == "DELETE"]


def test_a_marathon_that_does_not_come_back_is_one_sentence(run, marathon) -> None:
    marathon.away = 10**6
    assert run(mesos_marathon_state, state="saved", path="/a.tar", wait=0)["msg"].startswith(
        "No Marathon leads after 0 s: Marathon refuses"
    )


def test_where_marathon_is(tmp_path) -> None:
    (tmp_path / "arguments").write_text("--disable_http\n--ha\n--hostname m1\n--https_port 8444\n", encoding="utf-8")
    assert url_of(marathon_api.read(str(tmp_path / "arguments"), marathon_api.FLAG)) == "https://m1:8444"
    assert url_of({"hostname": "m1", "http_port": "8081"}) == "http://m1:8081"
    (tmp_path / "environment").write_text("# Made\nJAVA_OPTS='-Xmx1m'\n", encoding="utf-8")
    with pytest.raises(Refused, match="has no account of Marathon"):
        marathon_api.Marathon(str(tmp_path))
    (tmp_path / "environment").write_text("MESOSPHERE_HTTP_CREDENTIALS='marathon:a-secret-0123456789'\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"ca.pem can't be read \(No such file"):
        marathon_api.Marathon(str(tmp_path))
