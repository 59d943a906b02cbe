# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may submit jobs to the SLURM of a deployment."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca.members import FREE, STOPPED, members


def given(*names: str) -> list[dict]:
    return [{"name": name} for name in names]


def test_who_comes_who_leaves_and_who_comes_back() -> None:
    first = members(given("ada", "eve"), {})
    assert first["users"] == ["ada", "eve"]
    second = members(given("ada"), first["record"])
    assert second["users"] == ["ada", {"name": "eve", "limits": STOPPED}]
    assert members(given("ada"), second["record"]) == second, "a second run says the same"
    third = members(given("ada", "eve"), second["record"])
    assert third["users"] == ["ada", {"name": "eve", "limits": FREE}]
    assert members(given("ada", "eve"), third["record"]) == third
    assert members([], third["record"])["users"] == [{"name": "ada", "limits": STOPPED}, {"name": "eve", "limits": STOPPED}]


@pytest.mark.parametrize("record", [[], "x", None, {"users": "ada"}, {"users": [1]}, {"left": {}}])
def test_a_damaged_record_is_refused(record: object) -> None:
    with pytest.raises(Refused, match="damaged"):
        members(given("ada"), record)
