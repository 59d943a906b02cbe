# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.subordinate_ids import ranges, with_ranges
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

UIDS = {"ada": 1001, "emmy": 1000}
WANTED = ranges(UIDS, first=700000000, first_uid=1000, count=65536)


def test_a_range_follows_from_the_users_id_alone() -> None:
    assert {"emmy": range(700000000, 700065536), "ada": range(700065536, 700131072)} == WANTED
    assert ranges({"ada": 1001}, 700000000, 1000, 65536)["ada"] == WANTED["ada"]


def test_who_has_a_range_keeps_it_by_name_or_number() -> None:
    assert with_ranges("ada:100000:65536\n", WANTED, UIDS) == "ada:100000:65536\nemmy:700000000:65536\n"
    assert with_ranges("1001:100000:65536\n1000:165536:65536\n", WANTED, UIDS) == "1001:100000:65536\n1000:165536:65536\n"


def test_lines_are_added_once_and_after_a_whole_line() -> None:
    text = with_ranges("# by hand", WANTED, UIDS)
    assert text.splitlines() == ["# by hand", "emmy:700000000:65536", "ada:700065536:65536"]
    assert with_ranges(text, WANTED, UIDS) == text


def test_a_range_that_is_anothers_is_refused_by_names() -> None:
    with pytest.raises(Refused, match=r"The range of ada, .* overlaps one of eve's"):
        with_ranges("emmy:1:1\neve:700131071:5\n", WANTED, UIDS)


@pytest.mark.parametrize(("uid", "words"), [(999, "below the smallest one"), (60000, "beyond 2147483647")])
def test_an_id_outside_of_the_rule_is_refused(uid: int, words: str) -> None:
    with pytest.raises(Refused, match=words):
        ranges({"ada": uid}, 700000000, 1000, 65536)
