# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The users of a deployment and their accounts."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import users

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def test_a_users_number_stays_when_others_come_and_go():
    ada, bob = {"os_user_name": "ada", "os_user_ssh_public_key": f"{KEY} ada@{{{{ 7 * 7 }}}}"}, {"os_user_name": "bob"}
    (alone,), both = users.users([ada]), users.users([bob, ada, bob])
    assert alone == {"name": "ada", "uid": 22152, "keys": [KEY]}
    assert both[1] == alone and [one["name"] for one in both] == ["bob", "ada"]


def test_a_user_who_is_there_twice_has_the_keys_of_both():
    other = KEY[:-4] + "ABCD"
    twice = [{"os_user_name": "ada", "os_user_ssh_public_key": key} for key in (KEY, f"{other}\n{KEY}")]
    assert users.users(twice) == [{"name": "ada", "uid": 22152, "keys": [KEY, other]}]


@pytest.mark.parametrize("name", ["root", "", "Ada", "a b", "../x", "1st", "nobody", "www-data", "backup", "munge", "systemd-x", None, 7])
def test_what_is_no_users_name_is_refused(name):
    with pytest.raises(ValueError, match=r"os_user_name .* is (no login name|a name that belongs to the system)"):
        users.users([{"os_user_name": name}])


@pytest.mark.parametrize("key", ["ssh-ed25519 A", 'command="x" ' + KEY, f"{KEY}\nnonsense", "-----BEGIN OPENSSH PRIVATE KEY-----"])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(ValueError, match="os_user_ssh_public_key of ada is no public key"):
        users.users([{"os_user_name": "ada", "os_user_ssh_public_key": key}])


def test_rights_that_no_user_gets_are_refused():
    with pytest.raises(ValueError, match="os_user_add_to_sudoers of ada is set"):
        users.users([{"os_user_name": "ada", "os_user_add_to_sudoers": True}])
    assert users.users([{"os_user_name": "ada", "os_user_add_to_sudoers": False}])


def test_who_has_left_is_disabled_on_a_host():
    wanted = users.users([{"os_user_name": "ada"}])
    assert users.accounts(wanted, {"ada": 22152, "eve": 37790}) == [
        {"name": "ada", "uid": 22152, "keys": [], "active": True},
        {"name": "eve", "uid": 37790, "active": False},
    ]
    assert [one["active"] for one in users.accounts([], {"ada": 22152, "eve": 37790})] == [False, False]


def test_members_of_the_group_that_an_administrator_added_are_not_ours():
    passwd = {"ada": ["x", "22152"], "bob": ["x", "1500"], "eve": ["x", "41"], "debian": ["x", "1000"]}
    assert users.ours(["ada", "bob", "eve", "debian", "gone"], passwd) == {"ada": 22152}
    assert users.ours(["ada", "eve"], passwd, {"eve": 41}) == {"ada": 22152, "eve": 41}


def test_two_names_of_one_number_get_two_numbers(monkeypatch):
    monkeypatch.setattr(users, "IDS", 3)
    first = {one["name"]: one["uid"] for one in users.users([{"os_user_name": name} for name in ("ada", "bob", "kim")])}
    assert sorted(first.values()) == [20000, 20001, 20002]
    # Who has a number keeps it, whoever came before in the template now.
    again = {one["name"]: one["uid"] for one in users.users([{"os_user_name": name} for name in ("kim", "ada")], first)}
    assert again == {name: first[name] for name in ("kim", "ada")}


def test_many_users_have_a_number_each():
    made = users.users([{"os_user_name": f"user{number}"} for number in range(2000)])
    assert len({one["uid"] for one in made}) == 2000
