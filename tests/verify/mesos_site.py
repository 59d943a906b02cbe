# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of mesos ask masters, Marathon and Chronos, each request by curl on a host of the cluster."""

from __future__ import annotations

import base64
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local import Cluster

MASTERS = ("m1", "m2", "m3")
AGENTS = {"gpu1": 2, "gpu2": 1}
PORTS = {"master": 5050, "agent": 5051, "marathon": 8443, "chronos": 4443}
# Who enters which interface, and the file with the secret that the inventory made.
ACCOUNTS = {"master": ("operator", "operator"), "marathon": ("marathon", "marathon_http"), "chronos": ("chronos", "chronos_http")}

# A device without a driver says ENXIO to whom it opens for, and EPERM to all others.
LOOK = (
    "for d in /dev/nvidia[0-9]; do m=$( (: < $d) 2>&1 ); "
    "case $m in *'not permitted'*|*'ermission denied'*) echo $d no;; *) echo $d yes;; esac; done"
)
STAY = "; id -un; sleep 600"


def secret(cluster: Cluster, name: str) -> str:
    return (cluster.secrets / "mesos" / name).read_text(encoding="utf-8").split()[0]


def secrets(cluster: Cluster) -> list[str]:
    names = ["operator", "agents", "marathon", "chronos", "marathon_http", "chronos_http"]
    return [secret(cluster, name) for name in [*names, *(f"zookeeper_{one}" for one in ("mesos", "marathon", "chronos"))]]


def login(cluster: Cluster, part: str, account: tuple[str, str] = ("", "")) -> str:
    """A line of a file for curl; the part's own account where nothing is given."""
    if account == ("", ""):
        user, file = ACCOUNTS.get(part, ("operator", "operator"))
        account = (user, secret(cluster, file))
    return f'user = "{account[0]}:{account[1]}"\n'


class Answer:
    """Status and content of an answer."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text

    @property
    def content(self) -> Any:
        return json.loads(self.text)


def ask(
    cluster: Cluster,
    part: str,
    path: str,
    body: Any = None,
    method: str = "",
    host: str = "",
    account: tuple[str, str] | None = ("", ""),
    by: str = "m1",
) -> Answer:
    """A request to a daemon, which is followed to the leader.

    :param host: m1, where nothing is given; of Chronos the leader, as a standby asks it without TLS, which is not answered.
    :param account: user and secret; None for a stranger, and the part's own where nothing is given. by: the host that asks.
    """
    if not host:
        host = chronos_leader(cluster) if part == "chronos" else "m1"
    config = "" if account is None else login(cluster, part, account)
    data = "" if body is None else base64.b64encode(json.dumps(body).encode()).decode()
    words = ["curl", "--silent", "--config", "-", "--location-trusted", "--cacert", "/etc/mesos/ca.pem", "--max-time", "60"]
    words += ["--write-out", "\n%{http_code}", "--header", "Accept: application/json"]
    words += ["--request", method] if method else []
    words += ["--header", "Content-Type: application/json", "--data", "@/run/test-body"] if data else []
    words.append(f"https://{host}:{PORTS[part]}{path}")
    write = f"echo {data} | base64 -d > /run/test-body; " if data else ""
    # The program echo of the shell is no process, so no list has the secret.
    text = cluster.run(by, f"{write}echo {shlex.quote(config)} | {shlex.join(words)}").stdout
    content, _line, status = text.rpartition("\n")
    return Answer(int(status.strip() or 0), content)


def until(read: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float = 60) -> Any:
    """What a question gives once it is as wanted."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            seen = read()
        except ValueError as error:  # no JSON: there is no leader
            seen = error
        if not isinstance(seen, ValueError) and wanted(seen):
            return seen
        assert time.monotonic() < deadline, f"after {seconds} s it is {seen}"
        time.sleep(0.5)


def state(cluster: Cluster, host: str = "m1") -> dict[str, Any]:
    return dict(ask(cluster, "master", "/state", host=host).content)


def agent(cluster: Cluster, name: str) -> dict[str, Any]:
    return next((dict(one) for one in state(cluster)["slaves"] if one["hostname"] == name), {})


