# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The modules that ask masters of Mesos, against a server on this machine: no task may end by a hold."""

from __future__ import annotations

import base64
import http.server
import json
import pathlib
import threading

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import agents, api
from ansible_collections.deephdc.accelerators.plugins.modules import mesos_agent_hold, mesos_offers

ROOT = pathlib.Path(__file__).resolve().parents[4]
REASON = "gpu_hold: nvidia_driver"
SECRET = "operator-0123456789"


class Cluster:
    """Masters: the first stands by, the second leads. What they have, and what was asked of them."""

    def __init__(self):
        self.slaves = [{"id": "S1", "hostname": "gpu1", "port": 5051, "active": True, "deactivated": False, "resources": {"gpus": 2}}]
        self.tasks = []
        self.calls = []
        self.paths = []
        self.answer = 0  # an error that the leader gives
        self.has_leader = True
        self.servers = []
        for _time in range(2):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"cluster": self}))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)

    @property
    def masters(self):
        return [f"127.0.0.1:{server.server_port}" for server in self.servers]

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    cluster: Cluster

    def log_message(self, *args):
        del args

    def reply(self, code, content=None, **headers):
        body = json.dumps(content if content is not None else {}).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_stopped(self):
        """Whether the request got an answer that says who leads, or an error."""
        leader = self.cluster.servers[1].server_port
        if not self.cluster.has_leader:
            self.reply(503)
        elif self.path == "/redirect" or self.server.server_port != leader:
            self.reply(307, Location=f"//leader.example.org:{leader}" + ("" if self.path == "/redirect" else self.path))
        elif self.headers.get("Authorization") != "Basic " + base64.b64encode(f"operator:{SECRET}".encode()).decode():
            self.reply(401)
        elif self.cluster.answer:
            self.reply(self.cluster.answer, {"said": "no"})
        else:
            return False
        return True

    def do_GET(self):
        self.cluster.paths.append(self.path)
        if not self.is_stopped():
            tasks = {"frameworks": [{"id": "F1", "name": "marathon", "user": "nobody", "tasks": self.cluster.tasks}]}
            metrics = {"master/gpus_total": 2.0, "master/gpus_used": 1.0}
            self.reply(200, {"/slaves": {"slaves": self.cluster.slaves}, "/state": tasks, "/metrics/snapshot": metrics}[self.path])

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_stopped():
            self.cluster.calls.append(call)
            (agent,) = self.cluster.slaves
            if call["type"] == "REACTIVATE_AGENT":
                agent.update(deactivated=False, active=True)
            else:
                agent.update(deactivated=True, active=False)
            if call["type"] == "DRAIN_AGENT":
                agent["drain_info"] = {"state": "DRAINING"}
                self.cluster.tasks = []
            self.reply(200)


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(api, "PAUSE", 0.01)
    monkeypatch.setattr(mesos_agent_hold, "POLL", 0.01)
    made = Cluster()
    yield made
    made.close()


@pytest.fixture
def credentials(tmp_path):
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps({"credentials": [{"principal": "operator", "secret": SECRET}]}), encoding="utf-8")
    path.chmod(0o400)
    return path


@pytest.fixture
def hold(run, cluster, credentials):
    def call(**arguments):
        options = {"masters": cluster.masters, "names": {"leader.example.org": "127.0.0.1"}, "credentials": str(credentials)}
        options.update({"name": "gpu1", "state": "held", "reason": REASON, "patience": 0.0}, **arguments)
        result = run(mesos_agent_hold, **options)
        assert SECRET not in result["printed"]
        return result

    return call


def task(number=1, **changes):
    return {"id": f"training.{number}", "name": "training", "slave_id": "S1", "state": "TASK_RUNNING", "resources": {"gpus": 1}, **changes}


def test_an_agent_is_deactivated_and_given_back(hold, cluster):
    result = hold()
    assert result["changed"] and result["held"] and result["record"] == REASON
    assert cluster.calls == [{"type": "DEACTIVATE_AGENT", "deactivate_agent": {"agent_id": {"value": "S1"}}}]
    again = hold(recorded=REASON)
    assert not again["changed"] and again["held"] and again["record"] == REASON
    back = hold(state="released", recorded=REASON)
    assert back["changed"] and back["record"] == ""
    assert [call["type"] for call in cluster.calls] == ["DEACTIVATE_AGENT", "REACTIVATE_AGENT"]
    assert not hold(state="released", recorded="")["changed"]


def test_check_mode_changes_nothing(hold, cluster):
    cluster.tasks = [task()]
    result = hold(_ansible_check_mode=True, wait=60)
    assert result["changed"] and result["held"] and cluster.calls == []
    assert result["summary"] == ["task training.1 of the framework marathon as nobody with 1 GPU"]


