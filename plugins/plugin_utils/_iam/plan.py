# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Plan accounts from what an IAM has, what hosts have and what was decided before.

Pure functions.

The record is what was decided: which id has which account with which number. It only ever grows, so that no number is given twice.
"""

from __future__ import annotations

import collections
import json
import math
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam import names as iam_names
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.claims import RANGES
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.local import conflicts
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.scim import ID
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

VERSION = 1
COMMENT = "Made by deephdc.accelerators, role iam_accounts."
TOLD_AT_MOST = 50


class Host(t.NamedTuple):
    """What one host has."""

    record: str
    users: t.Mapping[str, int]
    groups: t.Mapping[str, int]
    # Names that have rights there, with the file that says so.
    claimed: t.Mapping[str, str] = {}


def empty_record(issuer: str) -> dict[str, t.Any]:
    return {"version": VERSION, "serial": 0, "issuer": issuer, "groups": {}, "accounts": {}}


def parse_record(host: str, text: str) -> dict[str, t.Any] | None:
    """A host's record, None where it has none."""
    if not text:
        return None
    try:
        record = json.loads(text)
        right = (
            record["version"] == VERSION
            and isinstance(record["serial"], int)
            and isinstance(record["issuer"], str)
            and all(is_account(each, record["groups"]) for each in record["accounts"].values())
            and all(set(each) == {"id", "gid"} for each in record["groups"].values())
            # A text that was not looked at might be a template to Ansible.
            and all(ID.fullmatch(one) for one in [*record["accounts"], *(each["id"] for each in record["groups"].values())])
            and all(not iam_names.unfit(name) and iam_names.is_number(number) for name, number in given(record))
            # Nothing was ever given twice.
            and all(len(set(column)) == len(column) for column in zip(*given(record)))
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        right = False
    if not right:
        raise Refused(
            f"The record of accounts on {host} is damaged: restore it from another host of the group, or remove it there, then run again."
        )
    return {key: record[key] for key in empty_record("")}


def given(record: t.Mapping[str, t.Any]) -> list[tuple[str, int]]:
    """The names and numbers that a record has given to accounts and groups."""
    accounts = [(each["name"], each["uid"]) for each in record["accounts"].values()]
    return accounts + [(name, each["gid"]) for name, each in record["groups"].items()]


def is_account(entry: t.Mapping[str, t.Any], groups: t.Collection[str]) -> bool:
    right = set(entry) == {"name", "uid", "active", "groups"} and isinstance(entry["active"], bool) and isinstance(entry["groups"], list)
    return right and all(local in groups for local in entry["groups"])


def agree(first: str, of_first: t.Mapping[str, t.Any], host: str, copy: t.Mapping[str, t.Any]) -> None:
    """Refuse a host's record of accounts that does not agree with the first host's.

    Accounts and groups are added only together with the first host, and before any other one has them. So a copy has nothing
    that the first host's record has not, and a newer one has all of it. Another copy was changed by hand, or by an attacker
    who took over that host. It would decide for all hosts whose account is whose.
    """
    known, theirs = identities(of_first), identities(copy)
    strange = sorted(key for key, value in theirs.items() if known.get(key) != value)
    lost = sorted(key for key in known if key not in theirs) if copy["serial"] > of_first["serial"] else []
    if strange or lost:
        (kind, one), how = (strange or lost)[0], "otherwise than" if strange else "no longer, unlike"
        raise Refused(
            f"The record of accounts on {host} has the {kind} {shown(one)} {how} that of {first}, the first host of iam_hosts: "
            "look who changed it, remove the wrong one of the two records, then run again. Nothing was changed."
        )


def identities(record: t.Mapping[str, t.Any]) -> dict[tuple[str, str], tuple[str, int]]:
    """Return what stays once given: an id's name and number, a local group's number."""
    found = {("id", one): (each["name"], each["uid"]) for one, each in record["accounts"].items()}
    return {**found, **{("group", name): (name, each["gid"]) for name, each in record["groups"].items()}}


def newest(hosts: t.Mapping[str, Host], issuer: str, first: str) -> dict[str, t.Any]:
    """The record that counts.

    Each host has a copy; one that was away has an older one. first: the host that keeps the record.
    """
    best: dict[str, t.Any] = empty_record(issuer)
    of_first = parse_record(first, hosts[first].record) if first in hosts else None
    of = ""
    for name, host in hosts.items():
        record = parse_record(name, host.record)
        if record is None:
            continue
        if record["issuer"] != issuer:
            raise Refused(
                f"The accounts on {name} belong to the issuer {shown(record['issuer'])}, not to {issuer}: correct iam_accounts_issuer."
            )
        if of_first is not None:
            agree(first, of_first, name, record)
        if record["serial"] == best["serial"] and of and record != best:
            raise Refused(
                f"The records of accounts on {of} and {name} contradict each other: remove the one that is wrong, then run again."
            )
        if record["serial"] > best["serial"]:
            best, of = record, name
    return best


def active_ids(record: t.Mapping[str, t.Any]) -> list[str]:
    return [one for one, account in record["accounts"].items() if account["active"]]


class Numbers:
    """Gives numbers that neither the record nor a host has, as uid and gid alike."""

    def __init__(self, first: int, last: int, taken: t.Iterable[int], highest: int) -> None:
        self.last = last
        self.taken = set(taken)
        # Not one that was given before, also where its account is gone.
        self.next = max(first, highest + 1)

    def give(self) -> int:
        while self.next in self.taken:
            self.next += 1
        if self.next > self.last:
            raise Refused("The range of uids is used up: raise iam_accounts_uid_last. Nothing was changed.")
        self.next += 1
        return self.next - 1


def resolve(
    declared: t.Sequence[t.Mapping[str, t.Any]], present: t.Sequence[t.Mapping[str, str]], record: t.Mapping[str, t.Any]
) -> dict[str, str]:
    """The IAM's id of each declared group, by local group."""
    found = {}
    for entry in declared:
        name, local = entry["name"], entry["group"]
        ids = [group["id"] for group in present if (group["id"] == entry["id"] if entry.get("id") else group["name"] == name)]
        if len(ids) != 1:
            what = "no group" if not ids else f"{len(ids)} groups"
            raise Refused(
                f"The IAM has {what} {shown(name)}, which iam_accounts_groups names: correct the name, or give the group's id. "
                "Nothing was changed."
            )
        before = (record["groups"].get(local) or {}).get("id")
        if before not in (None, ids[0]) and entry.get("id") != ids[0]:
            raise Refused(
                f"The group {shown(name)} of the IAM has another id than before ({ids[0]}, it was {shown(before)}): "
                f"if the people are the same, declare 'id: {ids[0]}' in iam_accounts_groups. Nothing was changed."
            )
        found[local] = ids[0]
    return found


class Plan:
    """The plan, and what it reports."""

    def __init__(self) -> None:
        self.record: dict[str, t.Any] = {}
        self.accounts: list[dict[str, t.Any]] = []
        self.groups: list[dict[str, t.Any]] = []
        self.map: list[dict[str, t.Any]] = []
        self.told: list[str] = []
        # Names that a host has from elsewhere.
        self.left: list[str] = []

    def result(self) -> dict[str, t.Any]:
        told = self.told
        if len(told) > TOLD_AT_MOST:
            told = [*told[:TOLD_AT_MOST], f"and {len(told) - TOLD_AT_MOST} more"]
        return {
            "errors": [],
            "told": told,
            "record": text(self.record),
            "accounts": self.accounts,
            "groups": self.groups,
            "left": self.left,
            "map": text({"version": VERSION, "accounts": self.map}),
        }


def text(value: t.Mapping[str, t.Any]) -> str:
    """JSON as a file's content.

    An old ansible-core takes a text that begins with a brace for Python, hence the empty line.
    """
    return "\n" + json.dumps({"comment": COMMENT, **value}, indent=1, sort_keys=True) + "\n"


def plan(scim: t.Mapping[str, t.Any], hosts: t.Mapping[str, Host], settings: t.Mapping[str, t.Any], first: str) -> dict[str, t.Any]:
    """hosts: those that were read.

    first: the host that keeps the record, without which no account can be added.
    """
    may_add = "" if first in hosts else f"{first}, which keeps the record of accounts, does not answer"
    record = newest(hosts, settings["issuer"], first)
    ids = resolve(settings["groups"], scim["groups"], record)
    found = Plan()
    numbers = numbers_of(record, hosts, settings)
    groups = plan_groups(found, record, hosts, ids, numbers, may_add)
    people = {person["id"]: person for person in scim["users"]}
    of = {one: sorted(local for local, group in ids.items() if group in (people[one]["groups"] or [])) for one in people}

    if people and all(person["groups"] is None for person in people.values()):
        found.told.append("The IAM gives no groups of any user, so no new account is made: give the client the right to read them")
    accounts = {}
    for one, account in record["accounts"].items():
        accounts[one] = decided(found, account, people.get(one), of.get(one, []))
    guard(record["accounts"], accounts, ids, settings["disable_limit"])
    add_new(found, accounts, people, of, groups, hosts, settings, numbers, may_add)

    new = {**record, "groups": groups, "accounts": accounts}
    found.record = record if new == record else {**new, "serial": record["serial"] + 1}
    tell_left_out(found, hosts, accounts, groups)
    for one, account in sorted(accounts.items(), key=lambda item: item[1]["uid"]):
        person = people.get(one)
        own = {key: account[key] for key in ("name", "uid", "active")}
        keys = person["ssh_keys"] if person and account["active"] else []
        if person and account["active"] and person["bad_keys"]:
            found.told.append(f"{account['name']}: {person['bad_keys']} SSH keys of the IAM are no keys that are taken, and left out")
        found.accounts.append({**own, "full_name": person["full_name"] if person else "", "keys": keys})
        if account["active"] and account["name"] not in found.left:
            found.map.append({"issuer": settings["issuer"], "subject": one, "account": account["name"], "uid": account["uid"]})
    members: dict[str, list[str]] = {local: [] for local in groups}
    for account in accounts.values():
        for local in account["groups"] if account["active"] else []:
            members[local].append(account["name"])
    found.groups = [{"name": local, "gid": groups[local]["gid"], "members": sorted(members[local])} for local in groups]
    return found.result()


def numbers_of(record: t.Mapping[str, t.Any], hosts: t.Mapping[str, Host], settings: t.Mapping[str, t.Any]) -> Numbers:
    first, last = settings["uid_first"], settings["uid_last"]
    taken = {number for host in hosts.values() for number in [*host.users.values(), *host.groups.values()]}
    taken |= {int(name) for host in hosts.values() for name in host.claimed if name.isdecimal()}
    return Numbers(first, last, taken, max((number for _name, number in given(record) if first <= number <= last), default=0))


def plan_groups(
    found: Plan, record: t.Mapping[str, t.Any], hosts: t.Mapping[str, Host], ids: t.Mapping[str, str], numbers: Numbers, may_add: str
) -> dict[str, dict[str, t.Any]]:
    groups: dict[str, dict[str, t.Any]] = {name: dict(group) for name, group in record["groups"].items()}
    ours = {account["name"] for account in record["accounts"].values()}
    for local, one in ids.items():
        known = groups.get(local)
        for name, host in hosts.items():
            there = host.groups.get(local)
            if local in ours or (there is not None and (known is None or there != known["gid"])) or (known is None and local in host.users):
                raise Refused(
                    f"{name} has a user or group {local} already, which iam_accounts did not make: choose another local group "
                    "in iam_accounts_groups. Nothing was changed."
                )
        if known is None and may_add:
            raise Refused(f"The local group {local} is new, and {may_add}. Nothing was changed.")
        if known is None and prepared(local, hosts):
            raise Refused(
                f"The local group {local} is new, and the name {prepared(local, hosts)}: choose another local group "
                "in iam_accounts_groups. Nothing was changed."
            )
        groups[local] = {"id": one, "gid": known["gid"] if known else numbers.give()}
    return groups


def decided(found: Plan, account: t.Mapping[str, t.Any], person: t.Mapping[str, t.Any] | None, groups: list[str]) -> dict[str, t.Any]:
    """What becomes of an account that was made before."""
    if person is None:
        return {**account, "active": False, "groups": []}
    if person["active"] is None:
        found.told.append(f"{account['name']}: the IAM's end time can't be read, so the account stays as it is")
        return dict(account)
    if person["active"] and person["groups"] is None:
        found.told.append(f"{account['name']}: the IAM does not give this user's groups, so the account stays as it is")
        return dict(account)
    if person["name"] != account["name"]:
        found.told.append(f"{account['name']}: the IAM calls this user {shown(person['name'])}; the account keeps its name")
    active = bool(person["active"] and groups)
    return {**account, "active": active, "groups": groups if active else []}


def guard(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any], ids: t.Collection[str], limit: int) -> None:
    """Refuse to disable more accounts in one run than the limit allows.

    A broken IAM or a wrong line in the inventory must not empty a site. All accounts go only where the limit is 100.
    """
    active = [one for one, account in before.items() if account["active"]]
    losing = [
        one
        for one in active
        if not after[one]["active"] or {local for local in before[one]["groups"] if local in ids} - set(after[one]["groups"])
    ]
    most = math.ceil(len(active) * limit / 100)
    # Of a few accounts the share rounds up to all of them.
    if len(losing) > most or (active and len(losing) == len(active) and limit < 100):
        names = ", ".join([*sorted(before[one]["name"] for one in losing)[:5], *(["..."] if len(losing) > 5 else [])])
        raise Refused(
            f"{len(losing)} of {len(active)} accounts would be disabled or lose a group at once ({names}), "
            f"more than iam_accounts_disable_limit allows ({limit} %): look at the IAM, and if it is right "
            "run once with -e iam_accounts_disable_limit=100. Nothing was changed."
        )


