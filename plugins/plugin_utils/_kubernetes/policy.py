# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A site's policy for Kubernetes: pure functions.

They say what is wrong with it, what it asks for, and what of it nothing enforces. A policy has the keys that SLURM's has, so
that a site hands one file to both; docs/kubernetes_policy.md describes it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown, text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import is_gpu_type

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
    "namespace",
    "groups",
)
USER_KEYS = ("name", "fairshare", "qos", "default_qos", "limits", "default")
QOS_KEYS = ("name", "description", "priority", "flags", "preempt", "usage_factor", "limits")
PARTITION_KEYS = ("name", "accounts", "deny_accounts", "qos", "groups", "partition_qos")
ADDITION_KEYS = ("namespace", "groups")  # what SLURM's policy has no key for

RESOURCES = ("gpus", "cpus", "memory", "nodes")
MINUTES = ("gpu_minutes", "cpu_minutes")
COUNTS = ("jobs", "submitted_jobs")
PER_JOB = (*RESOURCES, *MINUTES, "wall")
OF_ALL = (*RESOURCES, *MINUTES, *COUNTS)
PER_USER = (*RESOURCES, *COUNTS)  # of a QOS
# The keys of each dictionary of limits, and those of what is nested in it.
ACCOUNT_LIMITS = {"": OF_ALL, "per_job": PER_JOB, "per_user": (*OF_ALL, "per_job")}
USER_LIMITS = {"": OF_ALL, "per_job": PER_JOB}
QOS_LIMITS = {"": OF_ALL, "per_job": PER_JOB, "per_user": PER_USER, "per_account": PER_USER}

ROOT = "root"
NORMAL = "normal"
ANY = "any"
UNLIMITED = "unlimited"
LARGEST = 10**15
MOST_PRIORITY = 10**9  # higher ones are the cluster's own
REPORTED_AT_MOST = 20

# Accounts and QOS, as SLURM names them; users and groups, as the API server sees them.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,249}", re.ASCII)
SUBJECT = re.compile(r"[^\x00-\x20\x7f]([^\x00-\x1f\x7f]{0,248}[^\x00-\x20\x7f])?")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
MEMORY = re.compile(r"([0-9]+)([MGT])(?:i?B)?", re.ASCII)
WALL = re.compile(r"(?:([0-9]+)-)?([0-9]+):([0-9]{2}):00", re.ASCII)
OF_THE_CLUSTER = re.compile(r"default|kube-.*|deephdc-accelerators|kueue-system")


class Limits(t.NamedTuple):
    """What all jobs of an account or a QOS may have at once; None is no limit.

    Memory is in MiB.
    """

    gpus: int | None = None
    gpus_by_type: t.Mapping[str, int] = {}
    cpus: int | None = None
    memory: int | None = None
    jobs: int | None = None
    submitted_jobs: int | None = None


class PerJob(t.NamedTuple):
    """What each single job may have; None is no limit.

    Memory is in MiB, wall in seconds.
    """

    gpus: int | None = None
    gpus_by_type: t.Mapping[str, int] = {}
    cpus: int | None = None
    memory: int | None = None
    wall: int | None = None


class Account(t.NamedTuple):
    """An account with what holds for it.

    :param limits: its own, and where an account above it has less, that. per_job: the same, with what it sets for each user.
    :param qos: those that it may use, inherited where it names none.
    :param users: as the API server sees them, with the prefix.
    """

    name: str
    namespace: str
    parent: str
    description: str
    groups: tuple[str, ...]
    users: tuple[str, ...]
    limits: Limits
    per_job: PerJob
    qos: tuple[str, ...]
    default_qos: str
    fairshare: int | None


class Qos(t.NamedTuple):
    """A QOS; the one called normal always exists."""

    name: str
    priority: int
    description: str
    limits: Limits
    per_job: PerJob


class Policy(t.NamedTuple):
    """All of a policy that was checked."""

    accounts: tuple[Account, ...]
    qos: tuple[Qos, ...]


Dictionary = t.Mapping[str, t.Any]


def name_of(value: t.Any) -> str:
    """Return an account's or QOS's name as it is kept: in small letters, as in SLURM."""
    return text_of(value).lower()


def as_label(name: str) -> str:
    """A name of SLURM's as Kubernetes takes it.

    What is no name there either stays wrong.
    """
    return re.sub(r"[_.@]", "-", name.lower())


