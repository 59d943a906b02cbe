# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a backup of a Mesos cluster consists of, and how it is found to be whole.

A backup is a directory with a manifest (names, SHA-256, cluster), which is written last. A host has its part of it: ZooKeeper's data, or
the state that a Marathon wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from typing import IO, Any, Dict, Iterable, List, Sequence

NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z[A-Za-z0-9_.-]*\Z")
MANIFEST = "manifest.json"
ZOOKEEPER = "zookeeper.tar.gz"
MARATHON = "marathon.tar"
# Below ZooKeeper's directory of data.
VERSION = "version-2"
EPOCHS = ("acceptedEpoch", "currentEpoch")
# The number is the last transaction before a snapshot, or the first one of a log.
FILE = re.compile(r"(snapshot|log)\.([0-9a-f]+)\Z")
# ZooKeeper writes it behind a snapshot when all of it is there.
END = b"\0\0\0\x01/"


def is_whole(file: IO[bytes]) -> bool:
    """Whether a snapshot of ZooKeeper was written to its end."""
    file.seek(0, os.SEEK_END)
    if file.tell() < len(END):
        return False
    file.seek(-len(END), os.SEEK_END)
    return file.read(len(END)) == END


def chosen(names: Iterable[str], whole: Iterable[str]) -> List[str]:
    """Return the files from which ZooKeeper can make its data again.

    These are the newest whole snapshot, and the logs from the last one that begins before it.
    A snapshot is written while changes go on. Where there is no whole snapshot, the list is empty.
    """
    numbers = {}  # type: Dict[str, Dict[int, str]]
    for name in names:
        match = FILE.match(name)
        if match:
            numbers.setdefault(match.group(1), {})[int(match.group(2), 16)] = name
    complete = set(whole)
    snapshots = {number: name for number, name in numbers.get("snapshot", {}).items() if name in complete}
    if not snapshots:
        return []
    newest = max(snapshots)
    logs = numbers.get("log", {})
    first = max((number for number in logs if number <= newest), default=0)
    return [snapshots[newest], *(logs[number] for number in sorted(logs) if number >= first)]


def digest(path: str) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def tar_members(path: str, compressed: bool = False) -> int:
    """How many entries an archive has, read to its end.

    :param compressed: whether it is our own one. What a service wrote is not unpacked, as little may become very much.
    :raises ValueError: it is damaged, or not whole.
    """
    try:
        with tarfile.open(path, "r:gz" if compressed else "r:") as tar:
            count = 0
            for member in tar:
                if member.issparse():  # its size may be any number
                    raise tarfile.ReadError("{0} has holes".format(member.name[:80]))
                content = tar.extractfile(member) if member.isfile() else None
                while content is not None and content.read(1 << 20):
                    pass
                count += 1
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError("{0} is no whole archive ({1})".format(os.path.basename(path), error)) from error
    return count


def read_manifest(path: str) -> Dict[str, Any]:
    """The manifest of a backup whose files are all as they were.

    :raises ValueError: it is no backup, or a damaged one.
    """
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            manifest = dict(json.load(file))
        files = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError("{0} is no backup, as it has no {1} that can be read".format(path, MANIFEST)) from None
    for name, wanted in files.items():
        place = os.path.join(path, os.path.basename(name))
        if not os.path.isfile(place) or digest(place) != wanted:
            raise ValueError("{0} of the backup {1} is damaged or missing".format(name, path))
    return manifest


def superfluous(names: Sequence[str], keep: int) -> List[str]:
    """Return the backups that are older than the newest ones, which are kept.

    Names begin with their times.
    """
    ordered = sorted(name for name in names if NAME.match(name))
    return ordered[:-keep] if keep > 0 else []


def refusal(there: Sequence[str], is_begun: bool, overwrite: bool) -> str:
    """Why ZooKeeper's data is not replaced; empty where it may be.

    :param there: what is in its directory. is_begun: whether a killed run of the same backup had begun to replace it.
    """
    if overwrite or not there or is_begun:
        return ""
    return (
        "Nothing was restored: ZooKeeper has data here ({0} and more): to go on with it, run the playbook mesos; to replace it, set "
        "mesos_restore_overwrite to the cluster's name.".format(sorted(there)[0])
    )
