# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module file_set: compared first, written together, never half."""

from __future__ import annotations

import base64
import grp
import os
import pwd
import stat

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import file_set

ME = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}
SECRET = b"a very secret key \xff\x00"


@pytest.fixture
def write(run):
    """write(item, ...) runs the module; items belong to this test's user where they say nothing else."""
    return lambda *items, **options: run(file_set, files=[{**ME, **item} for item in items], **options)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def tree(path):
    """Everything below a directory: kind and mode, content and modification time of files."""
    return {
        str(one.relative_to(path)): (mode(one), one.read_bytes(), one.stat().st_mtime_ns) if one.is_file() else mode(one)
        for one in sorted(path.rglob("*"))
    }


def test_written_once_then_left_alone(write, tmp_path):
    items = [
        {"path": str(tmp_path / "etc"), "state": "directory", "mode": "0750"},
        {"path": str(tmp_path / "etc" / "a.conf"), "content": "größe=1\n"},
        {"path": str(tmp_path / "etc" / "b.conf"), "content": "", "mode": "0600"},
        {"path": str(tmp_path / "etc" / "old.conf"), "state": "absent"},
    ]
    first = write(*items)
    assert first["changed"] is True and first["paths"] == [item["path"] for item in items[:3]]
    assert (tmp_path / "etc" / "a.conf").read_bytes() == "größe=1\n".encode()
    assert [mode(tmp_path / "etc" / name) for name in ("", "a.conf", "b.conf")] == [0o750, 0o644, 0o600]
    before = tree(tmp_path)
    second = write(*items)
    assert second["changed"] is False and second["paths"] == [] and second["diff"] == []
    assert tree(tmp_path) == before


def test_only_what_differs_is_touched(write, tmp_path):
    items = [{"path": str(tmp_path / name), "content": name} for name in ("a", "b")]
    write(*items)
    before = tree(tmp_path)
    items[1]["content"] = "new"
    assert write(*items)["paths"] == [items[1]["path"]]
    after = tree(tmp_path)
    assert after["a"] == before["a"] and after["b"][1] == b"new"


def test_mode_alone_is_a_change(write, tmp_path):
    item = {"path": str(tmp_path / "a"), "content": "x"}
    write(item)
    assert write({**item, "mode": "0600"})["changed"] is True
    assert mode(tmp_path / "a") == 0o600
    directory = {"path": str(tmp_path / "d"), "state": "directory"}
    write(directory)
    assert write({**directory, "mode": "0700"})["changed"] is True and mode(tmp_path / "d") == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_owner_and_group(write, tmp_path):
    item = {"path": str(tmp_path / "a"), "content": "x", "owner": "nobody", "group": "daemon"}
    assert write(item)["changed"] is True
    status = (tmp_path / "a").stat()
    assert (pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid).gr_name) == ("nobody", "daemon")
    assert write(item)["changed"] is False
    assert write({**item, "owner": "root"})["changed"] is True


def test_the_file_is_replaced_not_rewritten(write, tmp_path):
    old = "# Made by deephdc.accelerators\nold"
    item = {"path": str(tmp_path / "a"), "content": old}
    write(item)
    with open(tmp_path / "a", encoding="utf-8") as reader:
        write({**item, "content": "new"})
        assert reader.read() == old, "a reader that has the file open goes on with a whole one"
    assert (tmp_path / "a").read_text() == "new"
    assert os.listdir(tmp_path) == ["a"]


def test_new_content_is_private_while_it_is_made(write, tmp_path, monkeypatch):
    seen = []
    real = os.fchown

    def watched(handle, *ids):
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        real(handle, *ids)

    monkeypatch.setattr(os, "fchown", watched)
    write({"path": str(tmp_path / "a"), "content": "x"})
    assert seen == [0o600]


