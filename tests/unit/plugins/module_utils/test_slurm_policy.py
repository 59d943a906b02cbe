# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each mistake in a policy is one sentence that names the account, user, QOS or partition."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy

POLICY = {
    "qos": [
        {"name": "long", "priority": 10, "limits": {"per_job": {"wall": "2-00:00:00"}, "per_user": {"gpus": 2}}},
        {"name": "spare", "preempt": [], "flags": ["DenyOnLimit", "NoReserve"], "usage_factor": 0.5},
    ],
    "accounts": [
        {"name": "physics", "parent": "science", "limits": {"gpus": {"a100": 3}, "per_user": {"jobs": 5}}, "users": ["ada"]},
        {"name": "science", "qos": ["normal", "long"], "default_qos": "normal", "coordinators": ["emmy"], "fairshare": 10},
        {
            "name": "chemistry",
            "users": [{"name": "emmy", "fairshare": "parent", "limits": {"gpus": "unlimited"}}, {"name": "ada", "default": True}],
        },
    ],
    "partitions": [
        {"name": "gpu", "accounts": ["science"], "partition_qos": "long"},
        {"name": "all", "qos": ["normal"], "groups": ["hpc"]},
    ],
}


def errors(policy):
    return slurm_policy.policy_errors("site.yml", policy, ["gpu", "all"])


def accounts(*entries):
    return {"qos": POLICY["qos"], "accounts": [{"name": "physics", "users": ["ada"]}, *entries]}