def namespace_of(account: Dictionary) -> str:
    return text_of(account.get("namespace")) or as_label(text_of(account.get("name")))


def with_additions(policy: Dictionary, additions: t.Mapping[str, Dictionary]) -> dict[str, t.Any]:
    """A policy that SLURM reads as well, with what only Kubernetes has of an account.

    :param additions: by name of the account, each with namespace and groups.
    """
    if not additions:
        return dict(policy)
    more = {name_of(name): given for name, given in additions.items()}
    return {**policy, "accounts": [{**account, **more.get(name_of(account["name"]), {})} for account in policy.get("accounts") or []]}


# What it asks for


def mebibytes(value: t.Any) -> int:
    match = MEMORY.fullmatch(str(value))
    return int(match.group(1)) * 1024 ** "MGT".index(match.group(2)) if match else int(value)


def seconds(value: str) -> int:
    match = WALL.fullmatch(value)
    if not match:
        raise ValueError(f"{shown(value)} is no wall time.")
    days, hours, minutes = (int(part or 0) for part in match.groups())
    return (days * 1440 + hours * 60 + minutes) * 60


def _numbers(given: Dictionary, keys: t.Iterable[str]) -> dict[str, t.Any]:
    """Checked limits as numbers; what is unlimited is not there."""
    result: dict[str, t.Any] = {}
    for key in keys:
        value = given.get(key)
        if value is None or value == UNLIMITED:
            continue
        if isinstance(value, t.Mapping):
            typed = {name: int(count) for name, count in value.items() if count != UNLIMITED}
            if ANY in typed:
                result[key] = typed.pop(ANY)
            result[f"{key}_by_type"] = typed
        else:
            result[key] = mebibytes(value) if key == "memory" else seconds(value) if key == "wall" else int(value)
    return result


def limits_of(given: Dictionary | None) -> Limits:
    return Limits(**_numbers(given or {}, ("gpus", "cpus", "memory", "jobs", "submitted_jobs")))


def per_job_of(given: Dictionary | None) -> PerJob:
    return PerJob(**_numbers(given or {}, ("gpus", "cpus", "memory", "wall")))


Tuple = t.TypeVar("Tuple", Limits, PerJob)


def _least(first: Tuple, second: Tuple) -> Tuple:
    """Both limits at once."""
    result: dict[str, t.Any] = {}
    for key, value in first._asdict().items():
        both = [one for one in (value, getattr(second, key)) if one is not None]
        if isinstance(value, t.Mapping):
            names = sorted({name for each in both for name in each})
            result[key] = {name: min(each[name] for each in both if name in each) for name in names}
        else:
            result[key] = min(both, default=None)
    return type(first)(**result)


def users_of(account: Dictionary) -> list[dict[str, t.Any]]:
    return [dict(entry) if isinstance(entry, t.Mapping) else {"name": entry} for entry in account.get("users") or []]


def _per_user_job(account: Dictionary) -> PerJob:
    """Return what holds for a job of whichever user.

    The namespace does not see who the user is, so the one who may do most decides.
    """
    each = ((account.get("limits") or {}).get("per_user") or {}).get("per_job") or {}
    given_users = [((user.get("limits") or {}).get("per_job") or {}) for user in users_of(account)]
    result = per_job_of(each)._asdict()
    for user in given_users:
        mine = per_job_of({**each, **user})._asdict()
        for key, value in mine.items():
            if isinstance(value, t.Mapping):
                result[key] = {name: max(count, value[name]) for name, count in result[key].items() if name in value}
            else:
                result[key] = None if value is None or result[key] is None else max(value, result[key])
    return PerJob(**result)


def top_down(accounts: t.Sequence[Dictionary]) -> list[Dictionary]:
    """The accounts, each after its parent, else in their order."""
    above = {name_of(account["name"]): name_of(account.get("parent") or ROOT) for account in accounts}
    depths: dict[str, int] = {ROOT: 0}

    def depth(name: str) -> int:
        way = []
        while name not in depths:
            way.append(name)
            name = above[name]
        for steps, below in enumerate(reversed(way), depths[name] + 1):
            depths[below] = steps
        return depths[way[0]] if way else depths[name]

    return sorted(accounts, key=lambda account: depth(name_of(account["name"])))


