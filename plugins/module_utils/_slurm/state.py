# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""slurmctld's state directory (StateSaveLocation) on a host.

It is read as slurmctld's user: a shared file system may map root to `nobody`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import stat
import typing as t

# slurmctld writes them at its first start and never removes them.
SIGNS = ("clustername", "job_state")
# In a directory that we copied, the path it was copied from.
COPIED_FROM = ".deephdc_copied_from"
SHARED = ".deephdc_shared"
# A new file system has it.
EMPTY = {"lost+found"}


@contextlib.contextmanager
def as_user(name: str) -> t.Iterator[None]:
    """Be another user for a while, as far as files go; only root can."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        entry = None
    if entry is None or os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def has_state(directory: str) -> bool:
    return any(os.path.exists(os.path.join(directory, name)) for name in SIGNS)


def identity(directory: str) -> str:
    """Return a mark of a state, empty if there is no state.

    Two marks are equal if two hosts see the same files.
    """
    for name in SIGNS:
        try:
            found = os.stat(os.path.join(directory, name))
        except OSError:
            continue
        return f"{found.st_ino} {found.st_mtime_ns}"
    return ""


def size_mib(directory: str) -> int:
    total = 0
    for folder, _folders, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return -(-total // 2**20)


def free_mib(directory: str) -> int:
    """Free space where the directory is or would be."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize // 2**20


def foreign(directory: str, user: str) -> str:
    """Another user that owns a directory which is not empty.

    Empty if it is slurmctld's, or not used yet.
    """
    try:
        found = os.stat(directory)
    except OSError:
        return ""
    if not stat.S_ISDIR(found.st_mode):
        return "nobody, as it is no directory"
    try:
        if set(os.listdir(directory)) <= EMPTY or found.st_uid == pwd.getpwnam(user).pw_uid or has_state(directory):
            return ""
    except (KeyError, OSError):
        return ""  # the package that brings the user is not installed yet, or only that user may look
    try:
        return pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        return f"the user {found.st_uid}"


def former(conf: str) -> str:
    """The StateSaveLocation of a slurm.conf, empty where there is none."""
    found = re.search(r"(?im)^\s*StateSaveLocation\s*=\s*(\S+)", conf)
    return found.group(1).rstrip("/") if found else ""


def look(directory: str, conf: str, stamp: str, user: str) -> dict[str, t.Any]:
    """What plugin_utils/_slurm/controllers.py needs to know of one host.

    conf: slurm.conf; stamp: what slurmctld was started with last.
    """
    before = former(read(conf))
    owner = foreign(directory, user)
    with as_user(user):
        return {
            "has_state": has_state(directory),
            "copied_from": read(os.path.join(directory, COPIED_FROM)).strip(),
            "foreign": owner,
            "free_mib": free_mib(directory),
            "former": before,
            "former_is": identity(before) if before else "",
            "former_mib": size_mib(before) if before and before != directory else 0,
            "started_with": read(stamp).strip(),
        }


def copy(source: str, target: str) -> None:
    """Make target the state that source has.

    An earlier copy that was not finished goes first. Runs as slurmctld's user.
    """
    for name in set(os.listdir(target)) - EMPTY - {SHARED}:
        path = os.path.join(target, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    with open(os.path.join(target, COPIED_FROM), "w", encoding="utf-8") as file:
        file.write(source + "\n")
    # A marker of an earlier move in the source would be copied over ours.
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".deephdc_*", *EMPTY))
    os.sync()
