# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Files in a directory of a service, read by root.

A link in the place of such a file would lead root elsewhere, and a pipe would keep it waiting.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def opened(path: str, owner: str = "") -> t.Iterator[t.IO[bytes]]:
    """Yield a file, opened with its service's rights, or else by no link of others.

    It raises OSError, UnsafeLink, and ValueError where something else than a file is there.
    owner: the service's account.
    """
    try:
        if owner:
            with as_user(owner):
                handle = os.open(path, FLAGS)
        else:
            with safe_directory.opened(os.path.dirname(path)) as directory:
                handle = os.open(os.path.basename(path), FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("{0} is a link".format(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("{0} is no file".format(path))
    with os.fdopen(handle, "rb") as file:
        yield file


def check_room(path: str, file: t.IO[bytes], directory: str) -> None:
    """Refuse a file whose copy would fill a file system of root's.

    A file with holes may have any size.

    :raises ValueError: there is no room for it.
    """
    size, free = os.fstat(file.fileno()).st_size, shutil.disk_usage(directory).free
    if size > free:
        raise ValueError("{0} has {1} bytes, and {2} has room for {3}".format(path, size, directory, free))


def copy(path: str, target: str, owner: str) -> None:
    """Copy content, mode and time of a service's file to a directory of root's."""
    with opened(path, owner) as source:
        check_room(path, source, os.path.dirname(target))
        with open(target, "wb") as file:
            shutil.copyfileobj(source, file)
            found = os.fstat(source.fileno())
            os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
