# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The commands that give a host the wanted accounts, as few as possible.

Pure functions.

systemd-sysusers(8) makes any number of users and groups in one call; useradd(8) would take minutes for two thousand.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import shown

# The day in shadow(5) on which our disabled accounts ended: 1970-01-03. An administrator's own mark is another one
# (0 and 1 are what manuals name), and is never taken back.
ENDED = 2
# The kernel takes no argument of more than 128 KiB (MAX_ARG_STRLEN).
LONGEST = 100_000
NOLOGIN = "/usr/sbin/nologin"


class User(t.NamedTuple):
    """One user in passwd(5) and shadow(5)."""

    uid: int
    gid: int
    home: str
    shell: str
    expires: int | None


class Group(t.NamedTuple):
    gid: int
    members: t.Sequence[str]


def conflicts(users: t.Mapping[str, int], groups: t.Mapping[str, int], wanted: t.Iterable[tuple[str, int]]) -> dict[str, str]:
    """Return the accounts that a host can't get, each with the reason.

    Their name or number is taken there.
    """
    names, numbers = {uid: name for name, uid in users.items()}, {gid: name for name, gid in groups.items()}
    found = {}
    for name, uid in wanted:
        if users.get(name, uid) != uid:
            found[name] = f"an account {name} with the uid {users[name]} exists, which is not ours"
        elif names.get(uid, name) != name:
            found[name] = f"the uid {uid} belongs to {shown(names[uid])}"
        elif groups.get(name, uid) != uid:
            found[name] = f"a group {name} with the gid {groups[name]} exists, which is not ours"
        elif numbers.get(uid, name) != name:
            found[name] = f"the gid {uid} belongs to {shown(numbers[uid])}"
    return found


class Steps:
    """What must be done, and the same in words."""

    def __init__(self) -> None:
        # Lines of sysusers.d(5).
        self.made: list[str] = []
        # They come before all others: a later failure must not keep an account enabled.
        self.disabling: list[list[str]] = []
        self.commands: list[list[str]] = []
        self.before: list[str] = []
        self.after: list[str] = []
        self.left: list[str] = []
        # Accounts that are as wanted once the commands have run: they get homes and keys.
        self.present: list[dict[str, t.Any]] = []
        self.gone: list[str] = []

    def say(self, before: str, after: str) -> None:
        if before:
            self.before.append(before)
        if after:
            self.after.append(after)


def steps(
    users: t.Mapping[str, User],
    groups: t.Mapping[str, Group],
    accounts: t.Sequence[t.Mapping[str, t.Any]],
    wanted: t.Sequence[t.Mapping[str, t.Any]],
    home: str,
    shell: str,
) -> Steps:
    """wanted: the groups with their members."""
    found = Steps()
    uids = {name: user.uid for name, user in users.items()}
    gids = {name: group.gid for name, group in groups.items()}
    numbers = [(account["name"], account["uid"]) for account in accounts]
    foreign = conflicts(uids, gids, numbers)
    found.left = [f"{name}: {why}" for name, why in foreign.items()]
    for group in wanted:
        if group["name"] not in groups:
            found.made.append(f"g {group['name']} {group['gid']}")
            found.say("", f"group {group['name']} gid {group['gid']}")
    for account in accounts:
        if account["name"] not in foreign:
            account_steps(found, users.get(account["name"]), account, home, shell)
    usable = {account["name"] for account in found.present}
    ours = {account["name"] for account in accounts if account["name"] not in foreign}
    for group in wanted:
        member_steps(found, groups.get(group["name"]), group, ours, usable)
    return found


def account_steps(found: Steps, user: User | None, account: t.Mapping[str, t.Any], home: str, shell: str) -> None:
    name, uid, active = account["name"], account["uid"], account["active"]
    if not active:
        found.gone.append(name)
        if user is not None and (user.expires != ENDED or user.shell != NOLOGIN):
            found.disabling.append(["usermod", "--expiredate", str(ENDED), "--shell", NOLOGIN, name])
            found.say(f"account {name} uid {uid} enabled", f"account {name} uid {uid} disabled")
        return
    found.present.append({**account, "home": user.home if user else f"{home}/{name}", "gid": user.gid if user else uid})
    if user is None:
        comment = f'"{account["full_name"]}"' if account["full_name"] else "-"
        found.made.append(f"g {name} {uid}")
        found.made.append(f"u {name} {uid} {comment} {home}/{name} {shell}")
        found.say("", f"account {name} uid {uid} enabled")
    elif user.expires == ENDED:
        # With the empty date it never ends.
        found.commands.append(["usermod", "--expiredate", "", "--shell", shell if user.shell == NOLOGIN else user.shell, name])
        found.say(f"account {name} uid {uid} disabled", f"account {name} uid {uid} enabled")


def member_steps(
    found: Steps, group: Group | None, wanted: t.Mapping[str, t.Any], ours: t.Collection[str], usable: t.Collection[str]
) -> None:
    """Members who are not ours were put there by hand, and stay."""
    now = list(group.members) if group else []
    shall = [name for name in now if name not in ours] + [name for name in wanted["members"] if name in usable]
    if set(shall) == set(now):
        return
    gone, new = sorted(set(now) - set(shall)), sorted(set(shall) - set(now))
    listed = ",".join(shall)
    if len(listed) < LONGEST:
        found.commands.append(["gpasswd", "--members", listed, wanted["name"]])
    else:
        found.commands += [["gpasswd", "--delete", name, wanted["name"]] for name in gone]
        found.made += [f"m {name} {wanted['name']}" for name in new]
    found.say(
        "\n".join(f"{name} in group {wanted['name']}" for name in gone),
        "\n".join(f"{name} in group {wanted['name']}" for name in new),
    )


def expiries(shadow: str) -> dict[str, int | None]:
    """The day on which each account ends, by name, from the text of shadow(5)."""
    found: dict[str, int | None] = {}
    for line in shadow.splitlines():
        fields = line.split(":")
        if len(fields) > 7:
            found[fields[0]] = int(fields[7]) if fields[7].isdigit() else None
    return found