def test_right_policies():
    for policy in (POLICY, {}, {"accounts": None, "qos": []}, accounts({"name": 7, "users": [1001, "bob@example.org"]})):
        assert errors(policy) == []


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("physics", "site.yml must be a dictionary with the keys accounts, qos, partitions, not 'physics'."),
        ([POLICY], "site.yml must be a dictionary with the keys accounts, qos, partitions, not a list."),
        ({"acounts": []}, "site.yml has the unknown key 'acounts' (did you mean accounts?)."),
        ({"accounts": {"physics": {}}}, "site.yml: accounts must be a list of dictionaries, each with a name."),
        ({"accounts": ["physics"]}, "site.yml: accounts must be a list of dictionaries, each with a name."),
        (accounts({"name": "a b"}), "site.yml: 'a b' is no name of an account (letters, digits and '_.@-')."),
        (accounts({}), "site.yml: None is no name of an account (letters, digits and '_.@-')."),
        (accounts({"name": "x" * 300}), f"site.yml: '{'x' * 56}... is no name of an account (letters, digits and '_.@-')."),
        (
            accounts({"name": "Physics"}),
            "site.yml: the accounts physics and Physics differ only in letter case, which SLURM does not keep: rename one.",
        ),
        (accounts({"name": "physics"}), "site.yml names the account physics more than once."),
        (accounts({"name": "root"}), "site.yml: the account root is SLURM's own: leave it out, or give yours another name."),
        (accounts({"name": "a", "parrent": "b"}), "site.yml: account a has the unknown key 'parrent' (did you mean parent?)."),
        (accounts({"name": "a", "parent": "b"}), "site.yml: account a has the parent b, which is not in accounts."),
        (
            accounts({"name": "a", "parent": "b"}, {"name": "b", "parent": "C"}, {"name": "c", "parent": "a"}),
            "site.yml: accounts are their own parents: a below b below c below a. Give one of them another parent.",
        ),
        (
            accounts({"name": "a", "parent": "A"}),
            "site.yml: accounts are their own parents: a below a. Give one of them another parent.",
        ),
        (accounts({"name": "a", "qos": ["fast"]}), "site.yml: account a has the QOS fast, which is not declared in qos."),
        (accounts({"name": "a", "qos": "long"}), "site.yml: account a needs a list of names as qos."),
        (
            accounts({"name": "a", "default_qos": "long"}),
            "site.yml: account a has the default QOS long, which it may not use: add it to its qos, or set its default_qos.",
        ),
        (
            accounts({"name": "a", "qos": ["long"], "default_qos": "long", "users": [{"name": "eve", "qos": ["spare"]}]}),
            "site.yml: user eve in a has the default QOS long, which it may not use: add it to its qos, or set its default_qos.",
        ),
        (
            accounts({"name": "a", "description": "x|y"}),
            "site.yml: account a has a description that sacctmgr can't take: at most 200 characters, without line breaks, quotes, "
            "'|', '=' and backslashes.",
        ),
        (accounts({"name": "a", "fairshare": -1}), "site.yml: account a has the fairshare -1: write a whole number from 0 on, or parent."),
        (
            accounts({"name": "a", "users": {"b": 1}}),
            "site.yml: account a needs a list as users, of login names or dictionaries, not a dictionary.",
        ),
        (accounts({"name": "a", "users": [None]}), "site.yml: account a has the user None, which is no login name."),
        (accounts({"name": "a", "users": ["c\nd"]}), "site.yml: account a has the user 'c\\nd', which is no login name."),
        (accounts({"name": "a", "users": ["b", {"name": "b"}]}), "site.yml: account a has the user b more than once."),
        (accounts({"name": "a", "users": ["root"]}), "site.yml: account a has the user root, who has SLURM's own account: leave it out."),
        (
            accounts({"name": "a", "users": ["Ada"]}),
            "site.yml: the users ada and Ada differ only in letter case, which SLURM does not keep: correct one.",
        ),
        (
            accounts({"name": "a", "users": [{"name": "b", "default": True}]}, {"name": "c", "users": [{"name": "b", "default": True}]}),
            "site.yml: user b has two default accounts, a and c: leave one.",
        ),
        (
            accounts({"name": "a", "coordinators": ["eve"]}),
            "site.yml: account a has the coordinator eve, who is a user of no account: name them in the users of one.",
        ),
        (
            accounts({"name": "a", "limits": {"gpu": 4}}),
            "site.yml: account a: limits has the unknown key 'gpu' (did you mean gpus?).",
        ),
        (
            accounts({"name": "a", "limits": {"gpus": -4}}),
            "site.yml: account a has -4 as gpus: write a whole number from 0 on without a unit, or unlimited.",
        ),
        (
            accounts({"name": "a", "limits": {"gpu_minutes": "100h"}}),
            "site.yml: account a has '100h' as gpu_minutes: write a whole number from 0 on without a unit, or unlimited.",
        ),
        (
            accounts({"name": "a", "limits": {"gpus": {"a100": True}}}),
            "site.yml: account a has True as gpus of type a100: write a whole number from 0 on without a unit, or unlimited.",
        ),
        (
            accounts({"name": "a", "limits": {"memory": "64 GB"}}),
            "site.yml: account a has the memory '64 GB': write MiB as a number, or text such as '64G' (M, G or T).",
        ),
        (
            accounts({"name": "a", "users": [{"name": "b", "limits": {"per_job": {"wall": 43200}}}]}),
            "site.yml: account a: user b: per_job has the wall time 43200: write a time of whole minutes in quotes, such as '12:00:00' or "
            "'2-00:00:00'.",
        ),
        (
            accounts({"name": "a", "limits": {"per_user": {"gpus": 1.5}}}),
            "site.yml: account a: per_user has 1.5 as gpus: write a whole number from 0 on without a unit, or unlimited.",
        ),
        ({"qos": [{"name": "q", "flags": ["DenyOnLimits"]}]}, "site.yml: QOS q has the unknown flag 'DenyOnLimits' (known: DenyOnLimit, "),
        ({"qos": [{"name": "q", "preempt": ["x"]}]}, "site.yml: QOS q: preempt has the QOS x, which is not declared in qos."),
        ({"qos": [{"name": "q", "usage_factor": -1}]}, "site.yml: QOS q has the usage_factor -1: write a number from 0 on."),
        (
            {"partitions": [{"name": "gpus"}]},
            "site.yml: partition gpus is not in slurm_cluster_partitions (there are gpu, all).",
        ),
        ({"partitions": [{"name": "gpu", "accounts": ["x"]}]}, "site.yml: partition gpu has x in accounts, which is not in accounts."),
        (
            {"partitions": [{"name": "gpu", "accounts": [], "deny_accounts": []}]},
            "site.yml: partition gpu has both accounts and deny_accounts, of which SLURM ignores the second: leave one.",
        ),
        ({"partitions": [{"name": "gpu", "partition_qos": "x"}]}, "site.yml: partition gpu has the QOS x, which is not declared in qos."),
    ],
)
def test_mistakes(policy, sentence):
    (found,) = errors(policy)
    assert found.startswith(sentence) and "\n" not in found and len(found) < 400


