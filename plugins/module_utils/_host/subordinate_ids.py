# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Ranges of subuid(5) by a rule, so that each host gives a user the same ones.

Pure functions.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

# The kernel takes ids up to 2^32 - 2, but those from here on are negative numbers to many programs.
LIMIT = 2**31


def ranges(uids: t.Mapping[str, int], first: int, first_uid: int, count: int) -> dict[str, range]:
    """Each user's range, by the user's id."""
    if count < 1 or first < 1:
        raise Refused("The first id and the count of ids must be positive.")
    found = {}
    for user, uid in sorted(uids.items(), key=lambda item: item[1]):
        start = first + (uid - first_uid) * count
        if uid < first_uid:
            raise Refused(f"{user} has the id {uid}, below the smallest one with a range, {first_uid}: lower that, or leave {user} out.")
        if start + count > LIMIT:
            raise Refused(
                f"The range of {user} (id {uid}) would end at {start + count - 1}, beyond {LIMIT - 1}: "
                "raise the smallest id of a user, or lower the first id of the ranges or their size."
            )
        found[user] = range(start, start + count)
    return found


def parse(text: str) -> list[tuple[str, range]]:
    """Owner and range of each line that has one."""
    found = []
    for line in text.splitlines():
        words = line.split(":")
        if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
            found.append((words[0], range(int(words[1]), int(words[1]) + int(words[2]))))
    return found


def overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def with_ranges(text: str, wanted: t.Mapping[str, range], uids: t.Mapping[str, int]) -> str:
    """The file's text with a line for each user who has none yet.

    What stands there is kept, as containers' files belong to those ids.
    """
    present = parse(text)
    owners = {owner for owner, _ids in present}
    missing = {user: ids for user, ids in wanted.items() if not owners & {user, str(uids[user])}}
    for user, ids in missing.items():
        clash = next((owner for owner, others in present if overlap(ids, others)), None)
        if clash is not None:
            raise Refused(f"The range of {user}, {ids.start} to {ids.stop - 1}, overlaps one of {clash}'s: choose another first id.")
    lines = [f"{user}:{ids.start}:{len(ids)}\n" for user, ids in missing.items()]
    return text + ("\n" if lines and text and not text.endswith("\n") else "") + "".join(lines)