def test_remains_of_a_killed_run_are_cleaned_up(write, tmp_path, monkeypatch):
    item = {"path": str(tmp_path / "a"), "content": "x"}

    def killed(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchown", killed)
        patch.setattr(file_set, "remove", lambda path: None)  # a killed run cleans up nothing
        with pytest.raises(KeyboardInterrupt):
            write(item)
    assert len(os.listdir(tmp_path)) == 1 and not (tmp_path / "a").exists()
    write(item)
    assert os.listdir(tmp_path) == ["a"]


def test_temporary_name_that_is_a_link_is_not_followed(write, tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".a.file_set").symlink_to(tmp_path / "victim")
    write({"path": str(tmp_path / "a"), "content": "x"})
    assert (tmp_path / "victim").read_text() == "kept" and not (tmp_path / "a").is_symlink()


# --- secrets ---


def test_secret_is_written_and_never_shown(write, tmp_path):
    item = {"path": str(tmp_path / "key"), "secret_base64": base64.b64encode(SECRET).decode(), "mode": "0600"}
    results = [write(item, _ansible_diff=True), write(item, _ansible_diff=True)]
    assert [result["changed"] for result in results] == [True, False]
    assert (tmp_path / "key").read_bytes() == SECRET and mode(tmp_path / "key") == 0o600
    other = base64.b64encode(b"another secret key").decode()
    results += [write({**item, "secret_base64": other}), write({**item, "secret_base64": other, "mode": "0644"}, _ansible_check_mode=True)]
    assert [result["changed"] for result in results[2:]] == [True, True]
    for result in results:
        for text in ("very secret", "another secret", item["secret_base64"], other):
            assert text not in result["printed"]


@pytest.mark.parametrize("change", [{"state": "absent"}, {"content": "public now\n"}])
def test_old_content_that_only_some_could_read_is_not_shown(write, tmp_path, change):
    (tmp_path / "key").write_text("a very secret key")
    (tmp_path / "key").chmod(0o640)
    result = write({"path": str(tmp_path / "key"), **change}, _ansible_diff=True)
    assert result["changed"] is True and "very secret" not in result["printed"]


def test_diff_shows_what_everybody_may_read(write, tmp_path):
    item = {"path": str(tmp_path / "a"), "content": "old\n"}
    write(item)
    (diff,) = write({**item, "content": "new\n"})["diff"]
    assert diff["before_header"] == diff["after_header"] == item["path"]
    assert "old\n" in diff["before"] and "new\n" in diff["after"] and "0644" in diff["before"]
    (diff,) = write({**item, "state": "absent"})["diff"]
    assert "new\n" in diff["before"] and diff["after"] == ""


def test_broken_secret_is_refused_without_being_shown(write, tmp_path):
    result = write({"path": str(tmp_path / "key"), "secret_base64": "no base64, but secret!"})
    assert result["msg"] == f"the secret content of {tmp_path}/key is not valid base64"
    assert "but secret" not in result["printed"]


def test_undo_takes_the_change_back(write, tmp_path):
    (tmp_path / "b").write_text("Made by deephdc.accelerators: old")
    (tmp_path / "c").write_text("old")
    os.chmod(tmp_path / "b", 0o604)
    before = {name: one[:2] for name, one in tree(tmp_path).items()}
    changed = write(
        {"path": str(tmp_path / "a"), "content": "new"},
        {"path": str(tmp_path / "b"), "content": "new"},
        {"path": str(tmp_path / "c"), "state": "absent"},
    )
    (tmp_path / "a").write_text("Made by deephdc.accelerators: new")
    (tmp_path / "b").write_text("Made by deephdc.accelerators: new")
    assert write(*changed["undo"])["changed"] is True
    assert {name: one[:2] for name, one in tree(tmp_path).items()} == before
    assert write(*changed["undo"])["changed"] is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_file_of_an_account_that_is_gone_can_be_changed(write, tmp_path):
    (tmp_path / "a").write_text("old")
    os.chown(tmp_path / "a", 54321, 54321)
    (undo,) = write({"path": str(tmp_path / "a"), "content": "new"})["undo"]
    assert (undo["content"], undo["owner"], undo["group"]) == ("old", ME["owner"], ME["group"])


# --- refusals ---


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"content": "refused", "validate": "sh -c 'echo line 3: no >&2; exit 1' %s"},
            "was left as it was, because the new content was refused: line 3: no",
        ),
        ({"content": "x", "owner": "no_such_user"}, "shall belong to no_such_user:"),
        ({"state": "directory", "group": "no_such_group"}, "but this host has no such user or group"),
        ({"content": "x", "mode": "9"}, "is not octal"),
        ({"content": "x", "mode": "-1"}, "is not octal"),
        ({"content": "x", "mode": "u=rw"}, "is not octal"),
        ({}, "has neither content nor secret_base64"),
    ],
)
def test_refusal_of_the_last_file_leaves_everything_as_it_was(write, tmp_path, bad, message):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").write_text("old")
    (tmp_path / "gone").write_text("old")
    (tmp_path / "d").mkdir(mode=0o700)
    before = tree(tmp_path)
    failed = write(
        {"path": str(tmp_path / "d"), "state": "directory", "mode": "0755"},
        {"path": str(tmp_path / "new"), "state": "directory"},
        {"path": str(tmp_path / "a"), "content": "new", "mode": "0600"},
        {"path": str(tmp_path / "gone"), "state": "absent"},
        {"path": str(tmp_path / "new" / "c"), "content": "new"},
        {"path": str(tmp_path / ("b" if "state" not in bad else "e")), **bad},
    )
    assert failed["failed"] and message in failed["msg"] and "\n" not in failed["msg"]
    assert tree(tmp_path) == before


