# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a user gets who opens the files of a host's accelerators."""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import typing as t

# What opening a file ended with, beside "opened".
STATES = {
    errno.ENOENT: "missing",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.ENXIO: "no_driver",
    errno.ENODEV: "no_driver",
    errno.EBUSY: "busy",
    errno.EIO: "broken",
}


def files_of(accelerator: t.Mapping[str, t.Any]) -> list[str]:
    """Files through which it is used: by virtual machines the one of its IOMMU group, otherwise its driver's."""
    if accelerator["driver"] == "vfio-pci":
        return [f"/dev/vfio/{accelerator['iommu_group']}"]
    return list(accelerator["device_files"])


def open_all(paths: t.Sequence[str]) -> dict[str, str]:
    """Path to what opening it for reading and writing ended with."""
    found = {}
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
            found[path] = "opened"
        except OSError as error:
            found[path] = STATES.get(error.errno or 0, os.strerror(error.errno or 0))
    return found


def open_all_as(user: str, paths: t.Sequence[str]) -> dict[str, str]:
    """The same as a user with all groups, in a process of its own, as one that gave up its rights can't take them back."""
    account = pwd.getpwnam(user)
    if account.pw_uid == os.geteuid():
        return open_all(paths)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            groups = [group.gr_gid for group in grp.getgrall() if user in group.gr_mem]
            os.setgroups([account.pw_gid, *groups])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            os.write(writer, json.dumps(open_all(paths)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        raise OSError(f"becoming {user} failed")
    return dict(json.loads(text))


def report(accelerators: t.Iterable[t.Mapping[str, t.Any]], opened: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Result per accelerator: its files' states and what is wrong with it."""
    return [
        {
            "pci_address": own["pci_address"],
            "type": own["type"],
            "driver": own["driver"],
            "files": {path: opened[path] for path in files_of(own)},
            "problems": [entry["message"] for entry in own["health"]],
        }
        for own in accelerators
    ]


def errors(who: str, user: str, results: t.Iterable[t.Mapping[str, t.Any]], accepted: t.Sequence[str], count: int) -> list[str]:
    """One sentence per accelerator that the user can't use, or that is sick. count: how many there must be; -1 for one or more."""
    results = list(results)
    found = [f"{who}: {problem}" for result in results for problem in result["problems"]]
    if count >= 0 and len(results) != count:
        found.append(f"{who}: {len(results)} GPUs were found, gpu_burn_in_count says {count}.")
    if count < 0 and not results:
        found.append(f"{who}: no GPU was found; look at `lspci -d 10de:`, or set gpu_burn_in_count to 0 where that is right.")
    for result in results:
        name = f"{who}: {result['pci_address']} ({result['type']})"
        if not result["files"]:
            found.append(f"{name} has no device file: its driver is {result['driver'] or 'not loaded'}.")
        bad = {path: state for path, state in result["files"].items() if state not in accepted}
        if bad:
            found.append(f"{name} can't be opened by {user}: {', '.join(f'{path} {state}' for path, state in bad.items())}.")
    return found
