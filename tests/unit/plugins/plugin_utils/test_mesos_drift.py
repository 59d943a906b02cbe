# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a report of differences has: each thing that is wrong, and nothing that is right."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import drift, manager

MEMBERS = ["m1", "gpu1"]
PLAN: dict[str, t.Any] = {"lost": []}
OFFERED = {"failed": False, "offered": ["gpu1: 2 GPUs of 2, 1 in use"]}


def reported(results: t.Any = None, plan: t.Any = "planned", in_play: t.Any = None, offered: t.Any = None) -> dict[str, t.Any]:
    given = {host: {} for host in MEMBERS} if results is None else results
    return drift.report(
        given,
        MEMBERS,
        MEMBERS if in_play is None else in_play,
        "m1",
        PLAN if plan == "planned" else plan,
        OFFERED if offered is None else offered,
    )


def test_nothing_differs() -> None:
    found = reported()
    assert (found["differs"], found["complete"], found["summary"], found["compared"]) == (False, True, [], MEMBERS)


def test_what_a_run_would_change_is_named_once() -> None:
    written = {"changed": True, "paths": ["/etc/default/mesos-agent"], "diff": {"before": "a\n", "after": "b\n"}}
    results = {
        "m1": {"__mesos_cluster_recorded": {"changed": True, "paths": ["/x"]}, "other": {"changed": True, "paths": ["/y"]}},
        "gpu1": {
            "__mesos_agent_written": written,
            "__mesos_agent_running": {"changed": True, "name": "mesos-agent", "reasons": ["its file is newer"]},
            "__zookeeper_installed": {"changed": True, "stdout": "Inst zookeeper (3.8.0)\n"},
            "__mesos_cluster_recorded": {"changed": True, "paths": ["/x"]},
            "__mesos_agent_skipped": {"changed": True, "skipped": True},
        },
    }
    found = reported(results)
    assert found["differs"] and found["complete"]
    assert found["summary"] == [
        "m1: /x differs",
        "gpu1: /etc/default/mesos-agent differs",
        "gpu1: mesos-agent: its file is newer",
        "gpu1: zookeeper is not installed",
    ]
    assert "-a\n+b" in found["differences"][1]["diff"]


def test_a_certificate_that_clients_refuse_is_named_on_its_host() -> None:
    """Its task does not fail while the hosts are only compared."""
    (found,) = reported({"m1": {}, "gpu1": {"__mesos_cluster_pair": {"failed": False, "msg": "certificate has expired"}}})["differences"]
    assert (found["host"], found["kind"], found["why"]) == ("gpu1", "not_compared", ["certificate has expired"])
    assert reported({"m1": {"__mesos_cluster_pair": {"changed": False, "days_left": 9}}, "gpu1": {}})["summary"] == []


def test_a_task_that_failed_is_not_compared() -> None:
    results = {"m1": {"__marathon_written": {"failed": True, "msg": "no\nspace"}}, "gpu1": {}}
    found = reported(results)
    assert not found["differs"] and not found["complete"]
    assert found["summary"] == ["m1: marathon_written could not be compared: no space"]


def test_agents_that_offer_something_else_are_named() -> None:
    wrong = "gpu1 offers 1 GPUs, but 2 were promised: look at 'journalctl -u mesos-agent' there."
    offered = {"failed": True, "msg": f"gpu2: no agent of gpu2 is registered: look there.\n{wrong}", "offered": []}
    found = reported(offered=offered)
    assert found["differs"]
    assert found["summary"] == ["gpu2: agents: no agent of gpu2 is registered: look there.", f"m1: agents: {wrong}"]
    closed = reported(offered={"failed": False, "offered": ["gpu1: 2 GPUs of 2, 0 in use, closed to new tasks"]})
    assert closed["summary"] == ["gpu1: agents: its agent is deactivated, so it gets no new tasks"]


def test_masters_that_do_not_answer_are_not_compared() -> None:
    for offered in ({"unreachable": True, "msg": "no route"}, {"failed": True, "msg": "No master answers."}):
        found = reported(offered=offered)
        assert not found["differs"] and not found["complete"] and "could not be compared" in found["summary"][0]


def test_a_lost_device_differs() -> None:
    assert reported(plan={"lost": ["gpu1: a100 is missing"]})["summary"] == ["m1: promises: gpu1: a100 is missing"]


def test_a_host_that_does_not_answer_makes_no_difference_of_the_record() -> None:
    results = {"m1": {"__mesos_cluster_recorded": {"changed": True, "paths": [manager.PROMISES.path]}}}
    found = reported(results)
    assert not found["differs"] and not found["complete"]
    assert found["summary"] == ["gpu1: did not answer, or failed before it could be compared"]
    assert reported({"m1": {}}, in_play=["m1"])["left_out"] == ["gpu1"]


def test_without_a_plan_nothing_is_complete() -> None:
    assert not reported(plan=None)["complete"]
