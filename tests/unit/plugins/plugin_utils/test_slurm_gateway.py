# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Each mistake in the gateway's variables is one sentence."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gateway as slurm_gateway

ROOT = pathlib.Path(__file__).resolve().parents[4]
GROUPS = {"slurm_controllers": ["head"], "slurm_rest": ["head"], "oidc_proxies": ["head"]}
ADA = {"issuer": "https://iam.example.org/", "subject": "1b9d6bcd", "account": "ada"}


def errors(entries=(ADA,), groups=None, **own):
    variables = {"head": {"slurm_rest_jwt_key": "a"}, "other": {"slurm_rest_jwt_key": "b"}}
    for host in variables.values():
        host.update({"slurm_gateway_enabled": True, "slurm_gateway_accounts": entries, **own})
    return slurm_gateway.errors(variables, {**GROUPS, **(groups or {})})


def test_a_right_map_has_no_errors():
    assert errors([ADA, {**ADA, "subject": "2"}]) == errors([]) == []


def test_what_is_switched_off_is_not_looked_at():
    assert errors("nonsense", slurm_gateway_enabled="no") == []


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("ada", "must be a list"),
        ([{"issuer": "https://iam.example.org/", "account": "ada"}], "must have the keys"),
        ([{**ADA, "shell": "/bin/sh"}], "has the unknown key 'shell'"),
        ([{**ADA, "uid": 0}], "no user id of a person"),
        ([{**ADA, "uid": "ada"}], "no user id of a person"),
        ([{**ADA, "issuer": "iam.example.org"}], "needs the provider's issuer"),
        ([{**ADA, "issuer": "https://iam.example.org/ x"}], "needs the provider's issuer"),
        ([{**ADA, "subject": 7}], "needs the token's sub"),
        ([{**ADA, "subject": "a\r\nX-Token-Subject: b"}], "needs the token's sub"),
        ([{**ADA, "account": "0"}], "no name of a local account"),
        ([{**ADA, "account": "ada\n"}], "no name of a local account"),
        ([{**ADA, "account": "root"}], "runs a service"),
        ([{**ADA, "account": "slurm"}], "runs a service"),
        ([ADA, {**ADA, "account": "eve"}], "more than once"),
    ],
)
def test_a_wrong_map_is_refused_by_one_sentence(entries, words):
    (sentence,) = errors(entries)
    assert words in sentence and sentence.startswith("slurm_gateway_accounts of head") and sentence.endswith(".") and "\n" not in sentence


def test_the_front_is_on_the_same_host():
    (sentence,) = errors(groups={"oidc_proxies": ["front"]})
    assert "head, which is not in the group oidc_proxies" in sentence


def test_the_gateway_has_the_cluster_s_key():
    (sentence,) = errors(groups={"slurm_rest": ["other"], "oidc_proxies": ["other"]})
    assert sentence.startswith("slurm_rest_jwt_key differs between head and other") and "'b'" not in sentence


def test_the_service_knows_the_same_rules():
    spec = importlib.util.spec_from_file_location("gateway_accounts", ROOT / "roles/slurm_gateway/files/gateway_accounts.py")
    service = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(service)
    assert (service.ACCOUNT, service.SERVICES) == (slurm_gateway.ACCOUNT, slurm_gateway.SERVICES)
