# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A site's policy, what is wrong with it, and what it asks for: pure functions.

It has accounts, QOS, limits and access to partitions.

A policy is a dictionary with the keys accounts, qos and partitions; docs/slurm_policy.md describes it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown, text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import limits as slurm_limits
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.limits import limit_errors

KEYS = ("accounts", "qos", "partitions")
ACCOUNT_KEYS = (
    "name",
    "description",
    "organization",
    "parent",
    "fairshare",
    "qos",
    "default_qos",
    "limits",
    "users",
    "users_from",
    "coordinators",
)
USER_KEYS = ("name", "fairshare", "qos", "default_qos", "limits", "default")
QOS_KEYS = ("name", "description", "priority", "flags", "preempt", "usage_factor", "limits")
PARTITION_KEYS = ("name", "accounts", "deny_accounts", "qos", "groups", "partition_qos")
# What QOS flags of sacctmgr(1) a policy may set; each is in every supported release.
FLAGS = (
    "DenyOnLimit",
    "EnforceUsageThreshold",
    "NoDecay",
    "NoReserve",
    "OverPartQOS",
    "PartitionMaxNodes",
    "PartitionMinNodes",
    "PartitionTimeLimit",
    "RequiresReservation",
    "UsageFactorSafe",
)
# Accounts and login names, those of a directory service included.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", re.ASCII)
# sacctmgr takes "," in it, but its own separators and quotes would change the command's meaning.
TEXT = re.compile(r"[^\x00-\x1f\x7f|\"'\\=]{1,200}")
# Where an account's users may come from instead: the role of that name.
SOURCES = ("iam_accounts",)
ROOT = "root"
NORMAL = "normal"
TOLD_AT_MOST = 20


def is_name(value: t.Any) -> bool:
    return len(text_of(value)) <= 250 and NAME.fullmatch(text_of(value)) is not None


def names(values: t.Any) -> list[str]:
    """Names of a checked list, as SLURM keeps them: in small letters."""
    return [text_of(value).lower() for value in values or []]


