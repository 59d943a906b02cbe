# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
# The role slurm_node installs it on nodes, beside address.py and health.py.
"""What NVIDIA's driver has written into the kernel log since the host was booted."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import errno
import os
import re

from .address import canonical_address
from .health import REBOOT, RESET, XIDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Container, Iterable  # absent from Python 2.7

PATH = "/dev/kmsg"
_RECORD_BYTES = 8192  # the kernel's largest
_MAXIMUM_RECORDS = 200000

_AT = r"(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?"
# A MIG instance stands behind the address.
_XID = re.compile(r"NVRM: Xid \(%s(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (\d+)\b(.*)" % _AT)
_INIT = re.compile(r"NVRM: GPU %s: RmInitAdapter failed" % _AT)
_ACTION = re.compile(r"recovery action changed from .* to 0x[0-9a-f]+ \(([^)]*)\)", re.IGNORECASE)
# All before it is of a driver that has been taken out since.
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
# What an administrator writes there after a reset, which has no line of its own: docs/accelerators.md.
_RESET_DONE = re.compile(r"deephdc: reset of GPU %s" % _AT)


def read(path=PATH):
    # type: (str) -> list[str] | None
    """The messages since the host was booted, as many as the kernel has kept.

    None means that there is no such file, or that only root may read it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    found = []  # type: list[str]
    try:
        for _number in range(_MAXIMUM_RECORDS):
            try:
                record = os.read(handle, _RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue  # the kernel wrote over what would have been next
                break  # EAGAIN: that was all
            if not record:
                break
            found.extend(record.decode("utf-8", "replace").splitlines())
    finally:
        os.close(handle)
    # "priority,number,microseconds,flags;message", and lines with details of it, which begin with a blank.
    return [line.split(";", 1)[1] for line in found if ";" in line and not line.startswith(" ")]


def problems(messages, listed=()):
    # type: (Iterable[str], Container[str]) -> dict[str, str]
    """Why GPUs can't be used, a part of a sentence by PCI address.

    :param listed: addresses of GPUs that nvidia-smi lists, so that the driver has started them since.
    """
    errors = {}  # type: dict[str, list[tuple[str, str]]]
    for message in messages:
        # From its beginning: a message may have a user's words in it, such as the name of a program.
        if _LOADED.match(message):
            errors.clear()
        done, xid, init = _RESET_DONE.match(message), _XID.match(message), _INIT.match(message)
        match = done or xid or init
        address = canonical_address(match.group(1) + ".0") if match else None
        if not address:
            continue
        if done:
            errors.pop(address, None)
        elif init and address not in listed:
            _add(errors, address, "that the driver could not start the GPU", RESET)
        elif xid and xid.group(2) == "154":
            action = _ACTION.search(xid.group(3))
            if action and action.group(1) == "None":
                errors.pop(address, None)
            elif action:
                _add(errors, address, "Xid 154 (%s)" % action.group(1), REBOOT if "Reboot" in action.group(1) else RESET)
        elif xid and int(xid.group(2)) in XIDS:
            words, action_of_it = XIDS[int(xid.group(2))]
            _add(errors, address, "Xid %s (%s)" % (xid.group(2), words), action_of_it)
    return {address: _sentence(listed) for address, listed in errors.items()}


def counts_alone(version):
    # type: (str | None) -> bool
    """Whether errors in the log count while nvidia-smi gives no answer.

    A driver from 575 on says itself what a GPU needs. Without its answer, what the log has may be mended by a reset since.

    :param version: of the loaded driver, such as '580.95.05'; empty or None where it is not known.
    """
    major = re.match(r"\d+", version or "")
    return not (major and int(major.group()) >= 575)


def note_reset(address, path=PATH):
    # type: (str, str) -> None
    """Write into the log that a GPU was reset.

    Its earlier errors no longer count then.
    """
    try:
        handle = os.open(path, os.O_WRONLY)
        try:
            os.write(handle, ("deephdc: reset of GPU %s\n" % address).encode("utf-8"))
        finally:
            os.close(handle)
    except OSError:
        pass  # a container has no such log


def _add(errors, address, words, action):
    # type: (dict[str, list[tuple[str, str]]], str, str, str) -> None
    listed = errors.setdefault(address, [])
    if (words, action) not in listed:
        listed.append((words, action))


def _sentence(listed):
    # type: (list[tuple[str, str]]) -> str
    actions = [action for _words, action in listed]
    action = REBOOT if REBOOT in actions else actions[-1]
    return "the kernel log has %s: %s" % (" and ".join(words for words, _action in listed), action)
