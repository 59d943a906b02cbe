# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Values that an operator wrote, as names and in sentences: pure functions."""

from __future__ import annotations

import typing as t


def text_of(value: t.Any) -> str:
    """Take a name as text; YAML reads 1 as a number, but no and null are no names."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def shown(value: t.Any) -> str:
    """Show a value in a sentence, in short form.

    What is no single value is shown without its content.
    """
    if isinstance(value, (str, int, float, bool)) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    # Not by the type's name: ansible-core 2.19 and later have their own lists and dictionaries.
    if isinstance(value, (list, tuple)):
        return "a list"
    return "a dictionary" if isinstance(value, t.Mapping) else f"a {type(value).__name__}"
