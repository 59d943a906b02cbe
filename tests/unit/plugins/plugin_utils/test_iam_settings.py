# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each mistake in the variables is one sentence that names the variable."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam import settings as iam_settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.iam_examples import SETTINGS

FILLED = [{"name": "deep/gpu", "group": "gpu", "slurm_account": "Physics"}]
POLICY = {"accounts": [{"name": "physics", "users_from": "iam_accounts"}, {"name": "teaching", "users": ["ada"]}]}
CLIENT = {"token_url": "https://iam.example.org/token", "client_id": "site", "client_secret_file": "/etc/secret"}


def errors(policy=None, controllers=("ctl",), **settings):
    return iam_settings.errors({**SETTINGS, **settings}, list(controllers), policy or {})


def test_right_ones():
    assert errors() == errors(token_file="", **CLIENT) == errors(scim_url="http://127.0.0.1:8080/scim") == []
    assert errors(groups=FILLED) == errors(POLICY, groups=FILLED) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scim_url": ""}, "iam_accounts_scim_url must be an address"),
        ({"scim_url": "https://iam.example.org/scim?x"}, "iam_accounts_scim_url must be an address"),
        ({"scim_url": "http://iam.example.org/scim"}, "without https everybody in between reads the token"),
        ({"scim_url": "http://localhost.example.org/scim"}, "without https"),
        ({"scim_url": "https://user@iam.example.org/scim"}, "iam_accounts_scim_url must be an address"),
        ({"issuer": ""}, "iam_accounts_issuer must be"),
        ({"token_file": ""}, "iam_accounts needs either"),
        (CLIENT, "and not both"),
        ({**CLIENT, "token_file": "", "client_id": ""}, "belong together"),
        ({**CLIENT, "token_file": "", "token_url": "http://iam.example.org/token"}, "iam_accounts_token_url is http:"),
        ({"uid_first": 999}, "choose a range from 1000 on"),
        ({"uid_last": 70000}, "choose a range from 1000 on"),
        ({"uid_first": 30000}, "choose a range from 1000 on"),
        ({"disable_limit": 101}, "iam_accounts_disable_limit is 101"),
        ({"names": {"id-1": "root"}}, "'root' is a name that belongs to the system"),
        ({"names": {"id 1": "ada"}}, "'id 1' is no id of a user"),
        ({"names": {"id-1": "ada", "id-2": "ada"}}, "gives two users of the IAM the same account"),
        ({"groups": []}, "iam_accounts_groups is empty"),
        ({"groups": ["gpu"]}, "must be a list of dictionaries"),
        ({"groups": [{"name": "a", "group": "gpu", "slurm": "x"}]}, "has the unknown key 'slurm'"),
        ({"groups": [{"name": "a", "group": "sudo"}]}, "has the local group 'sudo', which is a name that belongs to the system"),
        ({"groups": [{"name": "a"}]}, "has the local group None, which is no login name"),
        ({"groups": [{"name": "a", "group": "x"}, {"name": "b", "group": "x"}]}, "names the local group 'x' more than once"),
        ({"groups": [{"name": "a", "group": "x", "id": "{{"}]}, "no id of SCIM"),
        ({"groups": [{"name": "a", "group": "x", "slurm_account": "a b"}]}, "no name of an account"),
    ],
)
def test_mistakes(settings, sentence):
    (found,) = errors(**settings)
    assert sentence in found


def test_an_account_of_slurm_has_one_source_of_users():
    (found,) = errors(POLICY, groups=[{**FILLED[0], "slurm_account": "teaching"}])
    assert "give the account there 'users_from: iam_accounts' instead of users" in found
    (found,) = errors(controllers=(), groups=FILLED)
    assert "has no slurm_controllers" in found
