# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a backup must be to count as one."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import backup

DUMP = rb"""-- MariaDB dump
INSERT INTO `day2_job_table` VALUES
(1,'a\n(2,'),
(2,'INSERT INTO `x` VALUES');
INSERT INTO `day2_assoc_table` VALUES
(1,'root');
/*!40000 ALTER TABLE */;
(not a row)
-- Dump completed on 2026-11-21
"""


def test_rows_of_a_dump_are_counted_and_its_end_is_seen():
    assert backup.rows_of_dump(DUMP.splitlines(keepends=True)) == ({"day2_job_table": 2, "day2_assoc_table": 1}, True)
    assert backup.rows_of_dump(DUMP.splitlines(keepends=True)[:-1])[1] is False
    assert backup.rows_of_dump([b"INSERT INTO `t` VALUES (1,2);\n", b"INSERT INTO `t` VALUES (2,3);\n"]) == ({"t": 2}, False)


def test_a_dump_lies_between_before_and_after():
    assert backup.dump_errors({"job": 5, "assoc": 3}, {"job": 6, "assoc": 3}, {"job": 7, "assoc": 3}) == []
    (error,) = backup.dump_errors({"job": 5}, {"job": 4}, {"job": 7})
    assert "job had 5 rows before and 7 after the dump, which has 4" in error


def test_a_local_database_needs_no_password_and_a_remote_one_is_reached_as_slurmdbd_does():
    local = backup.settings_of("StorageHost=localhost\nStorageUser=slurm # no password\n")
    assert backup.client_options(local) == "[client]\n"
    remote = backup.settings_of('StorageHost=db\nStorageUser=slurm\nStoragePass=a"b\nStorageParameters=SSL_CA=/etc/ca.pem\n')
    assert backup.client_options(remote) == '[client]\nhost=db\nuser=slurm\npassword="a\\"b"\nssl-ca=/etc/ca.pem\nssl-verify-server-cert\n'


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: (d / "manifest.json").unlink(), "is no complete backup"),
        (lambda d: (d / "manifest.json").write_text("{"), "is damaged"),
        (lambda d: (d / "state.tar.gz").write_text("other"), "its checksum is not that of the manifest"),
        (lambda d: (d / "state.tar.gz").unlink(), "is missing"),
    ],
)
def test_only_a_whole_backup_is_taken(tmp_path, change, sentence):
    (tmp_path / "state.tar.gz").write_text("state")
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {"state.tar.gz": backup.digest(str(tmp_path / "state.tar.gz"))}}))
    assert backup.read_manifest(str(tmp_path))
    change(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        backup.read_manifest(str(tmp_path))


def test_the_newest_are_kept():
    names = ["20261103T000000Z", "20261101T000000Z", "20261102T000000Z"]
    assert backup.superfluous(names, 2) == ["20261101T000000Z"]
    assert backup.superfluous(names, 0) == []
