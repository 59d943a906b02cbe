# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Read all users and groups of an IAM by SCIM, or nothing.

There is no I/O here: the caller gives a function that gets one answer.

INDIGO IAM gives at most 100 entries a page, knows no filter, and leaves the members out of its list of groups.
Who is in a group stands with the users.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import re
import struct
import time
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import shown

PAGE = 100
# Far beyond any site; what is larger is no honest answer.
MOST = 100000
ATTEMPTS = 3
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
INDIGO = "urn:indigo-dc:scim:schemas:IndigoUser".lower()
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,254}", re.ASCII)
KEY = re.compile(r"(?:([a-z0-9@.-]{1,50}) +)?([A-Za-z0-9+/]{40,16000}={0,3})(?: .*)?", re.ASCII)
KEY_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
MOST_KEYS = 50
TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)

Get = t.Callable[[str, t.Mapping[str, int]], t.Any]


class Refused(Exception):
    """The answers are not all of what was asked for.

    The text says why in one sentence.
    """


class Moved(Refused):
    """The list changed while it was read, or is not whole: another attempt may help."""


def attributes(entry: t.Mapping[str, t.Any], what: str) -> dict[str, t.Any]:
    """The attributes of an entry by their names in small letters.

    Names have no case (RFC 7643, 2.1).

    :raises Refused: a name is there twice, so it is not known which one counts.
    """
    found: dict[str, t.Any] = {}
    for key, value in entry.items():
        if key.lower() in found:
            raise Refused(f"{what} has the attribute {shown(key)} twice.")
        found[key.lower()] = value
    return found


