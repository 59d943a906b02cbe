# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module slurm_node_health against a scontrol that notes what it is asked for."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import sacctmgr
from ansible_collections.deephdc.accelerators.plugins.modules import slurm_node_health

MISSING = "a100 at 0000:02:00.0 (/dev/nvidia1) is missing"


def line(name, state="IDLE", reason="", tail=""):
    """A node as scontrol --oneliner prints it, shortened."""
    start = f"NodeName={name} Arch=x86_64 CoresPerSocket=16  CPUAlloc=0 Gres=gpu:a100:2 NodeAddr=10.0.0.1 State={state} ThreadsPerCore=2"
    return start + (f" Reason={reason} [root@2026-11-21T10:00:00]" if reason else "") + tail


def test_state_and_reason_of_each_node():
    output = "\n".join([line("gpu1"), line("gpu2", "IDLE+DRAIN", f"accelerators: {MISSING}"), "", "No node matches"])
    assert slurm_node_health.parse(output) == {
        "gpu1": {"state": "IDLE", "reason": ""},
        "gpu2": {"state": "IDLE+DRAIN", "reason": f"accelerators: {MISSING}"},
    }
    assert slurm_node_health.parse("") == {}


@pytest.mark.parametrize(
    "tail", ["", " ", " Comment=new board", " Extra=x", " ReservationName=maint", " Comment=a Extra=b ReservationName=c"]
)
def test_reason_ends_where_the_next_field_begins(tail):
    reason = "fan [left] of bob@example is loud, see Comment"
    assert slurm_node_health.parse(line("gpu1", "DOWN*+DRAIN", reason, tail))["gpu1"] == {"state": "DOWN*+DRAIN", "reason": reason}


def test_reason_without_who_and_when():
    assert slurm_node_health.parse("NodeName=a State=DOWN Reason=Not responding")["a"]["reason"] == "Not responding"
    assert slurm_node_health.parse("NodeName=a State=DOWN Reason=Not responding Comment=x")["a"]["reason"] == "Not responding"


@pytest.mark.parametrize(
    ("reason", "is_ours"),
    [
        (f"accelerators: {MISSING}", True),
        ("gres/gpu count reported lower than configured (1 < 2)", True),
        ("gres/shard count reported lower than configured (0 < 4)", True),
        ("fan is loud", False),
        ("see accelerators: mailing list", False),
        ("Not responding", False),
        ("", False),
    ],
)
def test_reasons_that_may_be_taken_back(reason, is_ours):
    assert slurm_node_health.ours({"reason": reason}) is is_ours


@pytest.mark.parametrize(
    ("state", "heard"),
    [("IDLE", True), ("MIXED+DRAIN", True), ("ALLOCATED", True), ("IDLE*", False), ("UNKNOWN", False), ("DOWN+NOT_RESPONDING", False)],
)
def test_nodes_the_controller_has_heard_of(state, heard):
    nodes = {"gpu1": {"state": state, "reason": ""}}
    assert slurm_node_health.missing(nodes, ["gpu1", "gpu2"]) == (["gpu2"] if heard else ["gpu1", "gpu2"])


@pytest.fixture
def nodes(run, fake):
    """nodes(lines, unfit=..., fit=...) runs the module.

    Its result has the updates asked for in the key updates.
    """

    def run_module(*told, refuses="", **options):
        text = "\n".join(told)
        refusal = f"echo '{refuses}' >&2; exit 1" if refuses else "exit 0"
        fake("scontrol", f"if [ $1 = --oneliner ]; then cat <<'END'\n{text}\nEND\nexit 0\nfi\n{refusal}")
        before = len(fake.calls())
        result = run(slurm_node_health, **options)
        return {**result, "updates": [call for call in fake.calls()[before:] if "update" in call]}

    return run_module


def test_unfit_node_is_drained_with_its_reason(nodes):
    result = nodes(line("gpu1"), line("gpu2"), unfit={"gpu1": MISSING}, fit=["gpu2"])
    assert (result["changed"], result["drained"], result["resumed"]) == (True, ["gpu1"], [])
    assert result["updates"] == [f"scontrol update NodeName=gpu1 State=DRAIN Reason=accelerators: {MISSING}"]
    assert result["diff"] == {"before": "gpu1 IDLE \n", "after": f"gpu1 DRAIN accelerators: {MISSING}\n"}


