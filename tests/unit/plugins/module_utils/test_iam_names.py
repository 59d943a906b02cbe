# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Names and numbers that no user of an IAM gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import names as iam_names
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gateway as slurm_gateway

ROLES = Path(__file__).resolve().parents[4] / "roles"


def variables():
    """What the roles' own variables are, unless a site sets them."""
    found = {}
    for path in [*ROLES.glob("*/vars/main.yml"), *ROLES.glob("*/defaults/main.yml")]:
        found.update(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    return found


def users_of_roles():
    """Names in tasks that make users and groups, and in units that run as one."""
    named = set()
    for path in [*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/templates/*"), *ROLES.glob("*/vars/main.yml")]:
        text = path.read_text(encoding="utf-8")
        named.update(re.findall(r"ansible\.builtin\.(?:user|group):\n\s+name: (.+)", text))
        named.update(re.findall(r"^\s*(?:User|Group)=(.+)", text, re.MULTILINE))
    # A loop's names are those of a list elsewhere: slurm_uninstall removes what other roles make.
    named.discard('"{{ item }}"')
    own = variables()
    return {re.sub(r"\{\{ (\w+) \}\}", lambda match: own[match.group(1)], name.strip("\"'")) for name in named}


def test_the_collections_own_users_are_nobody_s():
    found = users_of_roles()
    assert {"slurmrestd", "slurm_gateway", "slurm-info", "oidc-sessions"} <= found
    assert [name for name in sorted({*found, *slurm_gateway.SERVICES, "slurmdbd", "etcd"}) if not iam_names.unfit(name)] == []


@pytest.mark.parametrize("name", ["ada", "slurmy", "a_b-c1", "_x"])
def test_people_have_other_names(name):
    assert iam_names.unfit(name) == ""


def test_numbers_are_neither_the_systems_nor_packages():
    assert [n for n in (-1, 0, 999, 1000, 59999, 60000, 65535, 65536, 2**31 - 1, 2**31, True, "1000", None) if iam_names.is_number(n)] == [
        1000,
        59999,
        65536,
        2**31 - 1,
    ]