def test_nonsense_is_answered_in_bounded_sentences():
    bomb: list = ["x"]
    for _level in range(60):
        bomb = [bomb, bomb]
    for nonsense in (bomb, {"a": bomb}, None, 5, True):
        for policy in (
            {"accounts": nonsense},
            {"qos": [{"name": "q", "flags": nonsense, "preempt": nonsense, "limits": nonsense, "priority": nonsense}]},
            accounts({"name": nonsense}),
            accounts({"name": "a", "users": nonsense, "qos": nonsense, "limits": nonsense, "parent": nonsense, "coordinators": nonsense}),
            accounts({"name": "a", "users": [nonsense], "limits": {"gpus": nonsense, "per_job": nonsense, "per_user": nonsense}}),
            accounts({"name": "a", "description": nonsense, "default_qos": nonsense, "fairshare": nonsense}),
        ):
            for sentence in errors(policy):
                assert len(sentence) < 400 and "\n" not in sentence


def test_thousands_of_mistakes_are_counted():
    found = errors({"accounts": [{"name": f"a{number}", "gpus": 1} for number in range(5000)]})
    assert len(found) == 21 and found[-1] == "site.yml has 4980 more mistakes."


def test_gpu_types_that_no_node_has():
    policy = accounts({"name": "a", "limits": {"gpus": {"any": 4, "h100": 2}}, "users": [{"name": "b", "limits": {"gpus": {"v100": 1}}}]})
    assert slurm_policy.gpu_type_errors("site.yml", POLICY, ["a100"]) == []
    assert slurm_policy.gpu_type_errors("site.yml", policy, ["a100", "t4"]) == [
        "site.yml: account a limits the GPU type h100, which no node has; they have a100, t4.",
        "site.yml: user b in a limits the GPU type v100, which no node has; they have a100, t4.",
    ]


def test_access_of_a_partition_includes_the_accounts_below():
    assert slurm_policy.partition_settings(POLICY, "gpu") == {"AllowAccounts": "physics,science", "QOS": "long"}
    assert slurm_policy.partition_settings(POLICY, "all") == {"AllowGroups": "hpc", "AllowQos": "normal"}
    assert slurm_policy.partition_settings(POLICY, "other") == {}
    denied = {**POLICY, "partitions": [{"name": "gpu", "deny_accounts": ["Science"]}]}
    assert slurm_policy.partition_settings(denied, "gpu") == {"DenyAccounts": "physics,science"}
    assert slurm_policy.partition_qos(POLICY) == ["long", "normal"]


def test_limits_of_each_user_of_an_account_are_the_users_own():
    account = {
        "name": "a",
        "limits": {"gpus": 8, "per_user": {"gpus": 2, "per_job": {"wall": "01:00:00", "cpus": 4}}},
        "users": ["Ada", {"name": "bob", "limits": {"gpus": 4, "per_job": {"cpus": 8}}}],
    }
    assert slurm_policy.users_of(account) == [
        {"name": "ada", "limits": {"gpus": 2, "per_job": {"wall": "01:00:00", "cpus": 4}}},
        {"name": "bob", "limits": {"gpus": 4, "per_job": {"wall": "01:00:00", "cpus": 8}}},
    ]
