# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module mesos_agent_drain against masters in memory: calls go to the leading one, and no task ends unless a person said so.

The calls and their refusals: apache/mesos 1.11.0 docs/operator-http-api.md and src/master/http.cpp (_drainAgent, _reactivateAgent).
"""

from __future__ import annotations

import base64
import http.server
import json
import threading
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import agent_tasks
from ansible_collections.deephdc.accelerators.plugins.modules import mesos_agent_drain

SECRET = "a-secret-of-the-operator"


class Master:
    """A leading master with one agent and one task, and a standby that passes questions on to it."""

    def __init__(self) -> None:
        self.agent: dict[str, t.Any] = {"id": "S1", "hostname": "gpu1", "active": True, "deactivated": False}
        self.tasks = [task("train", "TASK_RUNNING", 1), task("old", "TASK_FINISHED", 1), task("other", "TASK_RUNNING", 0, "S2")]
        self.calls: list[dict[str, t.Any]] = []
        self.asked = 0
        self.leads = True

    def state(self) -> dict[str, t.Any]:
        self.asked += 1
        return {
            "slaves": [{"id": "S2", "hostname": "gpu2", "active": True}, *([self.agent] if self.agent else [])],
            "frameworks": [{"name": "marathon", "tasks": self.tasks}],
        }

    def call(self, body: dict[str, t.Any]) -> tuple[int, str]:
        kind = body["type"]
        assert body[kind.lower()]["agent_id"] == {"value": "S1"}
        self.calls.append(body)
        if kind == "DRAIN_AGENT":
            self.agent.update(active=False, deactivated=True, drain_info={"state": "DRAINED"})
            self.tasks = []
        elif kind == "DEACTIVATE_AGENT":
            self.agent.update(active=False, deactivated=True)
        elif kind == "MARK_AGENT_GONE":
            self.agent = {}
        else:
            self.agent.update(active=True, deactivated=False)
            self.agent.pop("drain_info", None)
        return 200, ""


def task(name: str, state: str, gpus: float, agent: str = "S1") -> dict[str, t.Any]:
    return {"id": f"{name}.1", "name": name, "slave_id": agent, "state": state, "resources": {"cpus": 1.0, "gpus": float(gpus)}}


def serve(answer: t.Callable[[t.Any, bytes], tuple[int, str, dict[str, str]]]) -> http.server.HTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text, headers = answer(self, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.fixture
def master(tmp_path, monkeypatch):
    known = Master()
    word = "Basic " + base64.b64encode(f"operator:{SECRET}".encode()).decode()

    def leading(request: t.Any, body: bytes) -> tuple[int, str, dict[str, str]]:
        if request.headers.get("Authorization") != word:
            return 401, "", {"WWW-Authenticate": 'Basic realm="mesos-master-readonly"'}
        if request.path == "/state":
            return 200, json.dumps(known.state()), {}
        return (*known.call(json.loads(body)), {})

    leader = serve(leading)

    def standby(request: t.Any, _body: bytes) -> tuple[int, str, dict[str, str]]:
        if not known.leads:
            return 503, "No leader elected", {}
        return 307, "", {"Location": f"//127.0.0.1:{leader.server_port}{request.path}"}

    follower = serve(standby)
    known.files = {
        "environment": str(tmp_path / "environment"),
        "credentials": str(tmp_path / "credentials.json"),
        "authority": str(tmp_path / "ca.pem"),
    }
    text = f"# Made by deephdc.accelerators\nMESOS_HOSTNAME='127.0.0.1'\nMESOS_PORT='{follower.server_port}'\n"
    (tmp_path / "environment").write_text(text, encoding="utf-8")
    known.set_secret = lambda secret: (tmp_path / "credentials.json").write_text(
        json.dumps({"credentials": [{"principal": "agents", "secret": "x"}, {"principal": "operator", "secret": secret}]}), encoding="utf-8"
    )
    known.set_secret(SECRET)
    monkeypatch.setattr(mesos_agent_drain, "POLL", 0.01)
    yield known
    for server in (leader, follower):
        server.shutdown()
        server.server_close()


def types(master) -> list[str]:
    return [call["type"] for call in master.calls]


def test_a_drain_ends_no_task(run, master) -> None:
    result = run(mesos_agent_drain, name="gpu1", state="drained", wait=0.03, **master.files)
    assert result["changed"] and types(master) == ["DEACTIVATE_AGENT"]
    assert result["summary"] == ["task train.1 of marathon with 1 GPU"]
    assert result["diff"]["before"] == "active\n" and result["diff"]["after"] == "deactivated\n"
    again = run(mesos_agent_drain, name="gpu1", state="drained", **master.files)
    assert not again["changed"] and again["was"] == "deactivated" and types(master) == ["DEACTIVATE_AGENT"]


def test_the_wait_ends_with_the_last_task(run, master) -> None:
    usual = master.state

    def state() -> dict[str, t.Any]:
        if master.asked > 3:
            master.tasks = []
        return usual()

    master.state = state
    result = run(mesos_agent_drain, name="gpu1", state="drained", wait=30, **master.files)
    assert result["summary"] == [] and master.asked < 10


def test_tasks_are_ended_where_a_person_says_so(run, master) -> None:
    result = run(mesos_agent_drain, name="gpu1", state="drained", end_tasks=True, grace=90, wait=5, **master.files)
    (call,) = master.calls
    assert (call["type"], call["drain_agent"]["max_grace_period"]) == ("DRAIN_AGENT", {"seconds": 90})
    assert result["summary"] == [] and master.agent["drain_info"]["state"] == "DRAINED"
    run(mesos_agent_drain, name="gpu1", state="drained", end_tasks=True, **master.files)
    assert len(master.calls) == 1, "it is drained"


def test_an_agent_is_given_back(run, master) -> None:
    master.agent.update(active=False, deactivated=True)
    result = run(mesos_agent_drain, name="gpu1", state="active", **master.files)
    assert result["changed"] and result["left"] == "" and types(master) == ["REACTIVATE_AGENT"]
    assert not run(mesos_agent_drain, name="gpu1", state="active", **master.files)["changed"]


@pytest.mark.parametrize(
    ("agent", "options", "sentence"),
    [
        ({"deactivated": True}, {"note": False}, "no run of mesos_drain did that"),
        ({"deactivated": True}, {"note": False, "holder": "nvidia_driver"}, "the role gpu_hold holds it for nvidia_driver"),
        ({"deactivated": True}, {"holder": "nvidia_driver"}, "the role gpu_hold holds it for nvidia_driver"),
        ({"deactivated": True}, {"unfit": "a GPU is missing"}, "because a GPU is missing: repair it, then run again."),
        ({"deactivated": True, "drain_info": {"state": "DRAINING"}}, {}, "its tasks are still ending, which Mesos can't stop"),
        ({"active": False}, {}, "its agent is disconnected"),
    ],
)
def test_what_keeps_an_agent_away(run, master, agent, options, sentence) -> None:
    master.agent.update(agent)
    result = run(mesos_agent_drain, name="gpu1", state="active", **options, **master.files)
    assert sentence in result["left"] and not result["changed"] and master.calls == []


def test_a_host_without_an_agent(run, master) -> None:
    for state in ("drained", "gone"):
        result = run(mesos_agent_drain, name="gpu9", state=state, **master.files)
        assert (result["known"], result["changed"], result["was"]) == (False, False, "unknown")
    assert "Mesos knows no agent on gpu9" in run(mesos_agent_drain, name="gpu9", state="active", **master.files)["left"]


def test_an_agent_is_forgotten(run, master) -> None:
    assert run(mesos_agent_drain, name="gpu1", state="gone", **master.files)["changed"]
    assert types(master) == ["MARK_AGENT_GONE"]
    assert not run(mesos_agent_drain, name="gpu1", state="gone", **master.files)["changed"]


@pytest.mark.parametrize("state", ["drained", "gone"])
def test_check_mode_changes_nothing(run, master, state) -> None:
    result = run(mesos_agent_drain, name="gpu1", state=state, wait=60, _ansible_check_mode=True, **master.files)
    assert result["changed"] and master.calls == []


def test_a_cluster_without_a_leader_is_one_sentence(run, master) -> None:
    master.leads = False
    result = run(mesos_agent_drain, name="gpu1", state="drained", **master.files)
    assert result["msg"] == "The Mesos master refuses GET /state with 503: No leader elected."


def test_a_wrong_secret_is_one_sentence_without_it(run, master) -> None:
    master.set_secret("another-secret-0123")
    result = run(mesos_agent_drain, name="gpu1", state="drained", **master.files)
    assert result["msg"] == "The Mesos master refuses GET /state with 401." and "another-secret" not in result["printed"]


def test_a_host_without_a_master_is_one_sentence(run, tmp_path) -> None:
    result = run(mesos_agent_drain, name="gpu1", state="drained", environment=str(tmp_path / "none"))
    assert "none can't be read (No such file or directory): name a host that has this daemon." in result["msg"]


def test_an_active_agent_counts_before_a_former_one_of_the_same_host() -> None:
    former, present = {"id": "S1", "hostname": "gpu1", "active": False}, {"id": "S3", "hostname": "gpu1", "active": True}
    assert agent_tasks.agent_of({"slaves": [former, present]}, "gpu1") == present
