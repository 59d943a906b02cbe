# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Note which lines of the collection's plugins run."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import types
import typing as t
from collections.abc import Iterator

from templating import ROOT

Lines = dict[str, set[int]]
PLUGINS = str(ROOT / "plugins")


def own_path(name: str) -> str:
    """Return a path below plugins/ relative to the checkout, else nothing."""
    marker = "ansible_collections/deephdc/accelerators/plugins/"
    if marker in name:
        return f"plugins/{name.partition(marker)[2]}"
    return str(pathlib.Path(name).relative_to(ROOT)) if name.startswith(PLUGINS) else ""


@contextlib.contextmanager
def traced() -> Iterator[Lines]:
    """Fill a dictionary of lines by path while the block runs."""
    found: Lines = {}
    known: dict[str, set[int] | None] = {}

    def lines_of(name: str) -> set[int] | None:
        if name not in known:
            path = own_path(name)
            known[name] = found.setdefault(path, set()) if path else None
        return known[name]

    def in_file(frame: types.FrameType, _event: str, _argument: t.Any) -> t.Any:
        lines = lines_of(frame.f_code.co_filename)
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def line(frame: types.FrameType, event: str, _argument: t.Any) -> t.Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return line

        return line

    before = sys.gettrace()
    sys.settrace(in_file)
    try:
        yield found
    finally:
        sys.settrace(before)
