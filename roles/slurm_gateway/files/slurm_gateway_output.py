# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Say whether an account is open, and read a part of a job's output.

It reads as the user whose job it was.
It runs as root for one request on standard input, from a socket that only the gateway reaches.
It gives up everything but that user's rights before it looks at a path.
So a link, or a path that leads elsewhere, shows a user no more than what that user can read anyway.

Request, one line of JSON: account, path, offset. Answer: one line of JSON, with size or with error, and the bytes.
With an account alone the answer is that line, without size.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import stat
import sys
import typing as t

import gateway_accounts

REQUEST_LIMIT = 16 * 1024
# Bytes of one answer.
PART = 1024 * 1024
PATH = re.compile(r"/(?:.*/)?slurm-[0-9]+\.out", re.DOTALL)


# A file in /etc/pam.d of the role's.
PAM_SERVICE = b"slurm-gateway"
# _pam_types.h: success, and an account that is open but must choose a new password, which a token does not need.
PAM_SILENT, PAM_OPEN = 0x8000, (0, 12)


class Unreadable(Exception):
    """One sentence that may be shown to the job's user."""


class Conversation(ctypes.Structure):
    """pam_conv(3) without a function: there is no user to ask."""

    _fields_ = (("function", ctypes.c_void_p), ("data", ctypes.c_void_p))


def is_open(name: str) -> bool:
    """Return whether the host lets that account in today, by PAM's account phase.

    It does not let in an account that expired.
    """
    pam = ctypes.CDLL("libpam.so.0")
    handle, nobody = ctypes.c_void_p(), Conversation()
    if pam.pam_start(PAM_SERVICE, name.encode(), ctypes.byref(nobody), ctypes.byref(handle)) != 0:
        return False
    answer = pam.pam_acct_mgmt(handle, PAM_SILENT)
    pam.pam_end(handle, answer)
    return answer in PAM_OPEN


def become(account: gateway_accounts.Account) -> None:
    """Be that user for good."""
    os.initgroups(account.name, account.gid)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise OSError("the user's rights could not be taken")


def part(path: str, offset: int) -> tuple[int, bytes]:
    """Size of a file and a part of it."""
    try:
        # Neither a link in the place of the file nor a pipe without a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise Unreadable(f"The job's output can't be read on the gateway's host: {error.strerror}.") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("The job's output is no plain file.")
        return found.st_size, os.pread(handle, PART, offset)
    finally:
        os.close(handle)


def answer(line: bytes, switch: t.Callable[[gateway_accounts.Account], None]) -> tuple[dict[str, t.Any], bytes]:
    try:
        wanted = json.loads(line)
        account = gateway_accounts.local(str(wanted["account"]))
        if not is_open(account.name):
            raise gateway_accounts.Refused("The account that your identity is mapped to is closed on this host.")
        if set(wanted) == {"account"}:
            return {}, b""
        path, offset = wanted["path"], wanted["offset"]
        if (
            not isinstance(path, str)
            or not PATH.fullmatch(path)
            or "\0" in path
            or not isinstance(offset, int)
            or not 0 <= offset < 1 << 62
        ):
            raise Unreadable("That is no path of a job's output.")
        switch(account)
        size, content = part(path, offset)
    except (Unreadable, gateway_accounts.Refused) as reason:
        return {"error": str(reason)}, b""
    except (ValueError, KeyError, TypeError):
        return {"error": "The request can't be read."}, b""
    return {"size": size}, content


def main() -> None:
    head, content = answer(sys.stdin.buffer.readline(REQUEST_LIMIT), become)
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + content)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
