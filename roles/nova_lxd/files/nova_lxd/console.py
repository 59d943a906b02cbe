# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server's owner reads as its console, and what is wrong with its GPUs.

LXD gives each line of a running container once, so what was read is kept in a file, from a start to the next. Of a stopped one it
gives all since its last start.
"""

from __future__ import annotations

import contextlib
import os
from typing import Sequence

from .client import NOT_FOUND, Client
from .errors import LXDError

LIMIT = 100 * 1024  # bytes
FILE = "console.log"


def output(client: Client, name: str, running: bool, folder: str, notices: Sequence[str]) -> bytes:
    """Read the end of an instance's console, with the notices below it.

    :arg folder: where the file is kept.
    :raises LXDError: LXD refused it.
    """
    text = _new_lines(client, name)
    if running:
        path = os.path.join(folder, FILE)
        text = (_kept(path) + text)[-LIMIT:]
        os.makedirs(folder, exist_ok=True)
        with open(f"{path}.new", "wb") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    return b"\n".join([text[-LIMIT:], *(f"[host] {notice}".encode() for notice in notices)]) if notices else text[-LIMIT:]


def forget(folder: str) -> None:
    """Begin with an empty console, as LXD does at each start."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, FILE))
    with contextlib.suppress(OSError):  # it has other files
        os.rmdir(folder)


def _kept(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _new_lines(client: Client, name: str) -> bytes:
    try:
        return client.read("instances", name, "console")
    except LXDError as error:
        # LXD 5.0 answers so, with code 500, if there is nothing new, or if the instance has never run.
        if error.code != NOT_FOUND and "no such file or directory" not in str(error):
            raise
        return b""