def read(policy: Dictionary, prefix: str = "") -> Policy:
    """A policy that was checked, with what accounts inherit; linear in the accounts.

    :param prefix: what the API server puts before the names of users.
    """
    qos = [
        Qos(
            name_of(entry["name"]),
            min(int(entry.get("priority") or 0), MOST_PRIORITY),
            str(entry.get("description") or ""),
            limits_of(entry.get("limits")),
            per_job_of((entry.get("limits") or {}).get("per_job")),
        )
        for entry in policy.get("qos") or []
    ]
    if all(entry.name != NORMAL for entry in qos):
        qos.append(Qos(NORMAL, 0, "", Limits(), PerJob()))
    # A pod that names no QOS has the priority 0, and is to have that of normal.
    usual = NORMAL if any(entry.name == NORMAL and entry.priority for entry in qos) else ""
    known: dict[str, Account] = {ROOT: Account(ROOT, "", "", "", (), (), Limits(), PerJob(), (NORMAL,), "", None)}
    for account in top_down(policy.get("accounts") or []):
        name, parent = name_of(account["name"]), known[name_of(account.get("parent") or ROOT)]
        limits = account.get("limits") or {}
        share = account.get("fairshare")
        known[name] = Account(
            name,
            namespace_of(account),
            parent.name,
            str(account.get("description") or ""),
            tuple(str(group) for group in account.get("groups") or []),
            tuple(f"{prefix}{text_of(user['name'])}" for user in users_of(account)),
            _least(limits_of(limits), parent.limits),
            _least(_least(per_job_of(limits.get("per_job")), _per_user_job(account)), parent.per_job),
            tuple(name_of(one) for one in account.get("qos") or []) or parent.qos,
            name_of(account.get("default_qos") or "") or parent.default_qos or usual,
            share if isinstance(share, int) else None,
        )
    del known[ROOT]
    return Policy(tuple(known.values()), tuple(qos))


# What is wrong with it


def is_whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def is_memory(value: t.Any) -> bool:
    return is_whole(value) or (isinstance(value, str) and MEMORY.fullmatch(value) is not None)


def is_name(value: t.Any) -> bool:
    return NAME.fullmatch(text_of(value)) is not None


def _value_errors(where: str, key: str, value: t.Any) -> list[str]:
    if value == UNLIMITED:
        return []
    if isinstance(value, t.Mapping) and key in ("gpus", "gpu_minutes"):
        if not value:
            return [f"{where} has no GPU type in {key}: write a number, or numbers by GPU type such as {{a100: 2}}."]
        result = []
        for gpu_type, number in value.items():
            if not is_gpu_type(gpu_type):
                result.append(f"{where} names {shown(gpu_type)} in {key}, which is no GPU type: write one that gpu_facts has.")
            elif number != UNLIMITED and not is_whole(number):
                result.append(f"{where} has {shown(number)} as {key} of type {gpu_type}: write a whole number from 0 on, or {UNLIMITED}.")
        return result
    if key == "memory":
        if is_memory(value):
            return []
        return [f"{where} has the memory {shown(value)}: write MiB as a number, or text such as '64G' (M, G or T)."]
    if key == "wall":
        if isinstance(value, str) and WALL.fullmatch(value) and seconds(value) > 0:
            return []
        # YAML takes 12:00:00 for a number of seconds.
        return [f"{where} has the wall time {shown(value)}: write a time of whole minutes in quotes, such as '12:00:00' or '2-00:00:00'."]
    if is_whole(value):
        return []
    return [f"{where} has {shown(value)} as {key}: write a whole number from 0 on without a unit, or {UNLIMITED}."]