def part(kind: str, answer: t.Any, start: int) -> tuple[list[dict[str, t.Any]], int]:
    """The entries of one page, and how many the whole list has."""
    if not isinstance(answer, dict):
        raise Refused(f"The list of {kind} is no ListResponse of SCIM.")
    answer = attributes(answer, f"The list of {kind}")
    total, entries = answer.get("totalresults"), answer.get("resources", [])
    if (
        not isinstance(total, int)
        or isinstance(total, bool)
        or total < 0
        or not isinstance(entries, list)
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        raise Refused(f"The list of {kind} is no ListResponse of SCIM: totalResults or Resources are missing.")
    if total > MOST:
        raise Refused(f"The list of {kind} is said to have {total} entries, more than the {MOST} that are read.")
    if answer.get("startindex", start) != start:
        raise Refused(f"The list of {kind} was asked for from entry {start} on and begins with another one.")
    return [attributes(entry, f"An entry in the list of {kind}") for entry in entries], total


def resources(get: Get, kind: str) -> list[dict[str, t.Any]]:
    """Every entry of one kind, Users or Groups."""
    found: list[dict[str, t.Any]] = []
    total = None
    while total is None or len(found) < total:
        start = len(found) + 1
        entries, now = part(kind, get(kind, {"startIndex": start, "count": PAGE}), start)
        if total not in (None, now):
            raise Moved(f"The list of {kind} had {total} entries and then {now}, so it changed while it was read.")
        total = now
        if not entries and len(found) < total:
            raise Moved(f"The list of {kind} ends after {len(found)} of {total} entries.")
        found += entries
    if len(found) != total:
        raise Moved(f"The list of {kind} has {len(found)} entries and says that it has {total}.")
    ids = [entry.get("id") for entry in found]
    if not all(isinstance(one, str) and ID.fullmatch(one) for one in ids):
        raise Refused(f"An entry in the list of {kind} has no usable id.")
    if len(set(ids)) != len(ids):
        raise Moved(f"The list of {kind} names an entry twice, so it changed while it was read or its pages overlap.")
    return found


def whole_list(get: Get, kind: str, pause: t.Callable[[float], None]) -> list[dict[str, t.Any]]:
    """Every entry of one kind; a list that changes while it is read is read again."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return resources(get, kind)
        except Moved:
            if attempt == ATTEMPTS:
                raise
            pause(float(attempt))
    raise AssertionError  # not reached


def directory(
    get: Get, get_one: t.Callable[[str], t.Any], known: t.Collection[str], now: float, pause: t.Callable[[float], None]
) -> dict[str, t.Any]:
    """Users and groups in the collection's own form.

    A known user who is missing in the list is asked for separately. Only an IAM that says "there is none" makes a user absent,
    a list that is too short does not.
    """
    groups = [group(entry) for entry in whole_list(get, "Groups", pause)]
    users = {entry["id"]: entry for entry in whole_list(get, "Users", pause)}
    if not users:
        raise Refused("The IAM's list of users is empty, so it is not whole.")
    # INDIGO IAM leaves out the groups of a user who is in none. Where no user has them, the IAM keeps them back.
    gives_groups = any(entry.get("groups") is not None for entry in users.values())
    asked = set(known) - set(users)
    if gives_groups:
        asked |= {one for one in known if one in users and users[one].get("groups") is None}
    for one in sorted(asked):
        entry = get_one(one)
        entry = attributes(entry, f"The user {shown(one)}") if isinstance(entry, dict) else entry
        if entry is not None:
            if not isinstance(entry, dict) or entry.get("id") != one:
                raise Refused(f"The IAM answers with another account for the id {shown(one)}.")
            users[one] = entry
        elif one in users:
            raise Refused(f"The IAM lists the user {shown(one)} and says that there is none.")
    return {"users": [user(entry, now, gives_groups) for entry in users.values()], "groups": groups}


def group(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    if not isinstance(entry.get("displayname"), str):
        raise Refused(f"The group {shown(entry['id'])} has no displayName.")
    return {"id": entry["id"], "name": entry["displayname"]}


def user(entry: t.Mapping[str, t.Any], now: float, gives_groups: bool = True) -> dict[str, t.Any]:
    """What accounts are made from.

    active is null where the end time can't be read, groups is null where the IAM keeps them back: then nothing is known.

    :arg gives_groups: whether the IAM gives groups, so that a user without them is in none.
    """
    one = entry["id"]
    entry = attributes(entry, f"The user {shown(one)}")
    name, active, groups = entry.get("username"), entry.get("active"), entry.get("groups")
    groups = [] if groups is None and gives_groups else groups
    if not isinstance(name, str) or not isinstance(active, bool):
        raise Refused(f"The user {shown(one)} has no userName, or active is neither true nor false.")
    values = [parts(each, one).get("value") for each in groups] if isinstance(groups, list) else []
    if not (groups is None or isinstance(groups, list)) or not all(isinstance(value, str) for value in values):
        raise Refused(f"The groups of the user {shown(one)} are no list of groups.")
    extension = parts(entry.get(INDIGO), one)
    end = ends(extension.get("endtime"))
    keys, bad = ssh_keys(extension.get("sshkeys"))
    return {
        "id": one,
        "name": name,
        "full_name": full_name(entry),
        "active": False if not active else None if end is None else now < end,
        "groups": None if groups is None else values,
        "ssh_keys": keys,
        "bad_keys": bad,
    }


def parts(value: t.Any, one: str) -> dict[str, t.Any]:
    """The attributes within an attribute of a user; none where it has no parts."""
    return attributes(value, f"The user {shown(one)}") if isinstance(value, dict) else {}


def full_name(entry: t.Mapping[str, t.Any]) -> str:
    """Return the name for the comment field of passwd(5).

    That field has its own separators. Letters of every language stay.
    """
    name = parts(entry.get("name"), entry["id"])
    words = [name.get("formatted")] if name.get("formatted") else [name.get("givenname"), name.get("familyname")]
    text = " ".join(word for word in [*words] if isinstance(word, str))
    return " ".join("".join(sign if sign.isalpha() or sign in " .'-" else " " for sign in text).split())[:80]


def ends(value: t.Any) -> float | None:
    """Return when an account ends, in seconds since 1970.

    Infinity means never. None means that the text can't be read.
    """
    if value is None or value == "":
        return float("inf")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) / 1000  # Java's milliseconds
    found = TIME.fullmatch(value) if isinstance(value, str) else None
    if not found:
        return None
    day, clock, zone = found.groups()
    try:
        seconds = calendar.timegm(time.strptime(f"{day}T{clock or '00:00:00'}", "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    offset = 0
    if zone and zone != "Z":
        offset = (int(zone[1:3]) * 60 + int(zone[-2:])) * (-60 if zone[0] == "-" else 60)
    return float(seconds - offset)


def ssh_keys(values: t.Any) -> tuple[list[str], int]:
    """Return the public keys, and how many could not be read as keys.

    A key is "TYPE BASE64", without comments and options.
    """
    entries = values if isinstance(values, list) else []
    found: list[str] = []
    bad = 0
    for entry in entries[:MOST_KEYS]:
        value = attributes(entry, "An SSH key").get("value") if isinstance(entry, dict) else None
        key = ssh_key(value) if isinstance(value, str) else ""
        if key and key not in found:
            found.append(key)
        bad += not key
    return sorted(found), bad + len(entries[MOST_KEYS:])


def ssh_key(value: str) -> str:
    """Return one public key.

    INDIGO IAM's keys may lack the type, which is in the key itself as well.
    """
    match = KEY.fullmatch(value.strip())
    if not match:
        return ""
    told, text = match.groups()
    try:
        blob = base64.b64decode(text, validate=True)
        (length,) = struct.unpack(">I", blob[:4])
        inside = blob[4 : 4 + length].decode("ascii")
    except (binascii.Error, struct.error, ValueError):
        return ""
    return f"{inside} {text}" if inside in KEY_TYPES and told in (None, inside) else ""
