# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for Chronos 3.0.2, and for the build with the patch for GPUs: jobs by schedule and by dependency."""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import access
import jobs
from keeper import Keeper, Place
from options import Refused, Values, scallop
from scheduler import Scheduler
from web import Failure, Reply, Request, call, keystore, serve, unauthorized

ENDED = {"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE_BY_OPERATOR"}


class Chronos:
    """One process: it waits to be elected, then its jobs are those of ZooKeeper."""

    def __init__(self, values: Values, gpu: bool) -> None:
        self.values, self.gpu = values, gpu
        self.lock = threading.RLock()
        self.state: dict[str, Any] = {"jobs": {}, "tasks": {}, "framework": None}
        self.waiting: list[str] = []
        self.offers: dict[str, dict[str, Any]] = {}
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.leader, self.leading = "", False
        # Its standby asks the leader by http on this port, even where http is off (RedirectFilter.scala).
        self.mine = f"{values.get('hostname') or os.uname().nodename}:{values.get('http_port', '8080')}"
        self.known = values.get("http_credentials") or os.environ.get("MESOSPHERE_HTTP_CREDENTIALS", "")

    def run(self) -> None:
        values = self.values
        store = values.get("ssl_keystore_path") or os.environ.get("MESOSPHERE_KEYSTORE_PATH", "")
        hosts = values.get("zk_hosts", "localhost:2181").removeprefix("zk://").partition("/")[0]
        user, _colon, password = values.get("zk_auth", "").partition(":")
        if any(len(server.split(":")) != 2 for server in hosts.split(",")):
            raise Refused("requirement failed: Error, zookeeper servers must be provided in the form host1:port2,host2:port2")
        if store:
            secret = values.get("ssl_keystore_password") or os.environ.get("MESOSPHERE_KEYSTORE_PASS", "")
            serve(values.get("https_address", "0.0.0.0"), int(values.get("https_port", "8443")), keystore(store, secret), self.answer)
        if "disable_http" not in values:
            serve(values.get("http_address", "0.0.0.0"), int(values.get("http_port", "8080")), None, self.answer)
        self.root = values.get("zk_path", "/chronos/state")
        self.keeper = Keeper(Place(hosts, self.root, user or None, password or None))
        self.keeper.ensure(f"{self.root}/state")
        latch = f"{self.root}/candidate"
        self.keeper.ensure(latch)
        node = self.keeper.client.create(f"{latch}/latch-", self.mine.encode(), acl=self.keeper.acl, ephemeral=True, sequence=True)
        self.keeper.watch(latch, "latch-", lambda name: self.elected(latch, name, node.rsplit("/", 1)[1]))
        while True:
            time.sleep(0.5)
            if self.leading:
                with self.lock:
                    self.step(datetime.now(timezone.utc))

    def elected(self, latch: str, name: str | None, node: str) -> None:
        self.leader = self.keeper.text(f"{latch}/{name}") if name else ""
        if name != node or self.leading:
            return
        self.state = self.keeper.read(f"{self.root}/state/stand_in") or self.state
        values = self.values
        capabilities = [{"type": "GPU_RESOURCES"}] if "gpu_resources" in values.get("enable_features", "") else []
        info = {
            "name": values.get("mesos_framework_name", "chronos"),
            "user": values.get("user", "root"),
            "hostname": values.get("hostname", ""),
            "failover_timeout": float(values.get("failover_timeout", "604800")),
            "checkpoint": True,
            "role": values.get("mesos_role", "*"),
            "capabilities": capabilities,
        }
        if "mesos_authentication_principal" in values:
            info["principal"] = values["mesos_authentication_principal"]
        if self.state["framework"]:
            info["id"] = self.state["framework"]
        self.scheduler = Scheduler(values.get("master", "local"), info, values.get("mesos_authentication_secret_file"), self.handle)
        self.scheduler.start()
        self.leading = True
        print(f"Elected as the leader: {self.mine}", file=sys.stderr, flush=True)

    def save(self) -> None:
        self.keeper.write(f"{self.root}/state/stand_in", self.state)

    def handle(self, event: dict[str, Any]) -> None:
        with self.lock:
            if event["type"] == "SUBSCRIBED":
                self.state["framework"] = event["subscribed"]["framework_id"]
                self.save()
                self.scheduler.send("RECONCILE", {"reconcile": {"tasks": []}})
            elif event["type"] == "OFFERS":
                self.offers |= {offer["id"]["value"]: offer for offer in event["offers"]["offers"]}
            elif event["type"] == "RESCIND":
                self.offers.pop(event["rescind"]["offer_id"]["value"], None)
            elif event["type"] == "UPDATE":
                self.update(event["update"]["status"])
            elif event["type"] == "ERROR":
                print(f"Error: {event['error']['message']}", file=sys.stderr, flush=True)
                os._exit(1)

    def update(self, status: dict[str, Any]) -> None:
        """Count how a task ended; a success starts the jobs that depend on it."""
        identity, state = status["task_id"]["value"], status["state"]
        task = self.state["tasks"].get(identity)
        if task is None or task["state"] == state:
            return
        task["state"] = state
        job = self.state["jobs"].get(task["job"])
        if state in ENDED:
            del self.state["tasks"][identity]
            entry = {"taskId": identity, "jobStart": task["start"], "jobEnd": time.time(), "taskStatus": state, "slaveId": task["agent"]}
            self.history.setdefault(task["job"], []).append({**entry, "message": status.get("message", "")})
            now = datetime.now(timezone.utc).isoformat()
            if job and state == "TASK_FINISHED":
                job.update(successCount=job["successCount"] + 1, errorsSinceLastSuccess=0, lastSuccess=now)
                self.waiting += [one["name"] for one in self.state["jobs"].values() if task["job"] in one.get("parents", [])]
            elif job:
                job.update(errorCount=job["errorCount"] + 1, errorsSinceLastSuccess=job["errorsSinceLastSuccess"] + 1, lastError=now)
                most = int(self.values.get("disable_after_failures", "0"))
                if most and job["errorsSinceLastSuccess"] >= most:
                    job["disabled"] = True
        self.save()

    def step(self, now: datetime) -> None:
        """Start what is due on what was offered."""
        for name, job in list(self.state["jobs"].items()):
            start, self.state["jobs"][name] = jobs.due(job, now)
            if start and name not in self.waiting:
                self.waiting.append(name)
                self.save()
        for name in list(self.waiting):
            wanted = self.state["jobs"].get(name)
            offer = next((one for one in self.offers.values() if wanted and jobs.fits(wanted, one)), None)
            if wanted and offer:
                self.waiting.remove(name)
                del self.offers[offer["id"]["value"]]
                identity = f"ct:{int(time.time() * 1000)}:0:{name}:"
                started = {"job": name, "state": "TASK_STAGING", "start": time.time(), "agent": offer["agent_id"]["value"]}
                self.state["tasks"][identity] = started
                self.save()
                self.scheduler.launch([offer["id"]["value"]], [jobs.task_info(wanted, identity, offer, self.values.get("user", "root"))])
        for key in list(self.offers):
            del self.offers[key]
            self.scheduler.decline(key, 2)

    def answer(self, request: Request) -> Reply:
        if self.known:
            name, _colon, secret = self.known.partition(":")
            if access.principal_of(request.headers.get("Authorization", ""), {name: secret}) is None:
                raise unauthorized(self.values.get("http_realm", "Mesosphere"), {"message": "Unauthorized"})
        # Of all paths (ChronosRestModule.scala), /ping and /leader among them.
        if not self.leading:
            return self.forward(request)
        if request.path == "/ping":
            return Reply(200, "pong")
        if request.path == "/metrics":
            return Reply(200, {"gauges": {}})
        path = request.path.removeprefix("/v1").removeprefix("/scheduler")
        if path == "/leader":
            return Reply(200, {"leader": self.leader})
        with self.lock:
            return self.api(request, path)

    def forward(self, request: Request) -> Reply:
        sent = {name: request.headers[name] for name in ("Authorization", "Accept", "Content-Type") if request.headers.get(name)}
        try:
            response = call(f"http://{self.leader}{request.target}", request.method, request.body or None, sent)
            return Reply(response.status, response.read().decode(), {"Content-Type": response.headers.get("Content-Type", "")})
        except (OSError, ValueError) as error:
            text = f"Error proxying request to leader (maybe the leadership just changed?)\n\nError:\n{error}"
            raise Failure(500, text) from error

    def api(self, request: Request, path: str) -> Reply:
        known = self.state["jobs"]
        parts = [part for part in path.split("/") if part]
        if path in ("/jobs", "/jobs/search"):
            return Reply(200, [job for job in known.values() if request.one("name") in job["name"]])
        if path == "/jobs/summary":
            return Reply(200, {"jobs": [self.summary(job) for job in known.values()]})
        if path in ("/iso8601", "/dependency"):
            body = request.json()
            if path == "/dependency" and not set(body.get("parents") or [""]) <= set(known):
                raise jobs.problem("java.lang.Exception: Error, parent does not exist")
            known[body["name"]] = jobs.complete(body, known.get(body["name"]), self.gpu)
            self.save()
            return Reply(204)
        if path == "/graph/csv":
            lines = [f"node,{job['name']},{self.last(job)},{self.summary(job)['state']}" for job in known.values()]
            return Reply(200, "\n".join([*lines, *(f"link,{up},{job['name']}" for job in known.values() for up in job.get("parents", []))]))
        if path == "/graph/dot":
            edges = [f'"{up}" -> "{job["name"]}"' for job in known.values() for up in job.get("parents", [])]
            return Reply(200, "digraph G {\n" + "\n".join(edges) + "\n}")
        if path == "/isMaster":
            return Reply(200, True)
        if parts[:1] == ["stats"]:
            return Reply(200, [])
        if parts[:2] == ["task", "kill"]:
            return self.kill(self.find(parts[2]))
        if parts[:1] == ["job"] and len(parts) > 1:
            return self.job(request, parts[1:])
        raise Failure(404, "")

    def find(self, name: str) -> jobs.Job:
        if name not in self.state["jobs"]:
            raise jobs.problem(f"java.lang.IllegalArgumentException: requirement failed: Job '{name}' not found")
        return dict(self.state["jobs"][name])

    def job(self, request: Request, parts: list[str]) -> Reply:
        if parts[0] == "stat":
            return Reply(200, {"taskStatHistory": self.history.get(self.find(parts[1])["name"], []), "histogram": {}})
        if parts[0] == "success":
            self.state["jobs"][self.find(parts[1])["name"]]["errorsSinceLastSuccess"] = 0
            return Reply(200, f"marked job {parts[1]} as successful: true")
        job = self.find(parts[0])
        if request.method == "GET":
            return Reply(200, job)
        if request.method == "PUT":
            self.waiting.append(job["name"])
        elif request.method == "DELETE":
            self.kill(job)
            del self.state["jobs"][job["name"]]
        self.save()
        return Reply(204)

    def kill(self, job: jobs.Job) -> Reply:
        for identity, task in self.state["tasks"].items():
            if task["job"] == job["name"]:
                self.scheduler.kill(identity, task["agent"])
        return Reply(204)

    def last(self, job: jobs.Job) -> str:
        if not job["lastSuccess"] and not job["lastError"]:
            return "fresh"
        return "success" if job["lastSuccess"] > job["lastError"] else "failure"

    def summary(self, job: jobs.Job) -> dict[str, Any]:
        count = sum(task["job"] == job["name"] and task["state"] == "TASK_RUNNING" for task in self.state["tasks"].values())
        state = f"{count} running" if count else "queued" if job["name"] in self.waiting else "idle"
        return {
            "name": job["name"],
            "status": self.last(job),
            "state": state,
            "schedule": job.get("schedule", ""),
            "disabled": job["disabled"],
        }


def main() -> int:
    marker = Path(__file__).parent / "chronos.version"
    version = os.environ.get("STAND_IN_VERSION") or marker.read_text(encoding="ascii").strip()
    gpu = version.endswith("gpu")
    try:
        values = scallop("chronos", "chronos-gpu" if gpu else "chronos", sys.argv[1:])
        Chronos(values, gpu).run()
    except Refused as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
