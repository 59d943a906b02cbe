# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The stand-in's master gives the codes and sentences of the real one, and no key that the real one has not."""

from __future__ import annotations

import base64
import importlib
import json
import re
import sys
import time

import program
import pytest

HERE = program.ROOT / "tests/stand_ins/mesos"
UNKNOWN = "00000000-0000-0000-0000-000000000000-S0"
# /version is of a process that only mesos-master itself starts.
READS = ["/slaves", "/state", "/frameworks", "/tasks", "/flags", "/metrics/snapshot"]
CALLS = ["GET_HEALTH", "GET_VERSION", "GET_AGENTS", "GET_METRICS", "GET_FLAGS"]
# What a cluster's size makes of itself.
METRIC = re.compile(r"master/(tasks_|slave|framework|cpus|mem|disk|gpus|elected|uptime|outstanding)")


class StandIn:
    """The stand-in's master as a leader with one agent and one framework, without a socket and without ZooKeeper."""

    def __init__(self, agent: dict, changed: dict | None = None) -> None:
        sys.path.insert(0, str(HERE))
        self.before = set(sys.modules)
        master, cluster, self.web, options = (importlib.import_module(name) for name in ("master", "cluster", "web", "options"))
        wanted = program.settings()
        folder = program.GOLDEN / "m1/etc/mesos"
        wanted |= {f"MESOS_{name}": f"file://{folder}/{name.lower()}.json" for name in ("ACLS", "CREDENTIALS")}
        wanted = {name: value for name, value in {**wanted, **(changed or {})}.items() if value is not None}
        values = options.mesos("mesos-master", [], {**wanted, "MESOS_IP": "127.0.0.1", "MESOS_WORK_DIR": "/tmp"})
        self.master = master.Master(values)
        self.master.cluster = cluster.Cluster(values, self.master.acls, lambda registry: None)
        resources = {name: value for name, value in agent["resources"].items() if name != "ports"}
        info = {"hostname": "gpu1", "ip": "127.0.0.1", "port": program.PORT, "resources": resources, "attributes": agent["attributes"]}
        self.master.cluster.report("agents", {"id": agent["id"], "info": {**info, "version": "1.11.0"}, "tasks": []})
        self.master.cluster.subscribe("marathon", {"name": "real", "user": "nobody", "principal": "marathon"})

    def close(self) -> None:
        sys.path.remove(str(HERE))
        for name in set(sys.modules) - self.before:
            if str(HERE) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]

    def ask(self, method: str, path: str, body=None, principal: str = "operator", password: str | None = None) -> tuple[int, str]:
        key = f"{principal}:{program.secret(principal) if password is None else password}" if principal else ""
        headers = {"Authorization": "Basic " + base64.b64encode(key.encode()).decode()} if principal else {}
        content = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        request = self.web.Request(method, path, {}, headers, content, path)
        try:
            reply = self.master.answer(request)
        except self.web.Failure as failure:
            reply = failure.reply
        text = reply.body if isinstance(reply.body, str) else "" if reply.body is None else json.dumps(reply.body)
        return reply.status, text


@pytest.fixture(scope="module")
def both(container):
    container.forget()
    container.start()
    container.until("REGISTERED")
    stand_in = StandIn(container.agents()[0])
    time.sleep(1)
    yield container, stand_in
    stand_in.close()


def more(own, real, where: str = "") -> list[str]:
    """Where the stand-in's answer has a key or a kind of value that the real one has not."""
    numbers = (int, float)
    if isinstance(own, dict) and isinstance(real, dict):
        extra = [f"{where}/{key}" for key in own if key not in real]
        return extra + [found for key in own if key in real for found in more(own[key], real[key], f"{where}/{key}")]
    if isinstance(own, list) and isinstance(real, list):
        return more(own[0], real[0], f"{where}[]") if own and real and isinstance(own[0], dict) else []
    same = type(own) is type(real) or (isinstance(own, numbers) and isinstance(real, numbers))
    return [] if same else [f"{where} is {own!r}, not like {real!r}"]


@pytest.mark.parametrize("path", READS)
def test_what_is_read(both, path):
    real, own = (
        json.loads(one.ask("GET", path if one is both[1] else f"/master{path}" if "metrics" not in path else path)[1]) for one in both
    )
    if path == "/metrics/snapshot":
        assert [name for name in own if name not in real and METRIC.match(name)] == []
        return
    own.pop("build_user", None)
    if path in ("/flags", "/state"):
        # Defaults that are not written are another test's.
        own["flags"] = {name: value for name, value in own["flags"].items() if name in real["flags"]}
    assert more(own, real) == []


@pytest.mark.parametrize("kind", CALLS)
def test_what_the_operator_reads(both, kind):
    body = {"type": kind, **({"get_metrics": {}} if kind == "GET_METRICS" else {})}
    (code, real), (own_code, own) = (one.ask("POST", "/api/v1", body) for one in both)
    assert own_code == code == 200, real
    assert more(json.loads(own), json.loads(real)) == []


def about(kind: str, *rest: str) -> tuple:
    """A call about an agent that is not there."""
    return ("POST", "/api/v1", {"type": kind, kind.lower(): {"agent_id": {"value": UNKNOWN}}}, *rest)


CHANGES = ("DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT", "MARK_AGENT_GONE")


@pytest.mark.parametrize(
    "call",
    [
        ("GET", "/slaves", None, "operator", "wrong"),
        ("GET", "/slaves", None, ""),
        ("GET", "/flags", None, "marathon"),
        ("POST", "/api/v1", {"type": "GET_HEALTH"}, ""),
        ("POST", "/api/v1", {"type": "NO_SUCH_CALL"}),
        ("POST", "/api/v1", "no json"),
        ("POST", "/api/v1", {"type": "DRAIN_AGENT"}),
        ("GET", "/api/v1"),
        *(about(kind) for kind in CHANGES),
        *(about(kind, "marathon") for kind in CHANGES),
        ("POST", "/teardown", "frameworkId=nobody", "marathon"),
        ("POST", "/teardown", "frameworkId=nobody"),
        ("GET", "/no-such-path"),
    ],
    ids=lambda call: " ".join(str(one) for one in call)[:70],
)
def test_what_is_refused(both, call):
    method, path, *rest = call
    real, own = (one.ask(method, path, *rest) for one in both)
    assert own == real


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"MESOS_ACLS": "file:///nowhere"},
            "Failed to load flag 'acls': Failed to load value 'file:///nowhere': Error reading file '/nowhere': No",
        ),
        (
            {"MESOS_AUTHENTICATE_AGENTS": "maybe"},
            "Failed to load flag 'authenticate_agents': Failed to load value 'maybe': Expecting a boolean",
        ),
        ({"MESOS_RECOVERY_AGENT_REMOVAL_LIMIT": "50"}, "Invalid value '50' for --recovery_agent_removal_percent_limit: missing '%'"),
        ({"MESOS_HTTP_FRAMEWORK_AUTHENTICATORS": None}, "Missing `--http_framework_authenticators` flag. This must be used in conjunction"),
        ({"MESOS_CREDENTIALS": "file://CA"}, "Invalid json format: syntax error at line 1 near: "),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_master_that_does_not_start(mesos, wrong, sentence):
    mesos.start({name: value and value.replace("CA", "/etc/mesos/ca.pem") for name, value in wrong.items()})
    mesos.until(sentence)
    with pytest.raises(Exception, match=re.escape(sentence)):
        StandIn(
            {"id": UNKNOWN, "resources": {}, "attributes": {}},
            {name: value and value.replace("CA", __file__) for name, value in wrong.items()},
        )
