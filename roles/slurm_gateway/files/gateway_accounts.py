# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Whose local account a token's identity is, by a declared map.

A name that the token carries never decides.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import typing as t

# What SLURM and slurmrestd take for a name; digits alone would be a user id to them.
ACCOUNT = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")

# Accounts that run services; so is whoever shares a user id with one of them.
SERVICES = ("root", "slurm", "slurmrestd", "slurm_gateway", "munge", "nobody", "www-data")

# Debian's ranges: below are system accounts, in between those that packages and systemd make, and the user `nobody`.
FIRST_USER = 1000
RESERVED = range(60000, 65536)

# Shells of an account that is switched off.
NO_LOGIN = ("nologin", "false")


class Refused(Exception):
    """No account for this identity.

    The text says so in one sentence that may be shown to whoever asks.
    """


class Broken(Exception):
    """The gateway itself can't decide; the text is for the operator."""


class Account(t.NamedTuple):
    name: str
    uid: int
    gid: int
    home: str
    shell: str


def entries(path: str) -> list[dict[str, t.Any]]:
    """The entries of a map; none where there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            return [dict(entry) for entry in json.load(file)["accounts"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Broken(f"the map of accounts {path} can't be read: {error}") from None


def mapped(maps: t.Sequence[str], issuer: str, subject: str) -> Account:
    """The account that the first map with an identity gives to it.

    The maps are read for each request, so that a change takes effect with the next one.
    """
    for path in maps:
        own = [entry for entry in entries(path) if entry.get("issuer") == issuer and entry.get("subject") == subject]
        if len(own) > 1:
            raise Broken(f"the map of accounts {path} has an identity twice: {json.dumps([issuer, subject])}")
        if own:
            account = local(str(own[0].get("account")))
            # A name that was given to another user since the map was made.
            if str(own[0].get("uid", account.uid)) != str(account.uid):
                raise Refused("The account that your identity is mapped to is another one now.")
            return account
    raise Refused("Your identity has no account on this cluster: ask its operators to map it to one.")


def service_ids() -> set[int]:
    """User ids that no request may act for, by the host's own passwd."""
    found = {os.getuid()}
    for name in SERVICES:
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return found


def local(name: str) -> Account:
    """The account of that name by the host's own passwd, if it is a person's."""
    if not ACCOUNT.fullmatch(name) or name in SERVICES:
        raise Refused("The account that your identity is mapped to is not one that jobs may run as.")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Refused("The account that your identity is mapped to does not exist on this host.") from None
    if entry.pw_uid < FIRST_USER or entry.pw_uid in RESERVED or entry.pw_uid in service_ids() or entry.pw_gid == 0:
        raise Refused("The account that your identity is mapped to is not one that jobs may run as.")
    if os.path.basename(entry.pw_shell) in NO_LOGIN:
        raise Refused("The account that your identity is mapped to is disabled.")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell or "/bin/sh")
