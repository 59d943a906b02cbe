# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What playbooks must have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
PLAYS = [play for play in yaml.safe_load((PLAYBOOKS / "slurm.yml").read_text(encoding="utf-8")) if "hosts" in play]
NO_CHECK = {"site_check.yml", "gpu_simulator.yml"}


@pytest.mark.parametrize("path", sorted(set(PLAYBOOKS.glob("*.yml")) - {PLAYBOOKS / name for name in NO_CHECK}), ids=lambda path: path.stem)
def test_each_playbook_first_checks_groups_and_names_of_variables(path: Path) -> None:
    """Else a misspelt group is 'no hosts matched' and a success, such as a nightly backup without a backup."""
    first = yaml.safe_load(path.read_text(encoding="utf-8"))[0]
    assert first["ansible.builtin.import_playbook"] == "site_check.yml"
    assert first["vars"]["site_check_groups"]


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play["name"])
def test_each_play_of_the_site_can_only_compare(play: dict) -> None:
    """slurm_drift imports these plays and must not change anything by one of them."""
    assert play["check_mode"] == "{{ __slurm_only_compare | default(ansible_check_mode) | bool }}"


@pytest.mark.parametrize("play", PLAYS[1:], ids=lambda play: play["name"])
def test_what_a_play_cannot_compare_does_not_end_the_comparison(play: dict) -> None:
    """The first one makes the plan that all others need."""
    assert play["ignore_errors"] == play["ignore_unreachable"] == "{{ __slurm_only_compare | default(false) | bool }}"
