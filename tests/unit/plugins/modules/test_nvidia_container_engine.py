# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What diff mode shows of an engine's configuration."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.modules import nvidia_container_engine as engine


def test_a_private_file_is_not_shown(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('auth = "secret"\n', encoding="utf-8")
    path.chmod(0o600)
    assert "secret" not in str(engine.difference(str(path), 'auth = "secret"\nx = 1\n'))
    path.chmod(0o644)
    assert engine.difference(str(path), "x")["before"] == 'auth = "secret"\n'


def test_a_new_file_is_shown(tmp_path):
    assert engine.difference(str(tmp_path / "new"), "x = 1\n")["after"] == "x = 1\n"
