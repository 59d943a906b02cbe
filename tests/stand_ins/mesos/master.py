# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for mesos-master 1.11.0: elected in the real ZooKeeper, its flags, its HTTP surface, its refusals."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import access
import calls
import views
from cluster import Cluster
from keeper import Keeper, place
from options import Refused, Values, is_set, mesos, seconds
from parts import Framework
from web import Failure, Reply, Request, libprocess, record, serve, unauthorized

READONLY, READWRITE, SCHEDULER = "mesos-master-readonly", "mesos-master-readwrite", "mesos-master-scheduler"
OPEN = {"/health", "/version", "/redirect", "/master/health", "/master/redirect"}
# What /api/v1 changes; every other call only reads.
CHANGING = {"DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT", "MARK_AGENT_GONE"}


class Master:
    """One process: a candidate, and the leader while its node in ZooKeeper has the lowest number."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.started = time.time()
        self.secrets = access.credentials(values["credentials"], "credentials") if "credentials" in values else {}
        self.acls = access.acls_of(values.get("acls"))
        self.check()
        self.ip = values.get("advertise_ip") or values.get("ip") or socket.gethostbyname(socket.gethostname())
        self.port = int(values.get("port", "5050"))
        self.hostname = values.get("hostname") or socket.getfqdn()
        self.info = {
            "address": {"hostname": self.hostname, "ip": self.ip, "port": self.port},
            "capabilities": [{"type": "AGENT_UPDATE"}, {"type": "AGENT_DRAINING"}],
            "hostname": self.hostname,
            "id": str(uuid.uuid4()),
            "pid": f"master@{self.ip}:{self.port}",
            "port": self.port,
            "version": "1.11.0",
        }
        self.cluster: Cluster | None = None
        self.leader: dict[str, Any] | None = None

    def check(self) -> None:
        """Refuse what main.cpp and master.cpp refuse."""
        values = self.values
        if "zk" in values and "quorum" not in values:
            raise Refused("Need to specify --quorum for replicated log based registry when using ZooKeeper")
        if "work_dir" not in values and values.get("registry", "replicated_log") == "replicated_log":
            raise Refused("--work_dir needed for replicated log based registry")
        Path(values.get("work_dir", "/tmp")).mkdir(parents=True, exist_ok=True)
        if is_set(values, "authenticate_http_frameworks") and "http_framework_authenticators" not in values:
            raise Refused(
                "Missing `--http_framework_authenticators` flag. This must be used in conjunction with `--authenticate_http_frameworks`"
            )
        for flag in ("authenticate_http_readonly", "authenticate_http_readwrite"):
            if is_set(values, flag) and not self.secrets:
                raise Refused("No credentials provided for the default 'basic' HTTP authenticator for realm 'mesos-master-readonly'")
        if seconds(values.get("agent_reregister_timeout", "10mins")) < 600:
            raise Refused(f"Invalid value '{values['agent_reregister_timeout']}' for --agent_reregister_timeout: Must be at least 10mins")
        limit = values.get("recovery_agent_removal_limit", "100%")
        if not limit.endswith("%"):
            raise Refused(f"Invalid value '{limit}' for --recovery_agent_removal_percent_limit: missing '%'")

    def run(self) -> None:
        where = place(self.values["zk"], f"Error parsing ZooKeeper URL: {self.values['zk'].rpartition('@')[2]}")
        server, _client = libprocess(dict(os.environ))
        serve(self.values.get("ip", "0.0.0.0"), self.port, server, self.answer)
        self.keeper = Keeper(where, seconds(self.values.get("zk_session_timeout", "10secs")))
        # EVERYONE_READ_CREATOR_ALL of zookeeper/group.cpp: frameworks have accounts of their own, and look for the leader here.
        self.keeper.ensure(where.path, everybody_reads=True)
        mine = self.keeper.join("json.info_", json.dumps(self.info))
        self.keeper.watch(where.path, "json.info_", lambda name: self.elected(name, mine))
        while True:
            time.sleep(1)
            if self.cluster:
                self.cluster.allocate()

    def elected(self, name: str | None, mine: str) -> None:
        """A new leader: this one reads the registry, the others redirect."""
        self.leader = self.keeper.read(f"{self.keeper.where.path}/{name}") if name else None
        print(f"A new leading master is detected: {self.leader['pid'] if self.leader else 'None'}", file=sys.stderr, flush=True)
        if name == mine:
            node = f"{self.keeper.where.path}/stand_in_registry"
            cluster = Cluster(self.values, self.acls, lambda registry: self.keeper.write(node, registry))
            cluster.registry = self.keeper.read(node) or cluster.registry
            self.cluster = cluster
            print("Elected as the leading master!", file=sys.stderr, flush=True)
        elif self.cluster:
            print("Conceded leadership to another master... committing suicide!", file=sys.stderr, flush=True)
            os._exit(1)

    def principal(self, request: Request, flag: str, realm: str) -> str | None:
        """Who asks; refused without a credential where the flag wants one."""
        name = access.principal_of(request.headers.get("Authorization", ""), self.secrets)
        if name is None and is_set(self.values, flag):
            raise unauthorized(realm)
        return name

    def leading(self, request: Request) -> Cluster:
        if self.cluster:
            return self.cluster
        if not self.leader:
            raise Failure(503, "No leader elected")
        base = f"//{self.leader['hostname']}:{self.leader['port']}"
        raise Failure(307, None, Location=base if request.path.endswith("/redirect") else base + request.target)

    def answer(self, request: Request) -> Reply:
        path = request.path[len("/master") :] if request.path.startswith("/master/") else request.path
        if path == "/health":
            return Reply(200, "")
        if path == "/version":
            return Reply(200, views.VERSION)
        if path == "/redirect":
            if self.cluster:
                raise Failure(307, None, Location=f"//{self.hostname}:{self.port}")
            self.leading(request)
        if path == "/api/v1/scheduler":
            return self.scheduler(request)
        if path.startswith("/stand_in/"):
            return self.agent(request, path)
        if path == "/api/v1":
            return self.operator(request)
        return self.read(request, path)

    def read(self, request: Request, path: str) -> Reply:
        principal = self.principal(request, "authenticate_http_readonly", READONLY)
        if path == "/metrics/snapshot":
            if not access.approved(self.acls, "get_endpoints", principal, path):
                raise Failure(403)
            return Reply(200, views.metrics(self.cluster, self.started, time.time()))
        if path == "/flags":
            allowed = access.approved(self.acls, "view_flags", principal)
            if not allowed:
                raise Failure(403)
            return Reply(200, {"flags": self.values})
        cluster = self.leading(request)
        with cluster.changed:
            if path == "/slaves":
                return Reply(
                    200, {"slaves": [views.slave(cluster, agent) for agent in cluster.listed()], "recovered_slaves": cluster.recovered()}
                )
            if path in ("/state", "/state.json", "/state-summary"):
                return Reply(200, views.state(cluster, principal, self.values, self.info))
            if path == "/frameworks":
                return Reply(200, {"frameworks": views.frameworks(cluster, principal), "completed_frameworks": []})
            if path == "/tasks":
                return Reply(200, {"tasks": views.tasks(cluster, principal)})
        if path in ("/teardown", "/machine/down", "/machine/up", "/maintenance/schedule", "/quota", "/weights"):
            return self.write(request, path, cluster)
        raise Failure(404)

    def write(self, request: Request, path: str, cluster: Cluster) -> Reply:
        """Old endpoints that change something. Only /teardown does; the others are taken and kept nowhere."""
        principal = self.principal(request, "authenticate_http_readwrite", READWRITE)
        if path == "/teardown":
            posted(request)
            identity = request.body.decode().partition("=")[2]
            framework = cluster.frameworks.get(identity)
            if framework and not access.approved(self.acls, "teardown_frameworks", principal, framework.principal):
                raise Failure(403)
            cluster.remove(identity)
        return Reply(200, None)

    def operator(self, request: Request) -> Reply:
        principal = self.principal(request, "authenticate_http_readwrite", READWRITE)
        cluster = self.leading(request)
        posted(request)
        try:
            call = request.json()
        except ValueError as error:
            raise Failure(400, "Failed to parse body into JSON: syntax error at line 1 near: " + request.body.decode()[1:]) from error
        kind = str(call.get("type"))
        if kind in CHANGING:
            if kind.lower() not in call:
                raise Failure(400, f"Failed to validate master::Call: Expecting '{kind.lower()}' to be present")
            cluster.operate(principal, call)
            return Reply(200, None)
        with cluster.changed:
            found = views.operator(cluster, principal, kind, self.values, time.time(), self.started)
        if found is None:
            # The real one has more calls; a name that it does not know is no type for it.
            raise Failure(400, "Failed to validate master::Call: Expecting 'type' to be present")
        return Reply(200, found)

    def agent(self, request: Request, path: str) -> Reply:
        """What agents use in place of libprocess messages."""
        principal = access.principal_of(request.headers.get("Authorization", ""), self.secrets)
        if principal is None and (is_set(self.values, "authenticate_agents") or request.headers.get("Authorization")):
            raise unauthorized(READWRITE)
        cluster = self.leading(request)
        if path == "/stand_in/report":
            return Reply(200, cluster.report(principal, request.json()))
        return Reply(200, {"commands": cluster.commands(request.one("id"), 10)})

    def scheduler(self, request: Request) -> Reply:
        """The scheduler API v1. Marathon's own library speaks libprocess; both are authenticated here by the same flag."""
        wanted = "authenticate_frameworks" if is_set(self.values, "authenticate_frameworks") else "authenticate_http_frameworks"
        principal = self.principal(request, wanted, SCHEDULER)
        cluster = self.leading(request)
        call = request.json()
        if call["type"] != "SUBSCRIBE":
            calls.handle(cluster, principal, request.headers.get("Mesos-Stream-Id", ""), call)
            return Reply(202)
        try:
            framework = cluster.subscribe(principal, call["subscribe"]["framework_info"])
        except ValueError as error:
            return Reply(200, stream=iter_of([{"type": "ERROR", "error": {"message": str(error)}}]))
        return Reply(200, None, {"Mesos-Stream-Id": framework.stream}, stream=follow(cluster, framework, framework.stream))


