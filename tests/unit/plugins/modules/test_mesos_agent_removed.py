# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module mesos_agent_removed against masters in memory: an agent with tasks stays, unless a person said so."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.modules import mesos_agent_removed

AGENT = {"id": "S1", "hostname": "gpu3", "port": 5051, "active": False, "deactivated": True}
TASK = {"id": "train.1", "name": "train", "slave_id": "S1", "state": "TASK_RUNNING", "resources": {"gpus": 1.0}, "user": "nobody"}


class Masters:
    agents: t.ClassVar[list[dict[str, t.Any]]] = []
    tasks: t.ClassVar[list[dict[str, t.Any]]] = []
    calls: t.ClassVar[list[tuple[str, dict[str, t.Any]]]] = []

    def __init__(self, addresses: list[str], principal: str, secret: str, *_more: t.Any) -> None:
        assert (addresses, principal, secret) == (["m1:5050"], "operator", "secret")

    def get(self, path: str) -> dict[str, t.Any]:
        return {"/slaves": {"slaves": self.agents}, "/state": {"frameworks": [{"name": "marathon", "tasks": self.tasks}]}}[path]

    def call(self, kind: str, **arguments: t.Any) -> None:
        self.calls.append((kind, arguments))


@pytest.fixture
def masters(monkeypatch):
    monkeypatch.setattr(Masters, "agents", [AGENT])
    monkeypatch.setattr(Masters, "tasks", [])
    monkeypatch.setattr(Masters, "calls", [])
    monkeypatch.setattr(mesos_agent_removed, "Masters", Masters)
    monkeypatch.setattr(mesos_agent_removed, "secret_of", lambda _path, _principal: "secret")
    return Masters


def removed(run, **options):
    return run(mesos_agent_removed, masters=["m1:5050"], name="gpu3", **options)


def test_an_agent_is_forgotten(run, masters) -> None:
    assert removed(run)["changed"]
    assert masters.calls == [("MARK_AGENT_GONE", {"agent_id": {"value": "S1"}})]


def test_a_host_without_an_agent(run, masters) -> None:
    masters.agents.clear()
    result = removed(run)
    assert not result["changed"] and not result["known"] and masters.calls == []


def test_an_agent_with_tasks_stays(run, masters) -> None:
    masters.tasks.append(TASK)
    result = removed(run)
    assert result["msg"].startswith("gpu3 is not forgotten, because it still has task train.1") and masters.calls == []
    result = removed(run, tasks_end=True)
    assert result["changed"] and len(result["ended"]) == 1 and len(masters.calls) == 1


def test_check_mode_only_predicts(run, masters) -> None:
    assert removed(run, _ansible_check_mode=True)["changed"] and masters.calls == []


def test_a_refusal_is_one_sentence(run, masters, monkeypatch) -> None:
    def refuse(*_arguments: t.Any, **_more: t.Any) -> None:
        raise Refused("The masters do not answer.")

    monkeypatch.setattr(masters, "get", refuse)
    assert removed(run)["msg"] == "The masters do not answer."
