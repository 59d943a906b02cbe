# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Secrets are made once, are private, and a damaged one is never taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import openstack_secrets


def test_a_secret_is_private_and_read_again(tmp_path: Path):
    path = tmp_path / "one"
    assert openstack_secrets.read(str(path)) is None
    openstack_secrets.write(str(path), "a" * 64)
    assert openstack_secrets.read(str(path)) == "a" * 64
    assert path.stat().st_mode & 0o777 == 0o400 and [one.name for one in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("text", ["", "short", "a" * 20 + "\n" + "b" * 20, "a b" * 10])
def test_what_is_no_secret_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "one"
    path.write_text(text, encoding="ascii")
    with pytest.raises(ValueError, match="is damaged: restore it"):
        openstack_secrets.read(str(path))
