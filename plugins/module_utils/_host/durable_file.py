# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that the next boot, or the next run, depends on."""

from __future__ import annotations

import json
import os
import typing as t


def replace(path: str, text: str) -> None:
    """Write a file in one step.

    A killed run or a lost power supply leaves the old or the new one.
    """
    directory, name = os.path.split(path)
    os.makedirs(directory, exist_ok=True)
    # In the same file system, under a name that nothing reads that looks for names of its own.
    temporary = os.path.join(directory, f".{name}.new")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def noted(path: str) -> dict[str, t.Any]:
    """What a module noted as its own; nothing where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}


def note(path: str, entries: t.Mapping[str, t.Any]) -> None:
    """Note what is a module's own; nothing leaves no file."""
    if entries:
        replace(path, json.dumps(entries, indent=1, sort_keys=True) + "\n")
    elif os.path.lexists(path):
        os.unlink(path)