def add_new(
    found: Plan,
    accounts: dict[str, dict[str, t.Any]],
    people: t.Mapping[str, t.Mapping[str, t.Any]],
    of: t.Mapping[str, list[str]],
    groups: t.Mapping[str, t.Any],
    hosts: t.Mapping[str, Host],
    settings: t.Mapping[str, t.Any],
    numbers: Numbers,
    may_add: str,
) -> None:
    names = {account["name"] for account in accounts.values()}
    for one, name in settings["names"].items():
        if one in accounts and accounts[one]["name"] != name:
            found.told.append(f"{accounts[one]['name']}: the account keeps its name, although iam_accounts_names says {name}")
    asked = {
        one: settings["names"].get(one, person["name"])
        for one, person in people.items()
        if one not in accounts and of[one] and person["active"] is not False
    }
    new = 0
    times = collections.Counter(asked.values())
    for one, name in sorted(asked.items(), key=lambda item: (item[1], item[0])):
        why = iam_names.unfit(name)
        there = next((host for host, seen in hosts.items() if name in seen.users or name in seen.groups), None)
        if not why and times[name] > 1:
            why = "is asked for by two users of the IAM"
        elif not why and (name in names or name in groups):
            why = "is that of another account or group"
        elif not why and there:
            why = f"is a local user or group of {there}"
        why = why or prepared(name, hosts)
        if may_add:
            found.told.append(f"no account for {shown(name)} yet: {may_add}")
        elif people[one]["active"] is None:
            found.told.append(f"no account for {shown(name)} (id {one}): the IAM's end time can't be read")
        elif why:
            found.told.append(f"no account for {shown(name)} (id {one}): the name {why}; give one in iam_accounts_names by this id")
        else:
            accounts[one] = {"name": name, "uid": numbers.give(), "active": True, "groups": of[one]}
            new += 1
    if new > settings["add_limit"]:
        raise Refused(
            f"{new} accounts would be new at once, more than iam_accounts_add_limit allows ({settings['add_limit']}): look at the groups "
            f"of the IAM, and if they are right run once with -e iam_accounts_add_limit={new}. Nothing was changed."
        )


