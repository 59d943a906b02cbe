# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_intake against a scontrol that notes what it is asked for."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_intake
from ansible_collections.deephdc.accelerators.tests.unit.plugins.modules.test_slurm_node_health import line


@pytest.fixture
def intake(run, fake, tmp_path):
    """intake(states of partitions, lines of nodes, option=...) runs the module; the updates are in the key updates."""
    note = tmp_path / "deephdc" / "slurm_closed"

    def run_module(states, *nodes, fails="", **options):
        shown = "\n".join(f"PartitionName={name} AllowGroups=ALL State={state} TotalCPUs=4" for name, state in states.items())
        there = "\n".join(nodes)
        fake(
            "scontrol",
            f"case $3 in partitions) cat <<'END'\n{shown}\nEND\n;; nodes) cat <<'END'\n{there}\nEND\n;; esac\n"
            f'[ "$1" = update ] && [ -n "{fails}" ] && {{ echo "{fails}" >&2; exit 1; }}\nexit 0',
        )
        before = len(fake.calls())
        result = run(slurm_intake, note=str(note), **options)
        updates = [call.partition("update ")[2] for call in fake.calls()[before:] if " update " in call]
        return {**result, "updates": updates, "note": json.loads(note.read_text().splitlines()[1]) if note.exists() else None}

    return run_module


UP = {"all": "UP", "old": "UP", "down": "DOWN"}


def test_what_is_open_is_closed_and_noted(intake):
    result = intake(UP, state="closed", partitions=["old", "down", "gone"])
    # One that is DOWN takes jobs, which wait in it.
    assert (result["closed"], result["updates"]) == (
        ["partition old", "partition down"],
        ["PartitionName=old State=INACTIVE", "PartitionName=down State=INACTIVE"],
    )
    assert result["note"] == {"partition old": "INACTIVE UP", "partition down": "INACTIVE DOWN"}
    again = intake({**UP, "old": "INACTIVE", "down": "INACTIVE"}, state="closed", partitions=["old"], all_partitions=True)
    assert again["updates"] == ["PartitionName=all State=DOWN"]
    assert set(again["note"]) == {"partition old", "partition down", "partition all"}
    opened = intake({"all": "DOWN", "old": "INACTIVE", "down": "INACTIVE"}, state="open")
    assert opened["updates"] == [f"PartitionName={one}" for one in ("old State=UP", "down State=DOWN", "all State=UP")]
    assert opened["note"] is None
    assert intake(UP, state="open")["changed"] is False


def test_a_partition_that_two_killed_runs_closed_has_its_first_state_again(intake):
    assert intake(UP, state="closed", all_partitions=True)["note"] == {"partition all": "DOWN UP", "partition old": "DOWN UP"}
    closed = dict.fromkeys(UP, "DOWN")
    assert intake(closed, state="closed", partitions=["old"])["note"]["partition old"] == "INACTIVE UP"
    opened = intake({**closed, "old": "INACTIVE"}, state="open")
    assert sorted(opened["updates"]) == ["PartitionName=all State=UP", "PartitionName=old State=UP"]


def test_a_node_that_slurmctld_does_not_hear_of_is_drained_as_it_returns_by_itself(intake):
    nodes = [line("gpu1", "DOWN*", "Not responding"), line("gpu2", "DOWN", "RAM broken")]
    result = intake(UP, *nodes, state="closed", nodes=["gpu1", "gpu2"])
    assert result["updates"] == [f"NodeName=gpu1 State=DRAIN Reason={slurm_intake.REASON}"]


def test_nodes_are_drained_and_come_back_unless_somebody_else_has_a_reason(intake):
    nodes = [line("gpu1"), line("gpu2", "IDLE+DRAIN", "fan"), line("gpu3")]
    result = intake(UP, *nodes, state="closed", nodes=["gpu1", "gpu2", "gpu3", "gpu4"])
    assert result["updates"] == [f"NodeName={name} State=DRAIN Reason={slurm_intake.REASON}" for name in ("gpu1", "gpu3")]
    there = [line("gpu1", "IDLE+DRAIN", slurm_intake.REASON), line("gpu3", "IDLE+DRAIN", "fan")]
    result = intake(UP, *there, state="open")
    assert result["updates"] == ["NodeName=gpu1 State=RESUME"] and result["note"] is None


def test_a_node_that_is_away_already_is_neither_closed_nor_opened(intake):
    nodes = [line("gpu1", "DOWN", "fan"), line("gpu2", "IDLE+FAIL", "fan")]
    result = intake(UP, *nodes, state="closed", nodes=["gpu1", "gpu2"])
    assert (result["changed"], result["updates"], result["note"]) == (False, [], None)


@pytest.mark.parametrize("more", ["new fan", "gpu_hold: nvidia_driver"])
def test_a_node_that_was_taken_away_since_a_killed_run_keeps_that_reason(intake, more):
    intake(UP, line("gpu1"), state="closed", nodes=["gpu1"])
    result = intake(UP, line("gpu1", "IDLE+DRAIN", f"{more} + {slurm_intake.REASON}"), state="open")
    assert result["updates"] == [f"NodeName=gpu1 Reason={more}"] and result["note"] is None


def test_what_an_administrator_did_meanwhile_stays(intake):
    intake(UP, state="closed", partitions=["old"])
    assert intake({"all": "UP", "old": "DRAIN"}, state="open")["updates"] == []
    intake(UP, state="closed", partitions=["old"])
    assert intake({"all": "UP"}, state="open")["updates"] == []


def test_check_mode_closes_and_notes_nothing(intake):
    result = intake(UP, state="closed", partitions=["old"], _ansible_check_mode=True)
    assert result["changed"] and result["updates"] == [] and result["note"] is None
    intake(UP, state="closed", partitions=["old"])
    result = intake({"old": "INACTIVE"}, state="open", _ansible_check_mode=True)
    assert result["changed"] and result["updates"] == [] and result["note"]


def test_a_refusal_of_slurmctld_leaves_the_note(intake):
    result = intake(UP, state="closed", partitions=["old"], fails="slurm_update error: Access denied")
    assert result["failed"] and "Access denied" in result["msg"] and result["note"] == {"partition old": "INACTIVE UP"}


def test_a_note_that_cannot_be_read_is_not_taken_for_none(intake, tmp_path):
    (tmp_path / "deephdc").mkdir()
    (tmp_path / "deephdc" / "slurm_closed").write_text("# x\n{")
    with pytest.raises(ValueError, match="Expecting"):
        slurm_intake.read_note(str(tmp_path / "deephdc" / "slurm_closed"))
