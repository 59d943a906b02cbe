# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who is, was and is again a user of a deployment."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca.members import FREE, STOPPED, members


def given(*names: str) -> list[dict]:
    return [{"os_user_name": name} for name in names]


def users_of(made: dict) -> list:
    (account,) = made["policy"]["accounts"]
    assert account["name"] == "users"
    return account["users"]


def kept(made: dict, when: str = "after") -> str:
    return json.dumps(made[when])


def test_who_comes_who_leaves_and_who_comes_back() -> None:
    first = members(given("ada", "eve"), {}, {})
    assert users_of(first) == ["ada", "eve"]
    second = members(given("ada"), kept(first), {})
    assert users_of(second) == ["ada", {"name": "eve", "limits": STOPPED}]
    assert members(given("ada"), kept(second), {}) == second, "a second run says the same"
    assert second["after"] == {"numbers": {"ada": 22152, "eve": 37790}, "left": ["eve"]}
    assert [one["uid"] for one in second["users"]] == [22152]
    third = members(given("ada", "eve"), kept(second), {})
    assert users_of(third) == ["ada", {"name": "eve", "limits": FREE}]
    assert users_of(members(given("ada", "eve"), kept(third), {})) == ["ada", "eve"], "limits that an administrator gives eve now stay"
    assert users_of(members([], kept(third), {})) == [{"name": "ada", "limits": STOPPED}, {"name": "eve", "limits": STOPPED}]


def test_a_run_that_is_killed_forgets_nobody() -> None:
    first = members(given("ada", "eve"), {}, {})
    killed = members(given("ada"), kept(first), {})
    again = members(given("ada"), kept(killed, "before"), {})
    assert users_of(again) == ["ada", {"name": "eve", "limits": STOPPED}]
    killed = members(given("ada", "eve"), kept(again), {})
    assert users_of(members(given("ada", "eve"), kept(killed, "before"), {})) == ["ada", {"name": "eve", "limits": FREE}]


def test_a_policy_of_the_template_has_the_users_too() -> None:
    theirs = {"qos": [{"name": "long"}], "accounts": [{"name": "physics", "users": ["ada"]}]}
    made = members(given("ada"), {"numbers": {"eve": 37790}}, theirs)["policy"]
    stopped = {"name": "eve", "limits": STOPPED}
    assert made == {**theirs, "accounts": [*theirs["accounts"], {"name": "users", "users": ["ada", stopped]}]}
    own = {"accounts": [{"name": "users", "fairshare": 3, "users": [{"name": "ada", "limits": {"gpus": 1}}, "kim"]}]}
    (account,) = members(given("ada", "bob"), {"numbers": {"eve": 37790}}, own)["policy"]["accounts"]
    assert account == {"name": "users", "fairshare": 3, "users": [{"name": "ada", "limits": {"gpus": 1}}, "kim", "bob", stopped]}


@pytest.mark.parametrize(
    "policy",
    [
        "x",
        [],
        {"accounts": "x"},
        {"accounts": ["x"]},
        {"accounts": [{"name": "users", "users": "ada"}]},
        {"accounts": [{"name": "users", "users": [["ada"]]}]},
    ],
)
def test_a_policy_that_is_none_is_left_to_the_playbook(policy: object) -> None:
    assert members(given("ada"), {}, policy)["policy"] == policy


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{}", "[]", "x", "null", '{"a": }', '{"numbers": {"ada": 1}', '{"numbers": {"ada": 1}}', '{"left": []}'),
        *('{"numbers": ["ada"], "left": []}', '{"numbers": {"ada": "1"}, "left": []}', '{"numbers": {"ada": true}, "left": []}'),
        *('{"numbers": {}, "left": {}}', '{"numbers": {}, "left": [1]}', '{"numbers": null, "left": []}'),
    ],
)
def test_a_damaged_record_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"tosca_users\.json on the front end is damaged"):
        members(given("ada"), text, {})
