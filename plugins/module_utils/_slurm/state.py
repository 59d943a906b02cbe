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

from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user

# slurmctld writes them at its first start and never removes them.
SIGNS = ("clustername", "job_state")
# In a directory that we copied, the path it was copied from.
COPIED_FROM = ".deephdc_copied_from"
SHARED = ".deephdc_shared"
# A new file system has it.
EMPTY = {"lost+found"}


def known(path: str) -> str:
    """The text of a file, empty if the file does not exist.

    :raises OSError: it is there and can't be read, which is not the same.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:  # reading itself does not name the file
        raise OSError(error.errno, error.strerror, path) from error


def read(path: str) -> str:
    """The text of a file, empty if it can't be read now."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def has_state(directory: str) -> bool:
    """Whether slurmctld has begun there.

    :raises OSError: this user can't look.
    """
    return identity(directory) != ""


def identity(directory: str) -> str:
    """Return a mark of a state, empty if there is no state.

    Two marks are equal if two hosts see the same files.

    :raises OSError: this user can't look.
    """
    for name in SIGNS:
        try:
            found = os.stat(os.path.join(directory, name))
        except (FileNotFoundError, NotADirectoryError):
            continue
        return f"{found.st_ino} {found.st_mtime_ns}"
    return ""


def is_absent(directory: str) -> bool:
    try:
        os.lstat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # another user may be let in
    return False


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

    :raises OSError: something is there and can't be read.
    """
    before = former(known(conf))
    owner = foreign(directory, user)
    # What another user owns is no state of this cluster.
    here = not (owner or is_absent(directory))
    there = here if before == directory else before != "" and not is_absent(before)
    with as_user(user):
        return {
            "has_state": here and has_state(directory),
            "is": identity(directory) if here else "",
            "copied_from": known(os.path.join(directory, COPIED_FROM)).strip() if here else "",
            "foreign": owner,
            "free_mib": free_mib(directory),
            "former": before,
            "former_is": identity(before) if there else "",
            "former_mib": size_mib(before) if before and before != directory else 0,
            "started_with": known(stamp).strip(),
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
