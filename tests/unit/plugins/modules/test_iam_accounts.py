# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module iam_accounts where something fails halfway, or another host is faster."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.local import Group, User
from ansible_collections.deephdc.accelerators.plugins.modules import iam_accounts


@pytest.fixture
def skeleton(monkeypatch, tmp_path):
    path = tmp_path / "skel"
    path.mkdir()
    (path / ".profile").write_text("new", encoding="utf-8")
    monkeypatch.setattr(iam_accounts, "SKELETON", str(path))


def test_a_failing_creation_keeps_nobody_in(run, fake, monkeypatch, tmp_path):
    monkeypatch.setattr(iam_accounts, "users", lambda: {"eve": User(20002, 20002, "/home/eve", "/bin/bash", None)})
    monkeypatch.setattr(iam_accounts, "groups", lambda: {"eve": Group(20002, []), "gpu": Group(20000, ["eve"])})
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/eve").write_text("ssh-ed25519 x\n", encoding="utf-8")
    fake("systemd-sysusers", "cat > /dev/null; echo no space left >&2; exit 1")
    fake("usermod")
    found = run(
        iam_accounts,
        accounts=[{"name": "ada", "uid": 20001, "active": True}, {"name": "eve", "uid": 20002, "active": False}],
        groups=[{"name": "gpu", "gid": 20000, "members": ["ada"]}],
        make_homes=False,
        keys_directory=str(tmp_path / "keys"),
    )
    assert "systemd-sysusers did not make ada as planned (no space left)" in found["msg"]
    assert fake.calls() == ["usermod --expiredate 2 --shell /usr/sbin/nologin eve", "systemd-sysusers -"]
    assert os.listdir(tmp_path / "keys") == []


def test_a_home_is_made_whole(skeleton, tmp_path):
    iam_accounts.make_home(str(tmp_path / "ada"), os.getuid(), os.getgid())
    assert (tmp_path / "ada/.profile").read_text(encoding="utf-8") == "new" and (tmp_path / "ada").stat().st_mode & 0o777 == 0o700


def test_a_home_that_another_host_made_meanwhile_stays(skeleton, tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada/.profile").write_text("theirs", encoding="utf-8")
    # What another host is about to make is its own.
    (tmp_path / ".ada.other.iam_accounts").mkdir()
    iam_accounts.make_home(str(tmp_path / "ada"), os.getuid(), os.getgid())
    assert (tmp_path / "ada/.profile").read_text(encoding="utf-8") == "theirs"
    assert sorted(os.listdir(tmp_path)) == [".ada.other.iam_accounts", "ada", "skel"]


def test_a_home_that_can_not_be_made_is_an_error(skeleton, tmp_path):
    (tmp_path / "ada").write_text("a file", encoding="utf-8")
    with pytest.raises(NotADirectoryError):
        iam_accounts.make_home(str(tmp_path / "ada"), os.getuid(), os.getgid())
