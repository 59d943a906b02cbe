# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The file from which systemd gives a daemon its environment: pure functions."""

from __future__ import annotations

import re
import typing as t

MARK = "# Made by deephdc.accelerators: changes are lost with its next run.\n"
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")


def text(variables: t.Mapping[str, t.Any]) -> str:
    """Return the text of the file, in the order of the names.

    Values are quoted, as systemd would take some signs out of them.

    :raises ValueError: a name or a value can't stand in it.
    """
    lines = []
    for name in sorted(variables):
        value = str(variables[name])
        if not _NAME.fullmatch(str(name)):
            raise ValueError(f"{name} is no name of an environment variable.")
        if re.search(r"['\r\n\0]", value):
            raise ValueError(f"The environment variable {name} would have a quote or a line break: correct what it is made from.")
        lines.append(f"{name}='{value}'\n")
    return MARK + "".join(lines)


def read(content: str) -> dict[str, str]:
    """The variables of such a file; a line of another form is left out."""
    found = (re.fullmatch(r"([A-Z_][A-Z0-9_]*)='([^']*)'", line) for line in content.splitlines())
    return {line.group(1): line.group(2) for line in found if line}