def test_tasks_are_waited_for_and_none_is_ended(hold, cluster):
    cluster.tasks = [task(), task(2, state="TASK_FINISHED"), task(3, slave_id="S2"), task(4, resources={"cpus": 1}, user="ada")]
    result = hold(wait=0.05)
    assert result["summary"] == [
        "task training.1 of the framework marathon as nobody with 1 GPU",
        "task training.4 of the framework marathon as ada",
    ]
    assert [one["id"] for one in hold(tasks="gpus", recorded=REASON)["tasks"]] == ["training.1"]
    assert hold(tasks="none", recorded=REASON)["tasks"] == []
    assert [call["type"] for call in cluster.calls] == ["DEACTIVATE_AGENT"]


def test_tasks_are_ended_only_where_that_is_asked_for(hold, cluster):
    cluster.tasks = [task()]
    result = hold(mark="drained", reason="new power supply", end_tasks=True, grace=30, wait=5)
    assert result["tasks"] == [] and result["record"] == "drained: new power supply"
    (call,) = cluster.calls
    assert call == {"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": "S1"}, "max_grace_period": {"seconds": 30}}}
    again = hold(mark="drained", reason="another one", end_tasks=True, recorded="drained: new power supply")
    assert not again["changed"] and again["record"] == "drained: new power supply" and len(cluster.calls) == 1


def test_an_agent_that_an_administrator_deactivated_stays_so(hold, cluster):
    cluster.slaves[0].update(deactivated=True, active=False)
    result = hold()
    assert result["kept"] == "the agent of gpu1 was deactivated by an administrator and stays so"
    assert not result["held"] and result["record"] == ""
    released = hold(state="released")
    assert not released["changed"] and released["record"] == ""
    assert cluster.calls == []


def test_what_an_administrator_says_takes_the_place_of_the_playbooks_own_reason(hold, cluster):
    """Else the playbook would open the host under repair as soon as its change is taken back."""
    role = yaml.safe_load((ROOT / "roles/mesos_agent/vars/main.yml").read_text(encoding="utf-8"))
    assert role["__mesos_agent_renewal"] == agents.RENEWAL.removeprefix("drained: ")
    hold(mark="drained", reason=role["__mesos_agent_renewal"])
    drained = hold(mark="drained", reason="replace the power supply", recorded=f"{agents.RENEWAL} + lost: GPU 1")
    assert drained["record"] == "lost: GPU 1 + drained: replace the power supply"
    # Not the other way round.
    assert hold(mark="drained", reason=role["__mesos_agent_renewal"], recorded="drained: mine")["record"] == "drained: mine"


@pytest.mark.parametrize("mark", ["lost", "drained"])
def test_each_mark_is_kept_and_the_agent_opens_when_none_is_left(hold, cluster, mark):
    record = hold(mark=mark, reason="a100 is missing")["record"]
    assert record == f"{mark}: a100 is missing"
    result = hold(recorded=record)
    assert result["held"] and result["record"] == f"{record} + {REASON}" and not result["changed"]
    assert hold(recorded=result["record"])["record"] == result["record"]
    (closing,) = cluster.calls
    for first, second, left in (("held", mark, record), (mark, "held", REASON)):
        after = hold(state="released", mark=first, recorded=result["record"])
        assert after["record"] == left and not after["changed"] and cluster.calls == [closing]
        assert (after["left"] == f"gpu1 stays deactivated, because the role gpu_hold holds it ({REASON}).") == (first == "drained")
        opened = hold(state="released", mark=second, recorded=left)
        assert opened["record"] == "" and opened["changed"] and opened["left"] == ""
        cluster.calls[:] = [closing]
        cluster.slaves[0].update(deactivated=True, active=False)


@pytest.mark.parametrize(
    ("recorded", "unfit", "words"),
    [
        (REASON, "", "gpu1 stays deactivated, because the role gpu_hold holds it (gpu_hold: nvidia_driver)."),
        ("lost: x", "", "gpu1 stays deactivated, because a GPU is lost (lost: x): repair it, then run the playbook mesos."),
        ("", "", "gpu1 stays deactivated, because no run of mesos_drain did that"),
        ("drained: x", "its driver is gone", "gpu1 stays as it is, because its driver is gone: repair it, then run again."),
    ],
)
def test_a_drain_ends_only_where_it_may(hold, cluster, recorded, unfit, words):
    cluster.slaves[0].update(deactivated=True, active=False)
    result = hold(state="released", mark="drained", recorded=recorded, unfit=unfit)
    assert result["left"].startswith(words) and not result["changed"] and cluster.calls == []


def test_a_drain_ends(hold, cluster):
    cluster.slaves[0].update(deactivated=True, active=False, drain_info={"state": "DRAINED"})
    assert hold(state="released", mark="drained", recorded="drained: x")["changed"]
    cluster.slaves[0].update(deactivated=True, active=False, drain_info={"state": "DRAINING"})
    assert "still being ended" in hold(state="released", mark="drained", recorded="drained: x")["left"]


def test_an_unknown_agent_is_no_failure(hold, cluster):
    cluster.slaves = []
    result = hold()
    assert not result["known"] and not result["held"] and not result["changed"] and cluster.calls == []


def test_a_reason_needs_its_mark(hold):
    assert hold(reason="maintenance")["msg"].startswith("The reason must begin with 'gpu_hold: '")


