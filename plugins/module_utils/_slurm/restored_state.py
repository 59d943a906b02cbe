# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Put a backup's state of slurmctld in the place of the one that is there.

It goes in steps that a killed run leaves whole.

The backup is unpacked beside the former state, then the former state moves out, then the new one moves in.
The name of the directory that holds the new state says how far that is, so the next run goes on there.
The guard in slurmctld's unit does not let it start with half of each.
Everything happens as slurmctld's user, who owns the directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import time
import typing as t

# Being unpacked: worth nothing after a kill.
UNPACKING = ".deephdc_restore_unpacking"
# Unpacked: the former state moves out. The guard of the role slurm_controller knows these two names; a test compares them.
LEAVING = ".deephdc_restore_former_leaves"
# The former state is out: the new one moves in.
ENTERING = ".deephdc_restore_new_enters"
FORMER = ".deephdc_restore_former"
STEPS = (UNPACKING, LEAVING, ENTERING, FORMER)
# In the unpacked directory: which backup it is.
BACKUP = ".deephdc_backup"
# Former states that earlier restores kept, with their time.
KEPT = "before-restore"


def members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Plain files and directories whose names stay below the archive's root."""
    inside = [member for member in tar.getmembers() if ".." not in member.name.split("/") and not member.name.startswith("/")]
    return [member for member in inside if member.isfile() or member.isdir()]


def write_file(source: t.IO[bytes], target: str, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a file that is not there yet, and follow no link in its place."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(source, file)
        if owner:
            os.fchown(file.fileno(), *owner)
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())


def unpack(archive: t.IO[bytes], directory: str) -> None:
    """Unpack an archive into a new directory, with modes and times of its files."""
    os.mkdir(directory, 0o700)
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in members(tar):
            target = os.path.normpath(os.path.join(directory, member.name))
            if member.isdir():
                os.makedirs(target, 0o700, exist_ok=True)
                continue
            source = tar.extractfile(member)
            if source is not None:
                os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
                write_file(source, target, member.mode)
                os.utime(target, (member.mtime, member.mtime))


def under_way(directory: str) -> str:
    """Return which backup a killed run was putting in place.

    The former state had begun to leave then. Where there was no such run, the text is empty.
    """
    for step in (LEAVING, ENTERING):
        try:
            with open(os.path.join(directory, step, BACKUP), encoding="utf-8") as file:
                return file.read()
        except OSError:
            continue
    return ""


def fingerprint(directory: str) -> str:
    """What changes as soon as slurmctld writes into its state."""
    rows = []
    for name in sorted(os.listdir(directory)):
        found = os.lstat(os.path.join(directory, name))
        if name not in STEPS and not name.startswith((".deephdc_", KEPT)):
            rows.append(f"{name} {found.st_ino} {found.st_mtime_ns if not name.startswith('hash.') else ''}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def moves(directory: str) -> list[str]:
    """Return what belongs to a state.

    That is all but our own steps and the former states that were kept.
    """
    return [name for name in os.listdir(directory) if name not in STEPS and not name.startswith(KEPT) and name != "lost+found"]


def put(archive: t.IO[bytes], directory: str, backup: str) -> None:
    """Make the archive's files the state in the directory.

    It goes on where a killed run stopped.

    archive: opened by root, who alone may read a backup. backup: what identifies it.
    """
    unpacking, leaving, entering, former = (os.path.join(directory, step) for step in STEPS)
    if os.path.isdir(entering) and under_way(directory) != backup:
        # What entered so far is from another backup, which still has it.
        for name in moves(directory):
            remove(os.path.join(directory, name))
        remove(entering)
    if os.path.isdir(leaving) and under_way(directory) != backup:
        remove(leaving)
    if not os.path.isdir(entering):
        if not os.path.isdir(leaving):
            remove(unpacking)
            unpack(archive, unpacking)
            with open(os.path.join(unpacking, BACKUP), "w", encoding="utf-8") as file:
                file.write(backup)
            os.sync()
            os.rename(unpacking, leaving)
        os.makedirs(former, 0o700, exist_ok=True)
        for name in moves(directory):
            os.rename(os.path.join(directory, name), os.path.join(former, name))
        os.sync()
        os.rename(leaving, entering)
    for name in os.listdir(entering):
        if name != BACKUP:
            os.rename(os.path.join(entering, name), os.path.join(directory, name))
    if os.path.isdir(former):
        if os.listdir(former):
            os.rename(former, free_name(os.path.join(directory, f"{KEPT}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")))
        else:
            os.rmdir(former)
    os.sync()
    # Last: until now the guard keeps slurmctld from starting.
    os.rename(entering, unpacking)
    remove(unpacking)


def free_name(path: str) -> str:
    """The path, with a number where there is one of that name."""
    number = 1
    while os.path.lexists(path if number == 1 else f"{path}-{number}"):
        number += 1
    return path if number == 1 else f"{path}-{number}"


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