def test_validation_sees_the_new_content_and_the_message_the_final_path(write, tmp_path):
    item = {"path": str(tmp_path / "a b.conf"), "content": "good", "validate": "grep -q good %s"}
    assert write(item)["changed"] is True
    failed = write({**item, "content": "bad", "validate": "sh -c 'echo $0 is bad; exit 1' %s"})
    assert failed["msg"].endswith(f"refused: {item['path']} is bad")
    assert (tmp_path / "a b.conf").read_text() == "good" and os.listdir(tmp_path) == ["a b.conf"]


@pytest.mark.parametrize(
    ("make", "item", "message"),
    [
        (lambda path: path.mkdir(), {"content": "x"}, "shall be a file but is something else"),
        (lambda path: path.write_text("x"), {"state": "directory"}, "shall be a directory but is something else"),
        (lambda path: path.mkdir(), {"state": "absent"}, "shall be absent but is a directory"),
        (lambda path: path.symlink_to("/etc/passwd"), {"content": "x"}, "shall be a file but is something else"),
        (os.mkfifo, {"content": "x"}, "shall be a file but is something else"),
    ],
)
def test_something_else_is_there(write, tmp_path, make, item, message):
    make(tmp_path / "a")
    for check in (True, False):
        failed = write({"path": str(tmp_path / "a"), **item}, _ansible_check_mode=check)
        assert failed["failed"] and failed["msg"].startswith(f"{tmp_path}/a {message}")


def test_path_below_a_file(write, tmp_path):
    (tmp_path / "a").write_text("x")
    failed = write({"path": str(tmp_path / "a" / "b"), "content": "x"})
    assert failed["msg"] == f"a part of the path {tmp_path}/a/b is a file, not a directory"


def test_link_can_be_removed(write, tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "a").symlink_to(tmp_path / "victim")
    assert write({"path": str(tmp_path / "a"), "state": "absent"})["changed"] is True
    assert not (tmp_path / "a").is_symlink() and (tmp_path / "victim").read_text() == "kept"