@pytest.mark.parametrize("reason", [f"accelerators: {MISSING}", "gres/gpu count reported lower than configured (1 < 2)"])
def test_recovered_node_is_resumed(nodes, reason):
    result = nodes(line("gpu1", "IDLE+DRAIN", reason), fit=["gpu1"])
    assert (result["changed"], result["resumed"], result["updates"]) == (True, ["gpu1"], ["scontrol update NodeName=gpu1 State=RESUME"])


@pytest.mark.parametrize(
    ("state", "reason", "asked_again"),
    [
        ("DOWN*", "Not responding", True),
        ("DOWN+NOT_RESPONDING", "Not responding", True),
        ("IDLE*", "", False),
        ("DOWN", "Not responding", False),
        ("DOWN*", "fan is loud", False),
        ("DOWN*+DRAIN", "Not responding", False),
    ],
)
def test_a_node_that_slurmctld_asks_no_more_is_resumed(nodes, state, reason, asked_again):
    result = nodes(line("gpu1", state, reason), fit=["gpu1"])
    assert result["updates"] == (["scontrol update NodeName=gpu1 State=RESUME"] if asked_again else [])


def test_what_a_person_drained_stays_drained(nodes):
    result = nodes(line("gpu1", "IDLE+DRAIN", "fan is loud"), line("gpu2", "MIXED+DRAIN", "mine"), unfit={"gpu2": MISSING}, fit=["gpu1"])
    assert (result["changed"], result["updates"]) == (False, [])


def test_a_persons_reason_for_down_stays_beside_a_lost_gpu(nodes):
    """The GPU came back, and a host with broken memory was in service again."""
    result = nodes(line("gpu1", "DOWN", "RAM broken"), unfit={"gpu1": MISSING})
    assert result["updates"] == [f"scontrol update NodeName=gpu1 State=DRAIN Reason=RAM broken + accelerators: {MISSING}"]
    assert nodes(line("gpu1", "DOWN+DRAIN", f"RAM broken + accelerators: {MISSING}"), fit=["gpu1"])["updates"] == []


def test_drained_node_is_not_drained_again(nodes):
    told = line("gpu1", "IDLE+DRAIN", f"accelerators: {MISSING}")
    assert nodes(told, unfit={"gpu1": MISSING})["changed"] is False
    assert nodes(told, unfit={"gpu1": MISSING}, fit=["gpu1"])["updates"] == [], "unfit comes before fit"


def test_nodes_the_controller_does_not_know_are_passed_over(nodes):
    assert nodes(line("gpu1"), unfit={"gpu7": MISSING}, fit=["gpu8"])["changed"] is False


def test_check_mode_predicts(nodes, monkeypatch):
    monkeypatch.setattr(sacctmgr, "CONFIGURATION", __file__)
    told = [line("gpu1"), line("gpu2", "IDLE+DRAIN", f"accelerators: {MISSING}")]
    result = nodes(*told, unfit={"gpu1": MISSING}, fit=["gpu2"], _ansible_check_mode=True)
    assert (result["changed"], result["drained"], result["resumed"], result["updates"]) == (True, ["gpu1"], ["gpu2"], [])


@pytest.mark.parametrize("program", [None, "/usr/bin/scontrol"], ids=["not installed", "installed, not configured"])
def test_check_mode_before_the_first_run(run, monkeypatch, tmp_path, program):
    monkeypatch.setattr(slurm_node_health.AnsibleModule, "get_bin_path", lambda *_arguments: program)
    monkeypatch.setattr(sacctmgr, "CONFIGURATION", str(tmp_path / "slurm.conf"))
    result = run(slurm_node_health, unfit={"gpu1": MISSING}, _ansible_check_mode=True)
    assert result["changed"] is False and result["nodes"] == {}


def test_node_that_does_not_register_is_named(nodes):
    result = nodes(line("gpu1", "UNKNOWN*"), line("gpu2"), fit=["gpu1", "gpu2"], registered_within=0.5)
    assert result["failed"] and result["msg"].startswith("The controller has not heard of gpu1: look at 'journalctl -u slurmd' there")


def test_nobody_waits_unless_asked_to(nodes):
    assert "failed" not in nodes(line("gpu1", "UNKNOWN*"), fit=["gpu1"])


def test_what_the_controller_refuses_is_told(nodes, run, fake):
    result = nodes(line("gpu1"), unfit={"gpu1": MISSING}, refuses="slurm_update error: Access denied")
    assert result["msg"] == "the controller refuses State=DRAIN for gpu1: slurm_update error: Access denied"
    fake("scontrol", "echo 'Unable to contact\nslurm controller' >&2; exit 1")
    assert run(slurm_node_health)["msg"] == "the controller does not tell its nodes: Unable to contact slurm controller"
