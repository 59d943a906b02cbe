# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a service puts in the place of its file leads root nowhere, and keeps root from nothing."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory, service_file


@pytest.fixture
def reached() -> t.Iterator[pathlib.Path]:
    """A folder that all accounts of this machine reach; tmp_path is closed to others."""
    if os.geteuid() != 0:
        pytest.skip("Only root can be another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def text(path: pathlib.Path, owner: str = "") -> bytes:
    with service_file.opened(str(path), owner) as file:
        return file.read()


@pytest.mark.parametrize("owner", ["", "nobody"])
def test_a_file_is_read_and_nothing_else(reached, owner) -> None:
    (reached / "file").write_text("text", encoding="utf-8")
    assert text(reached / "file", owner) == b"text"
    (reached / "link").symlink_to("file")
    os.mkfifo(reached / "pipe", 0o644)
    (reached / "directory").mkdir()
    for name, said in (("link", "is a link"), ("pipe", "is no file"), ("directory", "is no file")):
        with pytest.raises(ValueError, match=said):
            text(reached / name, owner)
    with pytest.raises(FileNotFoundError):
        text(reached / "none", owner)


def test_no_directory_of_the_service_leads_to_what_is_roots(reached) -> None:
    own = reached / "own"
    own.mkdir()
    shutil.chown(own, "nobody")
    (reached / "of_root").mkdir(mode=0o700)
    (reached / "of_root/file").write_text("secret", encoding="utf-8")
    (own / "link").symlink_to(reached / "of_root")
    with pytest.raises(safe_directory.UnsafeLink):
        text(own / "link/file")
    with pytest.raises(PermissionError):
        text(own / "link/file", "nobody")


def test_a_copy_has_content_mode_and_time(reached, tmp_path) -> None:
    (reached / "file").write_text("text", encoding="utf-8")
    (reached / "file").chmod(0o604)
    os.utime(reached / "file", (1000, 2000))
    service_file.copy(str(reached / "file"), str(tmp_path / "copy"), "nobody")
    found = (tmp_path / "copy").stat()
    assert (tmp_path / "copy").read_bytes() == b"text" and (found.st_mode & 0o777, found.st_mtime) == (0o604, 2000)
    (reached / "file").chmod(0o600)
    with pytest.raises(PermissionError):
        service_file.copy(str(reached / "file"), str(tmp_path / "second"), "nobody")
    assert not (tmp_path / "second").exists()
