# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Files in a service's own directory are changed as that service.

So no link of it leads root elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import typing as t


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
