# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What playbooks must have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
PLAYS = yaml.safe_load((PLAYBOOKS / "slurm.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play["name"])
def test_each_play_of_the_site_can_only_compare(play: dict) -> None:
    """slurm_drift imports these plays and must not change anything by one of them."""
    assert play["check_mode"] == "{{ __slurm_only_compare | default(ansible_check_mode) | bool }}"


@pytest.mark.parametrize("play", PLAYS[1:], ids=lambda play: play["name"])
def test_what_a_play_cannot_compare_does_not_end_the_comparison(play: dict) -> None:
    """The first one makes the plan that all others need."""
    assert play["ignore_errors"] == play["ignore_unreachable"] == "{{ __slurm_only_compare | default(false) | bool }}"
