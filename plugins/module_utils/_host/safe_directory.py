# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Directories that root writes into although a service's user may own them.

No link of that user leads root elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import typing as t

LINKS = 40  # as many as Linux follows


class UnsafeLink(Exception):
    """A part of the path is a link that another user than root can make.

    The text says so in one sentence.
    """


def trusted(directory: os.stat_result, link: os.stat_result) -> bool:
    """Whether only root, or who runs this, can have made a link in a directory."""
    ours = (0, os.geteuid())
    shared = directory.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return directory.st_uid in ours and (not shared or (bool(directory.st_mode & stat.S_ISVTX) and link.st_uid in ours))


@contextlib.contextmanager
def opened(path: str, make: bool = False) -> t.Iterator[int]:
    """Yield a descriptor of a directory of an absolute path, for dir_fd.

    It raises OSError and UnsafeLink.
    make: make the directories that are missing, for root and readable by all.
    """
    handle = walk(path, make)
    try:
        yield handle
    finally:
        os.close(handle)


def walk(path: str, make: bool) -> int:
    handle = os.open("/", os.O_PATH | os.O_DIRECTORY)
    left, links = path.split("/"), 0
    try:
        while left:
            name = left.pop(0)
            if name in ("", "."):
                continue
            try:
                handle = step(handle, name)
            except FileNotFoundError as error:
                if not make:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=handle)
                left.insert(0, name)
            except NotADirectoryError as error:
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                links += 1
                if not stat.S_ISLNK(found.st_mode) or links > LINKS:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error
                if not trusted(os.fstat(handle), found):
                    raise UnsafeLink(
                        f"{name} in the path {path} is a link that another user than root can change: give the path that it leads to"
                    ) from error
                target = os.readlink(name, dir_fd=handle)
                if target.startswith("/"):
                    handle = step(handle, "/")
                left[:0] = target.split("/")
    except BaseException:
        os.close(handle)
        raise
    return handle


def step(handle: int, name: str) -> int:
    """Go on to a directory, and close the one before."""
    try:
        found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name) from error
        raise
    os.close(handle)
    return found


def give(path: str, owner: int, group: int, mode: int, make: bool = False) -> None:
    """Set owner and mode of a directory.

    A link in its place is refused, wherever it leads.
    """
    with opened(os.path.dirname(path), make) as parent:
        name = os.path.basename(path)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
        try:
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise UnsafeLink(f"{path} is a link: give the path of the directory itself") from error
            raise
        try:
            os.fchown(handle, owner, group)
            os.fchmod(handle, mode)
        finally:
            os.close(handle)