def _limit_errors(where: str, limits: t.Any, scopes: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    if limits is None:
        return []
    if not isinstance(limits, t.Mapping):
        return [f"{where} has {shown(limits)} as limits: write a dictionary, such as {{gpus: 4}}."]
    nested = [scope for scope in scopes if scope]
    result = unknown_keys(f"{where}: limits", limits, [*scopes[""], *nested])
    for key, value in limits.items():
        if key in nested and not isinstance(value, t.Mapping):
            result.append(f"{where} has {shown(value)} as {key}: write a dictionary, such as {{gpus: 1}}.")
        elif key in nested and "per_job" in scopes[key]:
            result += _limit_errors(f"{where}: {key}", value, USER_LIMITS)
        elif key in nested:
            result += unknown_keys(f"{where}: {key}", value, scopes[key])
            for inner, one in value.items():
                if inner in scopes[key]:
                    result += _value_errors(f"{where}: {key}", inner, one)
        elif key in scopes[""]:
            result += _value_errors(where, key, value)
    return result


def _list_errors(where: str, key: str, entry: Dictionary) -> list[str]:
    value = entry.get(key)
    if value is not None and not (isinstance(value, (list, tuple)) and all(is_name(one) for one in value)):
        return [f"{where} has {shown(value)} as {key}: write a list of names."]
    return []


def _text_errors(where: str, entry: Dictionary, *keys: str) -> list[str]:
    return [
        f"{where} has {shown(entry[key])} as {key}: write text of at most 200 characters, without line breaks."
        for key in keys
        if entry.get(key) is not None and not (isinstance(entry[key], str) and TEXT.fullmatch(entry[key]))
    ]


def _subject_errors(where: str, what: str, value: t.Any) -> list[str]:
    """A user or a group that rights would be bound to.

    Those of Kubernetes itself would give them to all, or to its own programs.
    """
    name = text_of(value)
    if not SUBJECT.fullmatch(name):
        return [f"{where} has the {what} {shown(value)}: write its name as the API server sees it."]
    if name.startswith(("system:", "kubeadm:")):
        return [f"{where} has the {what} {name}, which is Kubernetes' own: write a {what} of the site."]
    return []


def _undeclared(where: str, given: t.Any, declared: t.Collection[str]) -> list[str]:
    return [
        f"{where} has the QOS {name_of(name)}, which is not declared in qos: declare it there, or correct the name."
        for name in given or []
        if name_of(name) not in declared
    ]


def _name_errors(where: str, what: str, entries: t.Sequence[Dictionary]) -> list[str]:
    result, seen = [], set()
    for entry in entries:
        name = name_of(entry.get("name"))
        if not is_name(entry.get("name")):
            result.append(f"{where} has {shown(entry.get('name'))} as the name of {what}: write letters, digits and '_.@-'.")
        elif name in seen:
            result.append(f"{where} names {name} as {what} more than once: leave one of them.")
        seen.add(name)
    return result


def _qos_errors(where: str, policy: Dictionary, declared: t.Collection[str]) -> list[str]:
    result = []
    labels: dict[str, str] = {}
    for entry in policy.get("qos") or []:
        name = name_of(entry["name"])
        here = f"{where}: QOS {name}"
        result += unknown_keys(here, entry, QOS_KEYS) + _text_errors(here, entry, "description")
        result += _list_errors(here, "preempt", entry) or _undeclared(f"{here}: preempt", entry.get("preempt"), declared)
        priority = entry.get("priority")
        if priority is not None and not (is_whole(priority) and priority < 2**31):
            result.append(f"{here} has the priority {shown(priority)}: write a whole number from 0 on.")
        label = as_label(name)
        if not LABEL.fullmatch(label) or label.startswith("system-"):
            result.append(f"{here} can't be a priority class of Kubernetes: name it with letters, digits and '-', at most 63, not system-.")
        elif labels.setdefault(label, name) != name:
            result.append(f"{here} and {labels[label]} are one priority class, {label}: rename one.")
        result += _limit_errors(here, entry.get("limits"), QOS_LIMITS)
    return result


def _account_errors(where: str, policy: Dictionary, declared: t.Collection[str]) -> list[str]:
    result = []
    accounts = policy.get("accounts") or []
    present = {ROOT, *(name_of(account["name"]) for account in accounts)}
    spaces: dict[str, str] = {}
    for account in accounts:
        name = name_of(account["name"])
        here = f"{where}: account {name}"
        result += unknown_keys(here, account, ACCOUNT_KEYS) + _text_errors(here, account, "description", "organization")
        result += _list_errors(here, "qos", account) or _undeclared(here, account.get("qos"), declared)
        if account.get("default_qos") is not None:
            result += _undeclared(here, [account["default_qos"]], declared)
        share = account.get("fairshare")
        if share is not None and share != "parent" and not (is_whole(share) and share < 2**31):
            result.append(f"{here} has the fairshare {shown(share)}: write a whole number from 0 on, or parent.")
        if name == ROOT:
            result.append(f"{where}: the account root is above all others: leave it out, or give yours another name.")
        parent = account.get("parent")
        if parent is not None and name_of(parent) not in present:
            result.append(f"{here} has the parent {shown(parent)}, which is not in accounts: add it, or correct the name.")
        result += _limit_errors(here, account.get("limits"), ACCOUNT_LIMITS)
        result += _space_errors(where, name, account, spaces) + _member_errors(here, account)
    return result or _cycle_errors(where, accounts)


def _space_errors(where: str, name: str, account: Dictionary, spaces: dict[str, str]) -> list[str]:
    """A namespace that Kubernetes does not take, or that is not the account's alone."""
    space = namespace_of(account)
    here, remedy = f"{where}: account {name}", "give it another one by the key namespace"
    if not isinstance(account.get("namespace") or "", str) or not LABEL.fullmatch(space):
        return [f"{here} has the namespace {shown(space)}: write small letters, digits and '-' in the key namespace, at most 63."]
    if OF_THE_CLUSTER.fullmatch(space):
        return [f"{here} has the namespace {space}, which is the cluster's own: {remedy}."]
    if spaces.setdefault(space, name) != name:
        return [f"{here} has the namespace {space} of account {spaces[space]}: {remedy}."]
    return []


def _member_errors(where: str, account: Dictionary) -> list[str]:
    result = []
    groups, users = account.get("groups"), account.get("users")
    if groups is not None and not isinstance(groups, (list, tuple)):
        result.append(f"{where} has {shown(groups)} as groups: write a list of names.")
    else:
        result += [sentence for group in groups or [] for sentence in _subject_errors(where, "group", group)]
    if users is not None and not isinstance(users, (list, tuple)):
        return [*result, f"{where} has {shown(users)} as users: write a list of names, or of dictionaries with a name."]
    seen = set()
    for user in users_of(account):
        wrong = _subject_errors(where, "user", user.get("name"))
        result += wrong
        if wrong:
            continue
        here = f"{where}: user {text_of(user['name'])}"
        if user["name"] in seen:
            result.append(f"{here} stands there more than once: leave one of them.")
        seen.add(user["name"])
        result += unknown_keys(here, user, USER_KEYS) + _limit_errors(here, user.get("limits"), USER_LIMITS)
    return result


def _cycle_errors(where: str, accounts: t.Sequence[Dictionary]) -> list[str]:
    above = {name_of(account["name"]): name_of(account.get("parent") or ROOT) for account in accounts}
    settled = {ROOT}
    for start in above:
        way: dict[str, None] = {}
        name = start
        while name not in settled:
            if name in way:
                names = list(way)
                circle = [*names[names.index(name) :], name]
                return [f"{where}: accounts are their own parents: {' below '.join(circle)}. Give one of them another parent."]
            way[name] = None
            name = above[name]
        settled.update(way)
    return []


def errors(where: str, policy: t.Any) -> list[str]:
    """What is wrong with a policy, one sentence each.

    :param where: the variable or the file that it is from.
    """
    if not isinstance(policy, t.Mapping):
        return [f"{where} is {shown(policy)}: write a dictionary with the keys {', '.join(KEYS)}."]
    result = unknown_keys(where, policy, KEYS)
    for key in KEYS:
        entries = policy.get(key)
        if entries is None:
            continue
        if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, t.Mapping) for entry in entries):
            result.append(f"{where}: {key} is no list of dictionaries: write one, each with a name.")
        elif key != "partitions":
            result += _name_errors(where, {"accounts": "an account", "qos": "a QOS"}[key], entries)
    if not result:
        declared = {NORMAL, *(name_of(entry["name"]) for entry in policy.get("qos") or [])}
        result = _qos_errors(where, policy, declared) + _account_errors(where, policy, declared)
        for entry in policy.get("partitions") or []:
            result += unknown_keys(f"{where}: partition {text_of(entry.get('name'))}", entry, PARTITION_KEYS)
    result = list(dict.fromkeys(result))
    if len(result) > REPORTED_AT_MOST:
        return [*result[:REPORTED_AT_MOST], f"{where} has {len(result) - REPORTED_AT_MOST} more mistakes: correct these first."]
    return result
