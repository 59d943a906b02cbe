# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.module_utils._host import dpkg


def test_a_journal_of_dpkg_is_an_interruption_too(tmp_path, monkeypatch):
    class Module:
        audit = ""

        def run_command(self, words):
            return 0, self.audit, ""

    monkeypatch.setattr(dpkg, "JOURNAL", f"{tmp_path}/[0-9]*")
    module = Module()
    (tmp_path / "tmp.i").touch()
    assert dpkg.interrupted(module) is False
    (tmp_path / "0000").touch()
    assert dpkg.interrupted(module) is True
    (tmp_path / "0000").unlink()
    module.audit = "The following packages are only half configured\n"
    assert dpkg.interrupted(module) is True
