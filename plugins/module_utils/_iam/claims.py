# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Names that have rights or work on a host, also without an account.

An account that gets such a name gets what is prepared for it: cloud-init's rule of sudo, a package's cron job.
"""

from __future__ import annotations

import fnmatch
import os
import re
import socket
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._iam.names import NAME

SUDOERS = "/etc/sudoers"
# A line of sudoers that names no user who gets something.
_NO_USERS = re.compile(r"(?:Defaults|Host_Alias|Runas_Alias|Cmnd_Alias|Cmd_Alias)\b")
_INCLUDE = re.compile(r"[@#](include|includedir)\s+(.*)")
_USER_ALIAS = re.compile(r"User_Alias\s+(.*)")
# Not in "%:ad", a group of another source.
_NEXT_ALIAS = re.compile(r":(?=\s*[A-Z][A-Z0-9_]*\s*=)")
# Neither "#1000", a number, nor "#include". What ends with a backslash goes on in the next line, but for a comment.
_COMMENT = re.compile(r"^[ \t]*#(?!\d|include(?:dir)?\s).*$|(?<=\S)[ \t]+#(?!\d).*$", re.MULTILINE)
_WORDS = re.compile(r'"([^"]*)"|([^\s,"]+)')
DEEPEST = 10  # includes of includes
GROUPS = "/etc/group"
# useradd(8) gives each account some; they are no rights of the host's own.
RANGES = ("/etc/subuid", "/etc/subgid")


def claimed(root: str = "", users: t.Container[str] = ()) -> dict[str, str]:
    """Return the names, and numbers as texts, each with the file that names it.

    :param users: names of the accounts that are there.
    :raises OSError: a file can't be read; then nothing is known.
    """
    found: dict[str, str] = {}

    def claim(names: t.Iterable[str], path: str) -> None:
        for name in names:
            if NAME.fullmatch(name) or name.isdecimal():  # no other one can be an account's name or number
                found.setdefault(name, path)

    # Groups keep members whose account comes from elsewhere, or is gone.
    claim((name for line in lines(root + GROUPS) for name in line.split(":")[-1].split(",") if name not in users), GROUPS)
    for path in RANGES:
        claim((line.partition(":")[0] for line in lines(root + path)), path)
    for path in present(root, ["/etc/crontab", "/etc/cron.d/*"]):
        claim(cron_users(lines(root + path)), path)
    for path in present(root, ["/var/spool/cron/crontabs/*", "/var/lib/systemd/linger/*"]):
        claim([os.path.basename(path)], os.path.dirname(path))
    for path in present(root, [f"{top}/sysusers.d/*.conf" for top in ("/etc", "/run", "/usr/local/lib", "/usr/lib")]):
        claim(sysusers_names(lines(root + path)), path)
    # Rules may lie there before sudo is installed.
    for rules in (SUDOERS, *rules_in(root, f"{SUDOERS}.d")):
        for path, names in sudo_users(root, rules):
            claim(names, path)
    return found


def present(root: str, patterns: t.Iterable[str]) -> list[str]:
    """The files that patterns of names stand for, such as /etc/cron.d/*.

    :raises OSError: a folder can't be read.
    """
    found: list[str] = []
    for pattern in patterns:
        folder, names = os.path.split(pattern)
        try:
            with os.scandir(root + folder) as entries:
                found += sorted(
                    os.path.join(folder, entry.name) for entry in entries if fnmatch.fnmatch(entry.name, names) and not entry.is_dir()
                )
        except FileNotFoundError:
            continue
    return found


def lines(path: str) -> list[str]:
    """The lines of a file that is there, without empty ones and comments."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def cron_users(text: t.Iterable[str]) -> list[str]:
    """The users of crontab(5).

    They are the sixth word, or the second one behind @daily and the like.
    """
    found = []
    for line in text:
        words = line.split()
        place = 1 if line.startswith("@") else 5
        if len(words) > place + 1 and not re.match(r"[A-Za-z_][A-Za-z0-9_]*\s*=", line):
            found.append(words[place])
    return found


def sysusers_names(text: t.Iterable[str]) -> list[str]:
    """The users and groups of sysusers.d(5)."""
    words = [line.split() for line in text]
    return [each[1].strip("\"'") for each in words if len(each) > 1 and each[0].rstrip("!-") in ("u", "g", "m")]


def sudo_users(root: str, path: str, depth: int = 0) -> list[tuple[str, list[str]]]:
    """The users and groups that sudoers(5) names, by file.

    :raises OSError: a file that is included can't be read, or is not there.
    """
    try:
        with open(root + path, encoding="utf-8", errors="surrogateescape") as file:
            text = re.sub(r"\\\r?\n", " ", _COMMENT.sub("", file.read()))
    except FileNotFoundError:
        if depth:
            raise
        return []
    names: list[str] = []
    found = [(path, names)]
    for line in (line.strip() for line in text.splitlines()):
        include = _INCLUDE.fullmatch(line)
        if include and depth < DEEPEST:
            where = include[2].strip().strip('"').replace("\\ ", " ").replace("%h", socket.gethostname().partition(".")[0])
            where = where if where.startswith("/") else os.path.join(os.path.dirname(path), where)
            for each in rules_in(root, where) if include[1] == "includedir" else [where]:
                found += sudo_users(root, each, depth + 1)
        elif line and not re.match(r"#(?!\d)", line) and not _NO_USERS.match(line):
            names += sudo_names(line)
    return found


def rules_in(root: str, folder: str) -> list[str]:
    """The files of a folder that sudo reads.

    It passes over names with a dot or a tilde, as packages' own copies have them.
    """
    return [name for name in present(root, [f"{folder}/*"]) if "." not in os.path.basename(name) and not name.endswith("~")]


def sudo_names(line: str) -> list[str]:
    """The names of one rule, or of the aliases of one line."""
    alias = _USER_ALIAS.fullmatch(line)
    if alias:  # NAME = user, user : NAME = user
        listed = " , ".join(each.partition("=")[2] for each in _NEXT_ALIAS.split(alias[1]))
    else:  # user, user HOST = ...
        listed = re.sub(r"\s*\S+\s*$", "", line.partition("=")[0])
    words = [quoted or plain for quoted, plain in _WORDS.findall(listed)]
    # "#20001" is a number, "%" a group, "+" a netgroup.
    return [word.lstrip("!%:#") for word in words if word.lstrip("!")[:1] not in ("+", "")]
