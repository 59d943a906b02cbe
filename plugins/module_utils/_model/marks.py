# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Several marks in the one reason that a manager keeps of a host: pure functions.

Each has its own beginning, such as "drained: ", and who gives the host back takes away the own one alone.
"""

from __future__ import annotations

import re
from typing import Iterable, List

BETWEEN = " + "


def split(reason: str, beginnings: Iterable[str]) -> List[str]:
    """Return the marks in a reason; a text that begins with none of them is one mark."""
    return [part for part in re.split(r" \+ (?=" + "|".join(map(re.escape, beginnings)) + ")", reason) if part]


def has(reason: str, beginning: str, beginnings: Iterable[str]) -> bool:
    return any(part.startswith(beginning) for part in split(reason, beginnings))


def add(reason: str, mark: str, beginnings: Iterable[str], longest: int = 0) -> str:
    """Return a reason with a mark more; one that has a mark of this beginning stays.

    :param longest: characters of a reason; what was there is shortened so that the new mark is whole. 0 for any number.
    """
    known = list(beginnings)
    if any(mark.startswith(one) and has(reason, one, known) for one in known):
        return reason
    if not reason:
        return mark[:longest] if longest else mark
    room = longest - len(BETWEEN) - len(mark) if longest else len(reason)
    return (reason[: max(room, 0)] + BETWEEN + mark)[: longest or None]


def without(reason: str, beginning: str, beginnings: Iterable[str]) -> str:
    """Return a reason without the mark of a beginning."""
    return BETWEEN.join(part for part in split(reason, beginnings) if not part.startswith(beginning))


def text(reason: str, beginning: str, beginnings: Iterable[str]) -> str:
    """Return what a mark says after its beginning, empty without that mark."""
    return next((part[len(beginning) :] for part in split(reason, beginnings) if part.startswith(beginning)), "")
