# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may submit jobs to the SLURM of a deployment."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca.members import FREE, STOPPED, members


def given(*names: str) -> list[dict]:
    return [{"name": name} for name in names]


def users_of(made: dict) -> list:
    (account,) = made["policy"]["accounts"]
    assert account["name"] == "users"
    return account["users"]


def test_who_comes_who_leaves_and_who_comes_back() -> None:
    first = members(given("ada", "eve"), {}, {})
    assert users_of(first) == ["ada", "eve"]
    second = members(given("ada"), first["after"], {})
    assert users_of(second) == ["ada", {"name": "eve", "limits": STOPPED}]
    assert members(given("ada"), second["after"], {}) == second, "a second run says the same"
    third = members(given("ada", "eve"), second["after"], {})
    assert users_of(third) == ["ada", {"name": "eve", "limits": FREE}]
    assert users_of(members(given("ada", "eve"), third["after"], {})) == ["ada", "eve"], "limits that an administrator gives eve now stay"
    assert users_of(members([], third["after"], {})) == [{"name": "ada", "limits": STOPPED}, {"name": "eve", "limits": STOPPED}]


def test_a_run_that_is_killed_forgets_nobody() -> None:
    first = members(given("ada", "eve"), {}, {})["after"]
    killed = members(given("ada"), first, {})["before"]
    again = members(given("ada"), killed, {})
    assert users_of(again) == ["ada", {"name": "eve", "limits": STOPPED}]
    killed = members(given("ada", "eve"), again["after"], {})["before"]
    assert users_of(members(given("ada", "eve"), killed, {})) == ["ada", {"name": "eve", "limits": FREE}]


def test_a_policy_of_the_template_has_the_users_too() -> None:
    theirs = {"qos": [{"name": "long"}], "accounts": [{"name": "physics", "users": ["ada"]}]}
    made = members(given("ada"), {"users": ["eve"]}, theirs)["policy"]
    stopped = {"name": "eve", "limits": STOPPED}
    assert made == {**theirs, "accounts": [*theirs["accounts"], {"name": "users", "users": ["ada", stopped]}]}
    own = {"accounts": [{"name": "users", "fairshare": 3, "users": [{"name": "ada", "limits": {"gpus": 1}}, "kim"]}]}
    (account,) = members(given("ada", "bob"), {"users": ["eve"]}, own)["policy"]["accounts"]
    assert account == {"name": "users", "fairshare": 3, "users": [{"name": "ada", "limits": {"gpus": 1}}, "kim", "bob", stopped]}


@pytest.mark.parametrize("policy", ["x", [], {"accounts": "x"}, {"accounts": ["x"]}, {"accounts": [{"name": "users", "users": "ada"}]}])
def test_a_policy_that_is_none_is_left_to_the_playbook(policy: object) -> None:
    assert members(given("ada"), {}, policy)["policy"] == policy


@pytest.mark.parametrize("record", [[], "x", None, {"users": "ada"}, {"users": [1]}, {"left": {}}])
def test_a_damaged_record_is_refused(record: object) -> None:
    with pytest.raises(Refused, match="damaged"):
        members(given("ada"), record, {})
