# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which names have rights on a host."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import claims


def written(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(root)


def test_a_host_without_any_of_these_files(tmp_path: Path):
    assert claims.claimed(str(tmp_path)) == {}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("ubuntu ALL=(ALL) NOPASSWD:ALL", ["ubuntu"]),
        ("ada, ben  gpu1 = /bin/true", ["ada", "ben"]),
        ("ada,ben gpu1,gpu2=(root) ALL", ["ada", "ben"]),
        ("%gpu ALL=(ALL:ALL) ALL", ["gpu"]),
        ("%:ad ALL=ALL", ["ad"]),
        ('"jane" ALL=ALL', ["jane"]),
        ("User_Alias ADMINS = ada, %ops : OTHERS = ben", ["ada", "ops", "ben"]),
        ("!ada ALL=ALL", ["ada"]),
        ("#1000, %#2000 ALL=ALL", ["1000", "2000"]),
        ("User_Alias ADMINS = ada, ben # carl left in may", ["ada", "ben"]),
        ("+netgroup ALL=ALL", []),
        ("Defaults:carl !lecture", []),
        ("Cmnd_Alias SHELLS = /bin/sh", []),
        ("Runas_Alias X = carl", []),
        ("# carl ALL=ALL", []),
        ("ada \\\nALL=ALL", ["ada"]),
        # A comment ends with its line.
        ("# an old rule \\\nubuntu ALL=(ALL) NOPASSWD:ALL", ["ubuntu"]),
        ("ada ALL=ALL # old \\\nubuntu ALL=ALL", ["ada", "ubuntu"]),
        ("User_Alias ADMINS = %:ad, ada:OTHERS = ben", ["ad", "ada", "ben"]),
    ],
)
def test_names_in_sudoers(tmp_path: Path, line: str, names: list[str]):
    assert list(claims.claimed(written(tmp_path, etc__sudoers=line + "\n"))) == names


def test_members_of_groups_without_an_account(tmp_path: Path):
    root = written(tmp_path, etc__group="root:x:0:\nsudo:x:27:jane,carl\ndocker:x:999:jane\n")
    assert claims.claimed(root, {"root", "carl"}) == {"jane": "/etc/group"}


def test_includes_as_sudo_reads_them(tmp_path: Path):
    host = socket.gethostname().partition(".")[0]
    root = written(
        tmp_path,
        etc__sudoers='@include /etc/sudoers.%h\n@include /opt/a\\ b\n@include "/opt/c d" # why\n#include /opt/more # why\n',
        **{f"etc__sudoers_dot_{host}": "ada ALL=ALL\n", "opt__a b": "ben ALL=ALL\n", "opt__c d": "carl ALL=ALL\n"},
        opt__more="dora ALL=ALL\n",
    )
    assert list(claims.claimed(root)) == ["ada", "ben", "carl", "dora"]


def test_an_included_file_that_is_not_there_is_unknown(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        claims.claimed(written(tmp_path, etc__sudoers="@include /etc/sudoers.site\n"))


def test_rules_that_wait_for_sudo(tmp_path: Path):
    assert claims.claimed(written(tmp_path, etc__sudoers_dot_d__cloud="debian ALL=ALL\n")) == {"debian": "/etc/sudoers.d/cloud"}


def test_files_that_sudoers_includes(tmp_path: Path):
    root = written(
        tmp_path,
        etc__sudoers="@includedir /etc/sudoers.d\n#include /opt/more\n@include local\n@include /etc/sudoers\n",
        **{"etc__sudoers_dot_d__90-cloud": "debian ALL=ALL\n", "etc__sudoers_dot_d__x_dot_dpkg-old": "carl ALL=ALL\n"},
        opt__more="ada ALL=ALL\n",
        etc__local="ben ALL=ALL\n",
    )
    assert claims.claimed(root) == {"debian": "/etc/sudoers.d/90-cloud", "ada": "/opt/more", "ben": "/etc/local"}


def test_other_files_that_name_users(tmp_path: Path):
    root = written(
        tmp_path,
        etc__subuid="sub:100000:65536\n20001:200000:65536\n# carl:1:1\n",
        etc__subgid="grp:100000:65536\n",
        etc__crontab="SHELL=/bin/sh\n17 * * * * hourly cd / && run-parts\n@daily daily true\n",
        etc__cron_dot_d__jenkins="*/5 * * * * jenkins /bin/true\n0 0 * * carl\n",
        var__spool__cron__crontabs__tab="",
        var__lib__systemd__linger__lin="",
        usr__lib__sysusers_dot_d__a_dot_conf='u dcgm - "DCGM"\nu! sealed -\ng group -\nm member group\nr - 5-9\nu "{{ 7 }}" -\n',
    )
    found = claims.claimed(root)
    assert set(found) == {"sub", "20001", "grp", "hourly", "daily", "jenkins", "tab", "lin", "dcgm", "sealed", "group", "member"}
    assert found["tab"] == "/var/spool/cron/crontabs" and found["dcgm"] == "/usr/lib/sysusers.d/a.conf"


def test_a_folder_that_can_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = written(tmp_path, etc__cron_dot_d__jenkins="@daily jenkins true\n")
    read = os.scandir

    def closed(path: str):
        if path.endswith("/etc/cron.d"):
            raise PermissionError(13, "Permission denied", path)
        return read(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(PermissionError):
        claims.claimed(root)


def test_a_file_that_can_not_be_read_is_an_error(tmp_path: Path):
    root = written(tmp_path, etc__subuid="a:1:1\n")
    os.mkdir(tmp_path / "etc/sudoers")
    with pytest.raises(OSError):
        claims.claimed(root)
