# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server's owner reads as its console: LXD's record of it, and what is wrong with its GPUs."""

from __future__ import annotations

from typing import Sequence

from .client import NOT_FOUND, Client
from .errors import LXDError

LIMIT = 100 * 1024  # bytes


def output(client: Client, name: str, notices: Sequence[str]) -> bytes:
    """Read the end of an instance's console, with the notices below it.

    :raises LXDError: LXD refused it; an instance that has never run has an empty console.
    """
    try:
        text = client.read("instances", name, "console")[-LIMIT:]
    except LXDError as error:
        if error.code != NOT_FOUND:
            raise
        text = b""
    return b"\n".join([text, *(f"[host] {notice}".encode() for notice in notices)]) if notices else text
