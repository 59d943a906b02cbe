# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Configuration as oslo.config reads it: pure functions."""

from __future__ import annotations

import typing as t

MARK = "# Made by deephdc.accelerators: changes are lost with its next run.\n"

Sections = t.Mapping[str, t.Mapping[str, t.Any]]


def merged(*layers: Sections) -> dict[str, dict[str, t.Any]]:
    """Later layers win, key by key."""
    whole: dict[str, dict[str, t.Any]] = {}
    for layer in layers:
        for section, keys in layer.items():
            whole.setdefault(str(section), {}).update(keys)
    return whole


def text(sections: Sections) -> str:
    """Return the text of the file.

    A list is one line for each entry, as options that may be repeated want it. A key with the value None is left out.

    :raises ValueError: a value has a line feed, and would be read as something else.
    """
    lines: list[str] = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        for key, value in keys.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if one is not None:
                    lines.append(_line(section, key, one))
        lines.append("")
    return MARK + "\n".join(lines)


def _line(section: str, key: str, value: t.Any) -> str:
    written = str(value).lower() if isinstance(value, bool) else str(value)
    if "\n" in written:
        raise ValueError(f"The setting {key} in the section {section} has a line feed: write it in one line.")
    return f"{key} = {written}".rstrip()