def test_another_leader_is_found(hold, cluster):
    assert hold(masters=["127.0.0.1:1", *cluster.masters], patience=5)["known"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(403, "does not let operator use /slaves"), (400, "answers /slaves with the error 400"), (503, "do not answer as they should")],
)
def test_an_error_of_the_masters_is_one_sentence(hold, cluster, answer, words):
    cluster.answer = answer
    result = hold()
    assert result["failed"] and words in result["msg"]


def test_without_a_leader_there_is_one_sentence(hold, cluster):
    cluster.has_leader = False
    assert "none of them knows a leader" in hold()["msg"]


def test_a_wrong_secret_is_one_sentence(hold, credentials):
    credentials.chmod(0o600)
    credentials.write_text(json.dumps({"credentials": [{"principal": "operator", "secret": "another-0123456789"}]}), encoding="utf-8")
    assert "does not know operator with this secret: run the playbook mesos." in hold()["msg"]


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("operator secret", 0o400, "is no file of credentials as JSON"),
        ('{"credentials": [{"principal": "other", "secret": "x"}]}', 0o400, "has no principal operator"),
        ('{"credentials": []}', 0o444, "can be read by others than root"),
    ],
)
def test_a_wrong_file_of_credentials_is_one_sentence(hold, credentials, content, mode, words):
    credentials.chmod(0o600)
    credentials.write_text(content, encoding="utf-8")
    credentials.chmod(mode)
    assert words in hold()["msg"]
    credentials.unlink()
    assert "can't be read: No such file" in hold()["msg"]


def test_the_masters_are_those_in_the_file_of_the_cluster(hold, cluster, tmp_path):
    path = tmp_path / "cluster.json"
    assert "cluster.json can't be read: No such file" in hold(masters=[], cluster=str(path))["msg"]
    path.write_text("{}", encoding="utf-8")
    assert "does not name the masters" in hold(masters=[], cluster=str(path))["msg"]
    path.write_text(json.dumps({"masters": cluster.masters, "names": {"leader.example.org": "127.0.0.1"}, "ca": ""}), encoding="utf-8")
    assert hold(masters=[], names={}, cluster=str(path))["held"]


def test_offers_are_compared(run, cluster, credentials, monkeypatch):
    monkeypatch.setattr(mesos_offers, "POLL", 0.01)
    options = {"masters": cluster.masters, "names": {"leader.example.org": "127.0.0.1"}, "credentials": str(credentials), "wait": 0}
    right = run(mesos_offers, expected=[{"host": "gpu1", "name": "gpu1", "gpus": 2}], **options)
    assert right["offered"] == ["gpu1: 2 GPUs of 2, 0 in use"] and right["gpus"] == {"total": 2, "used": 1}
    wrong = run(mesos_offers, expected=[{"host": "gpu1", "name": "gpu1", "gpus": 3}, {"host": "gpu2", "name": "gpu2"}], **options)
    assert wrong["msg"].splitlines() == [
        "gpu1 offers 2 GPUs, but 3 were promised: look at 'journalctl -u mesos-agent' there.",
        "gpu2: no agent of gpu2 is registered: look at 'journalctl -u mesos-agent' there.",
    ]
    cluster.slaves[0]["active"] = False
    lost = run(mesos_offers, expected=[{"host": "gpu1", "name": "gpu1", "gpus": 2}], **options)
    assert lost["msg"] == "gpu1: its agent has lost the masters: look at 'journalctl -u mesos-agent' there."
    cluster.slaves[0]["deactivated"] = True
    closed = run(mesos_offers, expected=[{"host": "gpu1", "name": "gpu1", "gpus": 2}], **options)
    assert closed["offered"] == ["gpu1: 2 GPUs of 2, 0 in use, closed to new tasks"]
    assert run(mesos_offers, expected=[], **options)["offered"] == []


@pytest.mark.parametrize(
    ("known", "has_processes", "sentence"),
    [
        ({"slaves": []}, False, ""),
        ({"slaves": []}, True, "The masters have no agent of gpu1, but processes of tasks run there"),
        ({"slaves": [], "recovered_slaves": [{"hostname": "gpu1", "port": 5051}]}, False, "has not registered with the present leader"),
        ({"slaves": [], "recovered_slaves": [{"hostname": "gpu2", "port": 5051}]}, False, ""),
        ({"slaves": [{"hostname": "gpu1", "port": 5051, "active": True}]}, True, ""),
    ],
)
def test_an_agent_that_is_not_listed_has_no_tasks_only_if_none_runs(known, has_processes, sentence):
    """Masters list neither an agent that was silent for long nor one that has not registered with a new leader."""
    found = agents.missing(known, "gpu1", 5051, has_processes)
    assert sentence in found and bool(sentence) == bool(found)


def test_a_hold_fails_where_tasks_run_that_the_masters_do_not_know(hold, cluster):
    cluster.slaves = []
    assert hold()["known"] is False
    result = hold(has_processes=True)
    assert result["failed"] and "processes of tasks run there" in result["msg"] and cluster.calls == []
    assert hold(has_processes=True, state="released")["known"] is False
