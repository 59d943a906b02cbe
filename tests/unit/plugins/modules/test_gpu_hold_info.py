# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module gpu_hold_info against files below a separate root."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_hold_info
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _gpu_hold


@pytest.fixture
def holders(run, monkeypatch, tmp_path):
    """holders({path below /var/lib/deephdc: text}) gives what the module reads."""
    monkeypatch.setattr(gpu_hold_info, "ROOT", str(tmp_path))

    def read(files):
        for name, text in files.items():
            path = tmp_path / "var/lib/deephdc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return run(gpu_hold_info)["holders"]

    return read


def test_a_host_that_nothing_holds(holders):
    assert holders({}) == {}
    assert holders({"nvidia_driver_packages": "dkms\n"}) == {}


def test_what_each_holder_noted(holders):
    noted = {"held/nvidia_driver": _gpu_hold.record("nvidia_driver", {"slurm": "held", "opennebula": "kept", "other": "none"})}
    assert holders(noted) == {"nvidia_driver": {"managers": {"slurm": "held", "opennebula": "kept", "other": "none"}, "former": False}}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"managers": []}', '{"managers": {"slurm": "perhaps"}}'])
def test_a_damaged_file_still_holds_the_host(holders, text):
    assert holders({"held/pci_passthrough": text}) == {"pci_passthrough": {"managers": {}, "former": False}}


def test_files_of_earlier_versions_hold_the_host(holders):
    found = holders({"nvidia_driver_drained": "", "pci_passthrough_drained": "x"})
    assert found == {name: {"managers": {}, "former": True} for name in ("nvidia_driver", "pci_passthrough")}


def test_other_files_are_no_holders(holders):
    assert holders({"held/nvidia_driver.before-deephdc": "", "held/.tmp": ""}) == {}
