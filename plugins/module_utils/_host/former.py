# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The file that a daemon ran with, kept beside the new one.

It goes when the daemon was seen to run with the new one. A run that is killed in between leaves it to the next one.
"""

from __future__ import annotations

import contextlib
import os

from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory


def kept_as(name: str) -> str:
    """The name in the same directory.

    It is hidden, and has not the ending by which daemons read whole directories.
    """
    return f".{name}.former"


def keep(path: str) -> None:
    """Keep a file under a second name.

    What was kept before stays: it is what the daemon ran with.
    """
    with contextlib.suppress(FileExistsError, FileNotFoundError), safe_directory.opened(os.path.dirname(path)) as directory:
        name = os.path.basename(path)
        os.link(name, kept_as(name), src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)


def bring_back(path: str) -> bool:
    """Put the former file in its place again, if there is one; whether there was."""
    with contextlib.suppress(FileNotFoundError), safe_directory.opened(os.path.dirname(path)) as directory:
        name = os.path.basename(path)
        os.rename(kept_as(name), name, src_dir_fd=directory, dst_dir_fd=directory)
        return True
    return False


def forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError), safe_directory.opened(os.path.dirname(path)) as directory:
        os.unlink(kept_as(os.path.basename(path)), dir_fd=directory)
