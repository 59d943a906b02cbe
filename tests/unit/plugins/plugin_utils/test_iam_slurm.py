# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Users of SLURM accounts from an IAM, beside a hand-written policy that may purge."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import associations as slurm_associations
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.associations import State
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import iam_users as slurm_iam_users

DECLARED = [{"name": "deep/gpu", "group": "gpu", "slurm_account": "Physics"}, {"name": "deep/ml", "group": "ml"}]
ACCOUNTS = [{"name": name, "uid": 20000, "active": name != "eve"} for name in ("ada", "bob", "eve", "max")]
GROUPS = [{"name": "gpu", "gid": 1, "members": ["ada", "bob"]}, {"name": "ml", "gid": 2, "members": ["max"]}]
SITE = {
    "accounts": [
        {"name": "science"},
        {"name": "physics", "parent": "science", "users_from": "iam_accounts", "limits": {"gpus": 9, "per_user": {"gpus": 2, "jobs": 5}}},
    ]
}


def present(*users):
    """What slurmdbd has."""
    return {"accounts": [{"name": "science"}, {"name": "physics", "parent": "science", "limits": {"gpus": 9}, "users": list(users)}]}


def users(*there, left=()):
    policy, errors = slurm_iam_users.users_policy(present(*there), DECLARED, ACCOUNTS, GROUPS, left, SITE)
    assert errors == [] and slurm_policy.policy_errors("it", policy) == []
    names = [entry["name"] for entry in policy["accounts"]]
    assert names == ["physics", "science"] and "users" not in policy["accounts"][1]
    return {user["name"]: user["limits"] for user in slurm_policy.users_of(policy["accounts"][0])}


def test_members_get_what_the_policy_gives_each_user():
    assert users() == {"ada": {"gpus": 2, "jobs": 5}, "bob": {"gpus": 2, "jobs": 5}}


def test_who_left_is_stopped_and_nobody_else_is_named():
    found = users({"name": "eve"}, {"name": "max"}, {"name": "hand_made"})
    assert {name: limits for name, limits in found.items() if name not in ("ada", "bob")} == {
        name: {"gpus": 2, "jobs": 0, "submitted_jobs": 0} for name in ("eve", "max")
    }
    assert users(left=["ada"]) == {"bob": {"gpus": 2, "jobs": 5}}


def test_who_comes_back_is_let_in_again():
    assert users({"name": "ada", "limits": {"gpus": 2, "jobs": 0, "submitted_jobs": 0}})["ada"] == {
        "gpus": 2,
        "jobs": 5,
        "submitted_jobs": "unlimited",
    }


def test_an_account_that_slurm_has_not():
    _policy, (sentence,) = slurm_iam_users.users_policy({"accounts": []}, DECLARED, ACCOUNTS, GROUPS, [], SITE)
    assert sentence.startswith("SLURM has no account physics")


def test_a_purge_of_the_hand_written_policy_leaves_these_users():
    """The hand-written policy declares the account and not its users.

    A stranger in another account still goes.
    """
    state = State()
    state.clusters, state.qos = ["demo"], {"normal": {"flags": "DenyOnLimit"}}
    state.accounts = {"science": {"parent": "root"}, "physics": {"parent": "science", "GrpTRES:gres/gpu": "9"}}
    state.users = {("physics", "ada"): {"GrpTRES:gres/gpu": "2"}, ("science", "stranger"): {}}
    state.default = {"ada": "physics", "stranger": "science"}
    declared = slurm_associations.wanted(SITE)
    assert [removal.what for removal in slurm_associations.removals("demo", state, declared, [], ())] == ["user stranger in science"]
    plan = slurm_associations.plan("demo", state, declared, purge=False)
    assert plan.commands == [] and plan.undeclared == ["user stranger in science"]


def test_a_purge_leaves_their_default_account():
    state = State()
    state.clusters, state.qos = ["demo"], {"normal": {"flags": "DenyOnLimit"}}
    state.accounts = {"physics": {"parent": "root"}, "teaching": {"parent": "root"}}
    state.users = {("physics", "ada"): {}, ("teaching", "ada"): {}}
    state.default = {"ada": "physics"}
    declared = slurm_associations.wanted(
        {"accounts": [{"name": "physics", "users_from": "iam_accounts"}, {"name": "teaching", "users": ["ada"]}]}
    )
    assert slurm_associations.plan("demo", state, declared, purge=True).commands == []


def test_an_account_with_two_sources_of_users_is_refused():
    both = {"accounts": [{"name": "physics", "users_from": "iam_accounts", "users": ["ada"]}]}
    assert "has both users and users_from" in slurm_policy.policy_errors("site.yml", both)[0]
    assert "known: iam_accounts" in slurm_policy.policy_errors("site.yml", {"accounts": [{"name": "a", "users_from": "ldap"}]})[0]
