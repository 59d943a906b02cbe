# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Users of SLURM accounts from the groups of an IAM: pure functions.

They make a policy that names nothing else. Accounts, their place and their limits stay with the hand-written policy. An
association is never removed: who may no longer compute gets limits of no jobs, which let running ones end.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.policy import ROOT

STOPPED = {"jobs": 0, "submitted_jobs": 0}


def users_policy(
    present: t.Mapping[str, t.Any],
    declared: t.Sequence[t.Mapping[str, t.Any]],
    accounts: t.Sequence[t.Mapping[str, t.Any]],
    groups: t.Sequence[t.Mapping[str, t.Any]],
    left: t.Collection[str],
    site: t.Mapping[str, t.Any],
) -> tuple[dict[str, t.Any], list[str]]:
    """Return the policy of users, and the sentences about missing accounts.

    :param present: the policy that slurmdbd has.
    :param declared: iam_accounts_groups.
    :param accounts: those of the plan.
    :param groups: those of the plan.
    :param left: names that a host has from elsewhere.
    :param site: the hand-written policy.
    """
    there = {entry["name"]: entry for entry in present.get("accounts") or []}
    members = {group["name"]: set(group["members"]) for group in groups}
    ours = {account["name"] for account in accounts} - set(left)
    wanted: dict[str, set[str]] = {}
    for entry in declared:
        if entry.get("slurm_account") is not None:
            wanted.setdefault(text_of(entry["slurm_account"]).lower(), set()).update(members[entry["group"]] & ours)
    missing = [name for name in wanted if name not in there]
    if missing:
        return {}, [
            f"SLURM has no account {name}, which iam_accounts_groups names: run the playbook slurm with it in the policy first."
            for name in missing
        ]
    each = {text_of(entry["name"]).lower(): (entry.get("limits") or {}).get("per_user") or {} for entry in site.get("accounts") or []}
    policy: list[dict[str, t.Any]] = []
    for name in above(wanted, there):
        entry = {"name": name, "parent": there[name].get("parent", ROOT)}
        if name in wanted:
            limits = each.get(name, {})
            entry["users"] = users(there[name].get("users") or [], wanted[name], ours, limits)
            if limits:
                entry["limits"] = {"per_user": limits}
        policy.append(entry)
    return {"accounts": policy}, []


def above(wanted: t.Iterable[str], there: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """The accounts with those above them, which a policy must name too."""
    found: list[str] = []
    for name in wanted:
        one = name
        while one != ROOT and one not in found:
            found.append(one)
            one = there[one].get("parent", ROOT)
    return found


def users(
    now: t.Sequence[t.Mapping[str, t.Any]], wanted: t.Collection[str], ours: t.Collection[str], each: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """Wanted users of an account, and users from the IAM to remove from it.

    Users that were added in another way are not named.
    """
    limits = {user["name"]: user.get("limits") or {} for user in now}
    found: list[dict[str, t.Any]] = []
    for name in sorted(set(wanted) | (set(limits) & set(ours))):
        if name not in wanted:
            found.append({"name": name, "limits": STOPPED})
        elif all(limits.get(name, {}).get(key) == value for key, value in STOPPED.items()):
            found.append({"name": name, "limits": {key: each.get(key, "unlimited") for key in STOPPED}})
        else:
            found.append({"name": name})
    return found
