# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The users of a deployment and their accounts: pure functions."""

from __future__ import annotations

import typing as t
import zlib

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import unfit
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.scim import ssh_key
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

# Numbers of users that no distribution gives out by itself.
FIRST_ID, IDS = 20000, 40000


def users(given: t.Any, numbers: t.Mapping[str, int] | None = None) -> list[dict[str, t.Any]]:
    """Return the users of a cluster, each with C(name), C(uid) and C(keys).

    They are made of a list of tosca.datatypes.indigo.User. A user has the same number on each host. The number is made of the name, or the
    next free one.

    :param numbers: of users who have one already, which they keep, and which no other one gets.
    :raises ValueError: a name or a key can't be one.
    """
    known = dict(numbers or {})
    made: dict[str, dict[str, t.Any]] = {}
    for one in given or []:
        name = one.get("os_user_name") or ""
        why = unfit(name)
        if why:
            raise ValueError(f"os_user_name {shown(name)} {why}. Choose another one.")
        if one.get("os_user_add_to_sudoers"):
            raise ValueError(f"os_user_add_to_sudoers of {name} is set, and users of a cluster are no administrators: take it out.")
        if name not in known:
            known[name] = _free(name, known.values())
        its = made.setdefault(name, {"name": name, "uid": known[name], "keys": []})
        # Who is there twice has the keys of both.
        its["keys"] = list(dict.fromkeys([*its["keys"], *_keys(name, one.get("os_user_ssh_public_key"))]))
    return list(made.values())


def _free(name: str, taken: t.Collection[int]) -> int:
    number = _number(name)
    while number in taken:
        number = FIRST_ID + (number - FIRST_ID + 1) % IDS
    return number


def _number(name: str) -> int:
    return FIRST_ID + zlib.crc32(name.encode()) % IDS


def _keys(name: str, given: t.Any) -> list[str]:
    """Return the keys in a text as type and base64.

    What else stands there, such as a comment, goes no further.
    """
    lines = [line for line in str(given or "").splitlines() if line.strip()]
    keys = [ssh_key(line) for line in lines]
    if not all(keys):
        raise ValueError(f"os_user_ssh_public_key of {name} is no public key: write its type and its base64, as in a file .pub.")
    return keys


def ours(members: t.Iterable[str], passwd: t.Mapping[str, t.Sequence[str]], numbers: t.Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the members of a group whose accounts a deployment made, with numbers.

    An administrator may add others to the group.

    :param passwd: the accounts of the host, as the module getent returns them.
    :param numbers: those that the deployment gave.
    """
    expected = {name: (numbers or {}).get(name, _number(name)) for name in members}
    return {name: number for name, number in expected.items() if name in passwd and passwd[name][1] == str(number)}


def accounts(wanted: t.Iterable[t.Mapping[str, t.Any]], made: t.Mapping[str, int]) -> list[dict[str, t.Any]]:
    """Return the accounts of a host, as the module iam_accounts takes them.

    :param wanted: what *users* returns.
    :param made: what *ours* returns; who is not wanted any more is disabled.
    """
    active = [{**one, "active": True} for one in wanted]
    gone = sorted(set(made) - {str(one["name"]) for one in active})
    return active + [{"name": name, "uid": made[name], "active": False} for name in gone]