def test_full_disk_is_one_sentence(write, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    failed = write({"path": str(tmp_path / "a"), "content": "x"})
    assert failed["msg"].endswith("No space left on device") and "None" not in failed["msg"]
    assert os.listdir(tmp_path) == []


# --- check mode ---


def test_check_mode_predicts_and_changes_nothing(write, tmp_path):
    items = [
        {"path": str(tmp_path / "d"), "state": "directory"},
        {"path": str(tmp_path / "d" / "a"), "content": "x", "validate": "no_such_program %s"},
    ]
    predicted = write(*items, _ansible_check_mode=True)
    assert predicted["changed"] is True and predicted["paths"] == [item["path"] for item in items]
    assert os.listdir(tmp_path) == []


def test_check_mode_where_the_owner_is_not_there_yet(write, tmp_path):
    stranger = {"owner": "no_such_user", "group": "no_such_group"}
    item = {"path": str(tmp_path / "a"), "content": "x", **stranger}
    assert write(item, _ansible_check_mode=True)["changed"] is True
    (tmp_path / "a").write_text("x")
    assert write(item, _ansible_check_mode=True)["changed"] is False
    assert write(item)["failed"] is True


def test_what_somebody_else_wrote_is_kept_once(write, tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text("ClusterName=by_hand\n")
    write({"path": str(path), "content": "# Made by deephdc.accelerators\nClusterName=a\n"})
    write({"path": str(path), "content": "# Made by deephdc.accelerators\nClusterName=b\n"})
    assert (tmp_path / "slurm.conf.before-deephdc").read_text() == "ClusterName=by_hand\n"
    assert path.read_text().endswith("ClusterName=b\n")


def test_diff_shows_no_new_content_that_only_some_may_read(write, tmp_path):
    changed = write({"path": str(tmp_path / "a"), "content": "StoragePass=hunter2", "mode": "0600"})
    assert "hunter2" not in str(changed["diff"]) + str(changed["undo"])


def test_former_brings_back_what_was_there_before(write, tmp_path):
    ours, theirs, fresh = (str(tmp_path / name) for name in ("ours", "theirs", "fresh"))
    (tmp_path / "ours").write_text("before us\n", encoding="utf-8")
    (tmp_path / "theirs").write_text("by hand\n", encoding="utf-8")
    text = "# Made by deephdc.accelerators\n"
    write({"path": ours, "content": text}, {"path": fresh, "content": text})
    wanted = [{"path": path, "state": "former"} for path in (ours, theirs, fresh, str(tmp_path / "never"))]
    predicted = write(*wanted, _ansible_check_mode=True)
    assert (tmp_path / "fresh").exists()
    assert write(*wanted)["paths"] == predicted["paths"] == [ours, fresh]
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"ours": "before us\n", "theirs": "by hand\n"}
    assert write(*wanted)["changed"] is False


NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories to another user")


@pytest.fixture
def service(tmp_path):
    """A directory of a service's user, and a file of root's that this user would like to own."""
    directory = tmp_path / "service"
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    (tmp_path / "shadow").write_text("root:secret\n")
    (tmp_path / "shadow").chmod(0o600)
    return directory


@root_only
def test_a_service_cannot_swap_the_waiting_file_for_a_link(write, service, tmp_path, monkeypatch):
    shadow = tmp_path / "shadow"

    def swap(_module, _change, temporary):
        os.unlink(temporary)
        os.symlink(shadow, temporary)

    monkeypatch.setattr(file_set, "validate", swap)
    write({"path": str(service / "key"), "content": "x", "owner": "nobody", "mode": "0644"})
    assert (shadow.stat().st_uid, stat.S_IMODE(shadow.stat().st_mode)) == (0, 0o600)


@root_only
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_link_of_a_service_does_not_lead_root_elsewhere(write, service, tmp_path, kind):
    (tmp_path / "etc").mkdir()
    os.symlink(tmp_path / "etc", service / "remotes")
    item = {"path": str(service / "remotes/x"), "owner": "nobody", "state": kind, **({"content": "x"} if kind == "file" else {})}
    refused = write(item)
    assert refused["failed"] and "remotes in the path" in refused["msg"] and "give the path that it leads to" in refused["msg"]
    assert list((tmp_path / "etc").iterdir()) == []


@root_only
def test_a_directory_that_a_service_made_a_link_keeps_its_owner(write, service, tmp_path):
    (tmp_path / "etc").mkdir(mode=0o755)
    os.symlink(tmp_path / "etc", service / "state")
    assert write({"path": str(service / "state"), "state": "directory", "owner": "nobody", "mode": "0700"})["failed"]
    assert ((tmp_path / "etc").stat().st_uid, stat.S_IMODE((tmp_path / "etc").stat().st_mode)) == (0, 0o755)


def test_links_that_root_made_are_followed(write, tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    write({"path": str(tmp_path / "link/sub/a"), "content": "x"})
    assert (tmp_path / "real/sub/a").read_text() == "x"


def test_the_first_line_of_a_diff_compares_names_with_names(write, tmp_path):
    write({"path": str(tmp_path / "a"), "content": "x"})
    (diff,) = write({"path": str(tmp_path / "a"), "content": "y"})["diff"]
    assert diff["before"].splitlines()[0] == diff["after"].splitlines()[0] == "root:root 0644"
