# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a user gets who opens the files of a host's accelerators."""

from __future__ import annotations

import errno
import functools
import grp
import json
import os
import pwd
import select
import signal
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu_check import cuda

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
    """Return the files through which an accelerator is used.

    Virtual machines use the one of its IOMMU group, all others use those of its driver.
    """
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


def as_user(user: str, action: t.Callable[[], t.Any], seconds: float = 60.0) -> t.Any:
    """Return what an action gives that a user with all groups does.

    It runs in its own process, as one that gave up its rights can't take them back.

    :param action: gives what JSON can hold.
    :raises OSError: the process ended without a result, or did not end in time: a driver may hang for good.
    """
    account = pwd.getpwnam(user)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            # A child that hangs in a driver must not hold the module's output open; nor may a library write into it.
            with open(os.devnull, "r+b", buffering=0) as nothing:
                for number in (0, 1, 2):
                    os.dup2(nothing.fileno(), number)
            if account.pw_uid != os.geteuid():
                groups = [group.gr_gid for group in grp.getgrall() if user in group.gr_mem]
                os.setgroups([account.pw_gid, *groups])
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
            os.write(writer, json.dumps(action()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        is_told = bool(select.select([stream], [], [], seconds)[0])
        if not is_told:
            os.kill(child, signal.SIGKILL)  # one that waits for a driver ends when that lets it, so it is not waited for
            raise OSError(f"it did not end within {seconds:.0f} s")
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        raise OSError(f"as {user} it ended without a result")
    return json.loads(text)


def open_all_as(user: str, paths: t.Sequence[str]) -> dict[str, str]:
    """Path to what opening it as a user ended with."""
    return dict(as_user(user, lambda: open_all(paths)))


def compute_all_as(
    user: str, accelerators: t.Iterable[t.Mapping[str, t.Any]], opened: t.Mapping[str, str], in_use: t.Container[str]
) -> dict[str, str]:
    """Return what a small computation ended with, by PCI address.

    It runs on NVIDIA's GPUs that the user can open whole, and on no GPU without the library.

    :param in_use: PCI addresses of those in use. They are left alone, as a computation takes memory that a job may need.
    """
    if cuda.library() is None:
        return {}
    found = {}
    for own in accelerators:
        is_whole = own["driver"] in NVIDIA.drivers and not (own.get("mig") or {}).get("enabled")
        if is_whole and files_of(own) and all(opened[path] == "opened" for path in files_of(own)):
            if own["pci_address"] in in_use:
                found[own["pci_address"]] = cuda.BUSY
                continue
            compute = functools.partial(cuda.compute, own["pci_address"])
            try:
                found[own["pci_address"]] = as_user(user, compute, 120.0)
            except OSError as error:
                found[own["pci_address"]] = str(error)
    return found


def report(
    accelerators: t.Iterable[t.Mapping[str, t.Any]], opened: t.Mapping[str, str], computed: t.Mapping[str, str]
) -> list[dict[str, t.Any]]:
    """Return the result for each accelerator.

    It has the states of its files, what a computation ended with (None without one), and what is wrong with it.
    """
    return [
        {
            "pci_address": own["pci_address"],
            "type": own["type"],
            "driver": own["driver"],
            "files": {path: opened[path] for path in files_of(own)},
            "computation": computed.get(own["pci_address"]),
            "problems": [entry["message"] for entry in own["health"]],
        }
        for own in accelerators
    ]


def errors(who: str, user: str, results: t.Iterable[t.Mapping[str, t.Any]], accepted: t.Sequence[str], count: int) -> list[str]:
    """One sentence per accelerator that the user can't use, or that is sick.

    count: how many there must be; -1 for one or more.
    """
    results = list(results)
    found = [f"{who}: {problem}" for result in results for problem in result["problems"]]
    if count >= 0 and len(results) != count:
        found.append(f"{who}: {len(results)} GPUs were found, gpu_check_count says {count}.")
    if count < 0 and not results:
        found.append(f"{who}: no GPU was found; look at `lspci -d {NVIDIA.pci_id}:`, or set gpu_check_count to 0 where that is right.")
    for result in results:
        name = f"{who}: {result['pci_address']} ({result['type']})"
        if not result["files"]:
            found.append(f"{name} has no device file: its driver is {result['driver'] or 'not loaded'}.")
        bad = {path: state for path, state in result["files"].items() if state not in accepted}
        if bad:
            found.append(f"{name} can't be opened by {user}: {', '.join(f'{path} {state}' for path, state in bad.items())}.")
        if result["computation"] not in (None, cuda.COMPUTED, cuda.BUSY):
            found.append(f"{name} does not compute for {user}: {result['computation']}.")
    return found