def users_of(account: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The users of a checked account as dictionaries.

    A limit that the account sets for each of its users is the user's own.
    """
    each = (account.get("limits") or {}).get("per_user") or {}
    found = []
    for entry in account.get("users") or []:
        user = dict(entry) if isinstance(entry, t.Mapping) else {"name": entry}
        limits = merged(each, user.get("limits") or {})
        found.append({**user, "name": text_of(user["name"]).lower(), **({"limits": limits} if limits else {})})
    return found


def merged(each: t.Mapping[str, t.Any], own: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    found = {**each, **own}
    if "per_job" in each and "per_job" in own:
        found["per_job"] = {**each["per_job"], **own["per_job"]}
    return found


def policy_errors(where: str, policy: t.Any, partitions: t.Sequence[str] | None = None) -> list[str]:
    """What is wrong with a policy, one sentence each.

    partitions: the names that the cluster has, None where that is unknown.
    """
    if not isinstance(policy, t.Mapping):
        return [f"{where} must be a dictionary with the keys {', '.join(KEYS)}, not {shown(policy)}."]
    errors = unknown_keys(where, policy, KEYS)
    for key in KEYS:
        entries = policy.get(key)
        if entries is None:
            continue
        if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, t.Mapping) for entry in entries):
            errors.append(f"{where}: {key} must be a list of dictionaries, each with a name.")
        else:
            what = {"accounts": "account", "qos": "QOS", "partitions": "partition"}[key]
            errors += name_errors(where, what, [entry.get("name") for entry in entries], key == "partitions")
    if not errors:
        errors = qos_errors(where, policy) + account_errors(where, policy)
    if not errors:
        errors = access_errors(where, policy, partitions)
    errors = list(dict.fromkeys(errors))
    if len(errors) > TOLD_AT_MOST:
        return [*errors[:TOLD_AT_MOST], f"{where} has {len(errors) - TOLD_AT_MOST} more mistakes."]
    return errors


def name_errors(where: str, what: str, given: t.Sequence[t.Any], case_counts: bool = False) -> list[str]:
    """Names that SLURM does not take, and names that it takes for one."""
    errors = []
    seen: dict[str, str] = {}
    for value in given:
        name = text_of(value)
        if not is_name(value):
            errors.append(
                f"{where}: {shown(value)} is no name of {'an' if what == 'account' else 'a'} {what} (letters, digits and '_.@-')."
            )
            continue
        key = name if case_counts else name.lower()
        if seen.get(key, name) != name:
            errors.append(f"{where}: the {what}s {seen[key]} and {name} differ only in letter case, which SLURM does not keep: rename one.")
        elif key in seen:
            errors.append(f"{where} names the {what} {name} more than once.")
        seen.setdefault(key, name)
    return errors


def list_errors(where: str, key: str, entry: t.Mapping[str, t.Any]) -> list[str]:
    """A key that must have a list of names."""
    value = entry.get(key)
    if value is not None and not (isinstance(value, (list, tuple)) and all(is_name(one) for one in value)):
        return [f"{where} needs a list of names as {key}."]
    return []


def text_errors(where: str, entry: t.Mapping[str, t.Any], *keys: str) -> list[str]:
    return [
        f"{where} has a {key} that sacctmgr can't take: at most 200 characters, without line breaks, quotes, '|', '=' and backslashes."
        for key in keys
        if entry.get(key) is not None and not (isinstance(entry[key], str) and TEXT.fullmatch(entry[key]))
    ]


def undeclared_qos(where: str, given: t.Any, declared: t.Collection[str]) -> list[str]:
    return [f"{where} has the QOS {name}, which is not declared in qos." for name in names(given) if name not in declared]


def declared_qos(policy: t.Mapping[str, t.Any]) -> list[str]:
    """QOS of a policy; SLURM itself brings normal."""
    return list(dict.fromkeys([*names(entry.get("name") for entry in policy.get("qos") or []), NORMAL]))


def qos_errors(where: str, policy: t.Mapping[str, t.Any]) -> list[str]:
    errors = []
    declared = declared_qos(policy)
    for entry in policy.get("qos") or []:
        here = f"{where}: QOS {text_of(entry['name'])}"
        errors += unknown_keys(here, entry, QOS_KEYS) + text_errors(here, entry, "description") + list_errors(here, "preempt", entry)
        if not list_errors(here, "preempt", entry):
            errors += undeclared_qos(f"{here}: preempt", entry.get("preempt"), declared)
        priority = entry.get("priority")
        if priority is not None and not (slurm_limits.whole(priority) and priority < 2**31):
            errors.append(f"{here} has the priority {shown(priority)}: write a whole number from 0 on.")
        flags = entry.get("flags")
        if flags is not None and not isinstance(flags, (list, tuple)):
            errors.append(f"{here} needs a list as flags, such as [DenyOnLimit].")
        else:
            errors += [
                f"{here} has the unknown flag {shown(flag)} (known: {', '.join(FLAGS)})." for flag in flags or [] if flag not in FLAGS
            ]
        factor = entry.get("usage_factor")
        if factor is not None and not (isinstance(factor, (int, float)) and not isinstance(factor, bool) and 0 <= factor <= 1000000):
            errors.append(f"{here} has the usage_factor {shown(factor)}: write a number from 0 on.")
        if entry.get("limits") is not None:
            errors += limit_errors(here, entry["limits"], slurm_limits.QOS)
    return errors


def share_errors(where: str, entry: t.Mapping[str, t.Any]) -> list[str]:
    share = entry.get("fairshare")
    if share is None or share == "parent" or (slurm_limits.whole(share) and share < 2**31):
        return []
    return [f"{where} has the fairshare {shown(share)}: write a whole number from 0 on, or parent."]


def association_errors(where: str, entry: t.Mapping[str, t.Any], declared: t.Collection[str]) -> list[str]:
    """What accounts and users have alike."""
    errors = share_errors(where, entry)
    wrong = list_errors(where, "qos", entry)
    errors += wrong or undeclared_qos(where, entry.get("qos"), declared)
    default = entry.get("default_qos")
    if default is not None:
        errors += (
            undeclared_qos(where, [default], declared)
            if is_name(default)
            else [f"{where} has the default_qos {shown(default)}, which is no name."]
        )
    return errors


def account_errors(where: str, policy: t.Mapping[str, t.Any]) -> list[str]:
    errors = []
    accounts = policy.get("accounts") or []
    declared = declared_qos(policy)
    present = names(account["name"] for account in accounts)
    spelled: list[str] = []
    for account in accounts:
        name = text_of(account["name"])
        here = f"{where}: account {name}"
        errors += unknown_keys(here, account, ACCOUNT_KEYS) + text_errors(here, account, "description", "organization")
        errors += association_errors(here, account, declared) + list_errors(here, "coordinators", account)
        if name.lower() == ROOT:
            errors.append(f"{where}: the account root is SLURM's own: leave it out, or give yours another name.")
        parent = account.get("parent")
        if parent is not None and not is_name(parent):
            errors.append(f"{here} has the parent {shown(parent)}, which is no name of an account.")
        elif parent is not None and text_of(parent).lower() not in [*present, ROOT]:
            errors.append(f"{here} has the parent {parent}, which is not in accounts.")
        errors += account_limit_errors(here, account.get("limits"))
        errors += user_errors(here, account.get("users"), declared, spelled) + source_errors(here, account)
    errors += letter_case_errors(where, spelled)
    if errors:
        return errors
    return cycle_errors(where, accounts) or [
        *default_qos_errors(where, accounts),
        *default_account_errors(where, accounts),
        *coordinator_errors(where, accounts),
    ]


def account_limit_errors(where: str, limits: t.Any) -> list[str]:
    if limits is None:
        return []
    errors = limit_errors(where, limits, slurm_limits.ASSOCIATION, ["per_user"])
    if isinstance(limits, t.Mapping) and "per_user" in limits:
        errors += limit_errors(f"{where}: per_user", limits["per_user"], slurm_limits.ASSOCIATION)
    return errors


def source_errors(where: str, account: t.Mapping[str, t.Any]) -> list[str]:
    """An account has one source of users, so that none takes away what the other adds."""
    source = account.get("users_from")
    if source is not None and source not in SOURCES:
        return [f"{where} has the users_from {shown(source)} (known: {', '.join(SOURCES)})."]
    if source is not None and account.get("users"):
        return [f"{where} has both users and users_from: name these users in another account, or leave one of the two."]
    return []


def user_errors(where: str, users: t.Any, declared: t.Collection[str], spelled: list[str]) -> list[str]:
    """What is wrong with an account's users; their names are added to those spelled."""
    if users is None:
        return []
    if not isinstance(users, (list, tuple)):
        return [f"{where} needs a list as users, of login names or dictionaries, not {shown(users)}."]
    errors = []
    seen = set()
    for entry in users:
        value = entry.get("name") if isinstance(entry, t.Mapping) else entry
        name = text_of(value)
        if not is_name(value):
            errors.append(f"{where} has the user {shown(value)}, which is no login name.")
            continue
        here = f"{where}: user {name}"
        if name in seen:
            errors.append(f"{where} has the user {name} more than once.")
        elif name.lower() == ROOT:
            errors.append(f"{where} has the user root, who has SLURM's own account: leave it out.")
        seen.add(name)
        spelled.append(name)
        if not isinstance(entry, t.Mapping):
            continue
        errors += unknown_keys(here, entry, USER_KEYS) + association_errors(here, entry, declared)
        if not isinstance(entry.get("default", False), bool):
            errors.append(f"{here} needs true or false as default.")
        if entry.get("limits") is not None:
            errors += limit_errors(here, entry["limits"], slurm_limits.ASSOCIATION)
    return errors


def letter_case_errors(where: str, spelled: t.Sequence[str]) -> list[str]:
    first: dict[str, str] = {}
    return [
        f"{where}: the users {first[name.lower()]} and {name} differ only in letter case, which SLURM does not keep: correct one."
        for name in spelled
        if first.setdefault(name.lower(), name) != name
    ]


def parents(accounts: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    return {text_of(account["name"]).lower(): text_of(account.get("parent") or ROOT).lower() for account in accounts}


def cycle_errors(where: str, accounts: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    above = parents(accounts)
    settled = {ROOT}
    for start in above:
        path: list[str] = []
        account = start
        while account not in settled:
            if account in path:
                circle = [*path[path.index(account) :], account]
                return [f"{where}: accounts are their own parents: {' below '.join(circle)}. Give one of them another parent."]
            path.append(account)
            account = above[account]
        settled.update(path)
    return []


def top_down(accounts: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """The accounts, each after its parent, else in their order."""
    above = parents(accounts)

    def depth(account: t.Mapping[str, t.Any]) -> int:
        steps, name = 0, text_of(account["name"]).lower()
        while name in above:
            steps, name = steps + 1, above[name]
        return steps

    return sorted(accounts, key=depth)


def default_qos_errors(where: str, accounts: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Refuse an association that may not use its default QOS, as SLURM does.

    Both the default QOS and the QOS that it may use are inherited.
    """
    errors = []
    allowed: dict[str, list[str]] = {ROOT: [NORMAL]}
    default: dict[str, str] = {ROOT: ""}
    for account in top_down(accounts):
        name = text_of(account["name"]).lower()
        parent = text_of(account.get("parent") or ROOT).lower()
        for here, key, above, entry in [
            (f"{where}: account {name}", name, parent, account),
            *((f"{where}: user {user['name']} in {name}", "", name, user) for user in users_of(account)),
        ]:
            may = names(entry.get("qos")) or allowed[above]
            takes = text_of(entry.get("default_qos") or "").lower() or default[above]
            if takes and takes not in may:
                errors.append(f"{here} has the default QOS {takes}, which it may not use: add it to its qos, or set its default_qos.")
            if key:
                allowed[key], default[key] = may, takes
    return errors


def default_account_errors(where: str, accounts: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    chosen: dict[str, str] = {}
    errors = []
    for account in accounts:
        for user in users_of(account):
            if user.get("default") is True:
                first = chosen.setdefault(user["name"], text_of(account["name"]))
                if first != text_of(account["name"]):
                    errors.append(f"{where}: user {user['name']} has two default accounts, {first} and {account['name']}: leave one.")
    return errors


def coordinator_errors(where: str, accounts: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    known = {user["name"] for account in accounts for user in users_of(account)}
    return [
        f"{where}: account {account['name']} has the coordinator {name}, who is a user of no account: name them in the users of one."
        for account in accounts
        for name in names(account.get("coordinators"))
        if name not in known
    ]


def access_errors(where: str, policy: t.Mapping[str, t.Any], partitions: t.Sequence[str] | None) -> list[str]:
    """What is wrong with the policy's key partitions: who may use which."""
    errors = []
    accounts = names(account["name"] for account in policy.get("accounts") or [])
    declared = declared_qos(policy)
    for entry in policy.get("partitions") or []:
        name = text_of(entry["name"])
        here = f"{where}: partition {name}"
        errors += unknown_keys(here, entry, PARTITION_KEYS)
        if partitions is not None and name not in partitions:
            errors.append(f"{here} is not in slurm_cluster_partitions (there are {', '.join(partitions)}).")
        for key in ("accounts", "deny_accounts"):
            wrong = list_errors(here, key, entry)
            errors += wrong or [
                f"{here} has {account} in {key}, which is not in accounts." for account in names(entry.get(key)) if account not in accounts
            ]
        if entry.get("accounts") is not None and entry.get("deny_accounts") is not None:
            errors.append(f"{here} has both accounts and deny_accounts, of which SLURM ignores the second: leave one.")
        errors += list_errors(here, "groups", entry)
        errors += list_errors(here, "qos", entry) or undeclared_qos(here, entry.get("qos"), declared)
        own = entry.get("partition_qos")
        if own is not None:
            errors += (
                undeclared_qos(here, [own], declared) if is_name(own) else [f"{here} has the partition_qos {shown(own)}, which is no name."]
            )
    return errors


def gpu_type_errors(where: str, policy: t.Mapping[str, t.Any], known: t.Collection[str]) -> list[str]:
    """Refuse limits on GPU types that no node has.

    SLURM would refuse them in the middle of a run. The policy was found right.
    """
    named: list[tuple[str, str]] = []
    for entry in policy.get("qos") or []:
        named += [(f"QOS {entry['name']}", one) for one in slurm_limits.gpu_types(entry.get("limits") or {})]
    for account in policy.get("accounts") or []:
        named += [(f"account {account['name']}", one) for one in slurm_limits.gpu_types(account.get("limits") or {})]
        for user in users_of(account):
            named += [(f"user {user['name']} in {account['name']}", one) for one in slurm_limits.gpu_types(user.get("limits") or {})]
    present = ", ".join(sorted(known)) or "no GPU that SLURM can schedule"
    errors = [
        f"{where}: {what} limits the GPU type {gpu_type}, which no node has; they have {present}."
        for what, gpu_type in named
        if gpu_type not in known
    ]
    return list(dict.fromkeys(errors))[:TOLD_AT_MOST]


def below(policy: t.Mapping[str, t.Any], chosen: t.Collection[str]) -> list[str]:
    """Accounts with all accounts below them, sorted."""
    found = set(chosen)
    for account in top_down(policy.get("accounts") or []):
        if text_of(account.get("parent") or ROOT).lower() in found:
            found.add(text_of(account["name"]).lower())
    return sorted(found)


def partition_settings(policy: t.Mapping[str, t.Any], partition: str) -> dict[str, str]:
    """What a policy adds to the line of a partition in slurm.conf(5).

    Accounts below a named one are named too, as only newer releases include them by themselves. They do so for root too,
    so that to allow root for the proof's jobs would be to allow every user.
    """
    found = {}
    for entry in policy.get("partitions") or []:
        if text_of(entry["name"]) != partition:
            continue
        if entry.get("accounts") is not None:
            found["AllowAccounts"] = ",".join(below(policy, names(entry["accounts"])))
        if entry.get("deny_accounts"):
            found["DenyAccounts"] = ",".join(below(policy, names(entry["deny_accounts"])))
        if entry.get("groups"):
            found["AllowGroups"] = ",".join(text_of(group) for group in entry["groups"])
        if entry.get("qos"):
            found["AllowQos"] = ",".join(names(entry["qos"]))
        if entry.get("partition_qos"):
            found["QOS"] = text_of(entry["partition_qos"]).lower()
    return found


def partition_qos(policy: t.Mapping[str, t.Any]) -> list[str]:
    """QOS that slurm.conf names: slurmctld does not start before they exist."""
    found = []
    for entry in policy.get("partitions") or []:
        found += names(entry.get("qos")) + names([entry["partition_qos"]] if entry.get("partition_qos") else [])
    return list(dict.fromkeys(found))


def preempts(policy: t.Mapping[str, t.Any]) -> bool:
    return any(entry.get("preempt") for entry in policy.get("qos") or [])