def posted(request: Request) -> None:
    if request.method != "POST":
        raise Failure(405, f"405 Method Not Allowed. Expecting one of {{ 'POST' }}, but received '{request.method}'.")


def iter_of(events: list[dict[str, Any]]) -> Iterator[bytes]:
    for event in events:
        yield record(event)


def follow(cluster: Cluster, framework: Framework, stream: str) -> Iterator[bytes]:
    """Events of a framework, until another of its processes subscribes or it leaves."""
    try:
        while framework.stream == stream:
            with cluster.changed:
                cluster.changed.wait_for(lambda: bool(framework.events) or framework.stream != stream, 15)
                if framework.stream != stream:
                    return
                events, framework.events = framework.events, []
            for event in events or [{"type": "HEARTBEAT"}]:
                yield record(event)
    finally:
        with cluster.changed:
            if framework.stream == stream:
                framework.stream = ""
                cluster.rescind(lambda offer: offer[1] == framework.id)


def main() -> int:
    try:
        values = mesos("mesos-master", sys.argv[1:], dict(os.environ))
        if "version" in values:
            print("mesos 1.11.0")
            return 0
        if "zk" not in values:
            raise Refused("The stand-in needs --zk")
        threading.current_thread().name = "master"
        Master(values).run()
    except Refused as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