def all_there(cluster: Cluster, host: str = "m1") -> None:
    """Wait until each agent is in the cluster."""
    until(lambda: {one["hostname"] for one in state(cluster, host)["slaves"] if one["active"]}, lambda seen: seen == set(AGENTS), 90)


def leader(cluster: Cluster) -> str:
    """The inventory name of the leading master."""
    return str(until(lambda: state(cluster), lambda seen: bool(seen.get("leader_info")))["leader_info"]["hostname"])


def chronos_leader(cluster: Cluster) -> str:
    """The inventory name of the Chronos that leads: the only one that can answer."""

    def answering() -> list[str]:
        return [host for host in MASTERS if ask(cluster, "chronos", "/v1/scheduler/leader", host=host).status == 200]

    return str(until(answering, lambda seen: len(seen) == 1)[0])


def metrics(cluster: Cluster) -> dict[str, float]:
    """Of the leading master: a standby knows of no agent, and answers without a redirect."""
    return dict(ask(cluster, "master", "/metrics/snapshot", host=leader(cluster)).content)


def app(name: str, command: str, **more: Any) -> dict[str, Any]:
    """An application as Marathon takes it."""
    base = {"id": f"/{name}", "cmd": command, "cpus": 0.1, "mem": 32, "instances": 1, "user": "nobody", "networks": [{"mode": "host"}]}
    return {**base, **more}


def tasks(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    return list(ask(cluster, "marathon", f"/v2/apps/{name}/tasks").content.get("tasks") or [])


def start(cluster: Cluster, wanted: dict[str, Any], seconds: float = 60) -> list[dict[str, Any]]:
    """Start an application and wait for its tasks."""
    done = ask(cluster, "marathon", "/v2/apps", wanted)
    assert done.status == 201, done.text
    name = wanted["id"].lstrip("/")

    def running() -> list[dict[str, Any]]:
        return [one for one in tasks(cluster, name) if one.get("state") == "TASK_RUNNING"]

    return list(until(running, lambda seen: len(seen) == wanted["instances"], seconds))


def remove(cluster: Cluster, *names: str) -> None:
    """Delete applications, by one connection, and wait until Marathon has none of them and no deployment."""
    if not names:
        return
    words = [
        "curl",
        "--silent",
        "--config",
        "-",
        "--cacert",
        "/etc/mesos/ca.pem",
        "--max-time",
        "60",
        "--request",
        "DELETE",
        "--write-out",
        "\n%{http_code}\n",
    ]
    words += [f"https://m1:{PORTS['marathon']}/v2/apps/{name}?force=true" for name in names]
    said = cluster.out("m1", f"echo {shlex.quote(login(cluster, 'marathon'))} | {shlex.join(words)}")
    assert {line for line in said.splitlines() if re.fullmatch(r"\d{3}", line)} <= {"200", "404"}, said

    def left() -> set[str]:
        """A deployment holds the name until the last task ended: an application of that name would be refused till then."""
        held = [name for one in ask(cluster, "marathon", "/v2/deployments").content for name in one["affectedApps"]]
        here = [one["id"] for one in ask(cluster, "marathon", "/v2/apps").content["apps"]]
        return {name.lstrip("/") for name in [*held, *here]} & set(names)

    until(left, lambda seen: not seen)


def sandbox(cluster: Cluster, task: dict[str, Any], file: str = "stdout") -> str:
    """What a task wrote."""
    find = f"find /var/lib/mesos/agent/slaves -path '*{task['id']}*' -name {file} -exec cat {{}} +"
    return cluster.run(task["host"], find).stdout


def devices(text: str) -> list[str]:
    """Whether each GPU of the host opened."""
    return [line.split()[1] for line in text.splitlines() if line.startswith("/dev/nvidia")]


def looked(cluster: Cluster, task: dict) -> str:
    return str(until(lambda: sandbox(cluster, task), lambda seen: "nobody" in seen, 20))


@pytest.fixture
def clean(cluster: Cluster) -> Iterator[None]:
    """No test leaves an application behind."""
    yield
    remove(cluster, *(one["id"].lstrip("/") for one in ask(cluster, "marathon", "/v2/apps").content["apps"]))
