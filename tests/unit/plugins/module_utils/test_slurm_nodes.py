# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator may do with a node in each of SLURM's states."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import nodes as slurm_nodes

GROUPS = {"slurm_nodes": ["gpu1", "gpu2", "gpu10"], "rack1": ["gpu10", "gpu1"], "empty": [], "slurm_logins": ["login"]}


def node(state, reason=""):
    return {"state": state, "reason": reason}


@pytest.mark.parametrize(
    "state", ["IDLE", "MIXED", "ALLOCATED", "IDLE+CLOUD+POWERED_DOWN", "IDLE+POWERING_UP", "IDLE+MAINTENANCE+RESERVED"]
)
def test_nodes_in_service(state):
    assert slurm_nodes.in_service(node(state))


@pytest.mark.parametrize(
    "state", ["IDLE+DRAIN", "DOWN", "DOWN*+DRAIN", "IDLE+FAIL", "IDLE*", "DOWN+NOT_RESPONDING", "UNKNOWN", "IDLE+INVALID_REG"]
)
def test_nodes_that_take_no_jobs(state):
    assert not slurm_nodes.in_service(node(state))


def test_a_node_that_power_saving_stopped_is_not_missed():
    assert not slurm_nodes.unheard(node("IDLE+CLOUD+POWERED_DOWN"))


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN", "MIXED+DRAIN", "IDLE+FAIL", "IDLE+DRAIN+CLOUD+POWERED_DOWN"])
def test_can_be_resumed(state):
    assert slurm_nodes.obstacle("gpu1", node(state, "fan"), "") == ""


@pytest.mark.parametrize(
    ("state", "unfit", "cause"),
    [
        ("IDLE+DRAIN", "t4 at 0000:02:00.0 is missing", "t4 at 0000:02:00.0 is missing: repair it"),
        ("IDLE+DRAIN+INVALID_REG", "", "SLURM finds other hardware there than the configuration has (gres/gpu count)"),
        ("DOWN*+DRAIN", "", "the controller does not hear of it"),
        ("DOWN+DRAIN+NOT_RESPONDING", "", "the controller does not hear of it"),
        ("UNKNOWN", "", "the controller does not hear of it"),
        ("IDLE+DRAIN+REBOOT_REQUESTED", "", "a reboot of it is pending"),
    ],
)
def test_what_keeps_a_node_from_being_resumed_is_one_sentence(state, unfit, cause):
    sentence = slurm_nodes.obstacle("gpu1", node(state, "gres/gpu count"), unfit)
    assert sentence.startswith(f"gpu1 stays as it is, because {cause}")
    assert sentence.endswith(".") and "\n" not in sentence


@pytest.mark.parametrize(
    ("reason", "complaint"),
    [
        ("new fan", None),
        ("", "is not set"),
        (None, "is not set"),
        ("  ", "is not set"),
        ("two\nlines", "must be one line"),
        ("accelerators: gone", "begins like the reasons that the playbook slurm takes back by itself"),
        ("gres/gpu count is odd", "begins like the reasons"),
        (" gpu_hold: mine", "has 'gpu_hold:' in it, by which the role gpu_hold knows the nodes that it holds"),
        ("x + gpu_hold: mine", "has 'gpu_hold:' in it, by which the role gpu_hold knows the nodes that it holds"),
    ],
)
def test_reasons(reason, complaint):
    errors = slurm_nodes.reason_errors("slurm_drain_reason", reason)
    assert [complaint in error for error in errors] == ([] if complaint is None else [True])


@pytest.mark.parametrize(
    ("wanted", "hosts"),
    [
        ("gpu[1-2]", ["gpu1", "gpu2"]),
        (["rack1", "gpu2"], ["gpu1", "gpu2", "gpu10"]),
        ("gpu2,gpu10", ["gpu2", "gpu10"]),
        ("rack1", ["gpu1", "gpu10"]),
    ],
)
def test_hosts_groups_and_host_lists(wanted, hosts):
    assert slurm_nodes.selection("v", wanted, GROUPS, GROUPS["slurm_nodes"], limited=False) == (hosts, [])


def test_limit_alone_chooses_its_hosts():
    assert slurm_nodes.selection("v", [], GROUPS, ["gpu2"], limited=True) == (["gpu2"], [])


@pytest.mark.parametrize(
    ("wanted", "in_play", "limited", "complaint"),
    [
        ([], ["gpu1", "gpu2"], False, "v is not set"),
        ("gpu7", ["gpu1"], False, "v names gpu7, which is not in slurm_nodes: use the names of the inventory."),
        ("slurm_logins", ["gpu1"], False, "v names login, which is not in slurm_nodes: use the names of the inventory."),
        ("gpu2", ["gpu1"], True, "v names gpu2, which --limit leaves out."),
        ("empty", ["gpu1"], True, "v stands for no host."),  # and not for all of them
        ("gpu[1", ["gpu1"], False, "v: The host list"),
        ({"gpu1": 1}, ["gpu1"], False, "v must be a list"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wanted, in_play, limited, complaint):
    (error,) = slurm_nodes.selection("v", wanted, GROUPS, in_play, limited)[1]
    assert error.startswith(complaint)


def test_jobs_and_until_when():
    jobs = slurm_nodes.parse_jobs("17|ada|gpu[1-2]|2026-11-21T17:06:17\n18_3|eve|gpu1|UNLIMITED\n19|bob||N/A\n")
    assert [slurm_nodes.job_sentence(job) for job in jobs] == [
        "job 17 of ada on gpu1, gpu2 until 2026-11-21T17:06:17 at the latest",
        "job 18_3 of eve on gpu1 without a time limit",
    ]