def prepared(name: str, hosts: t.Mapping[str, Host]) -> str:
    """Why a new account or group would get what is prepared for its name.

    The text is empty where nothing is prepared.
    """
    why = iam_names.claimed(name)
    for host, seen in hosts.items():
        if not why and name in seen.claimed:
            why = f"has rights on {host} already ({seen.claimed[name]}), which is to be taken out of there first if it is meant"
    return why


def tell_left_out(
    found: Plan, hosts: t.Mapping[str, Host], accounts: t.Mapping[str, t.Mapping[str, t.Any]], groups: t.Iterable[str]
) -> None:
    """Accounts that some host can't have.

    Their tokens are mapped nowhere: the name may be another person's there.
    """
    wanted = [(account["name"], account["uid"]) for account in accounts.values()]
    left: set[str] = set()
    for name, host in hosts.items():
        for account, why in conflicts(host.users, host.groups, wanted).items():
            found.told.append(f"{name}: {account} is left out, as {why}")
            left.add(account)
        # The host was not read when the names were given.
        active = [account["name"] for account in accounts.values() if account["active"] and account["name"] not in left]
        for kind, names, there in (("account", active, host.users), ("group", list(groups), host.groups)):
            found.told += [
                f"{name}: the {kind} {one} gets the rights that this name has there already ({host.claimed[one]}): see that they are meant"
                for one in names
                if one not in there and host.claimed.get(one, RANGES[0]) not in RANGES
            ]
    found.left = sorted(left)
