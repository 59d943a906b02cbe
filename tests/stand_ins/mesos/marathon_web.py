# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""HTTP surface of the stand-in Marathon."""

from __future__ import annotations

import os
import queue
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import access
import apps
from web import Failure, Reply, Request, call, unauthorized

if TYPE_CHECKING:
    from marathon import Marathon


class MarathonWeb:
    """Answers for one process; a standby forwards to the leader and redirects listeners to it."""

    def __init__(self, marathon: Marathon) -> None:
        self.marathon = marathon
        self.known = marathon.values.get("http_credentials") or os.environ.get("MESOSPHERE_HTTP_CREDENTIALS", "")

    def answer(self, request: Request) -> Reply:
        marathon = self.marathon
        if self.known:
            name, _colon, secret = self.known.partition(":")
            if access.principal_of(request.headers.get("Authorization", ""), {name: secret}) is None:
                raise unauthorized(marathon.values.get("http_realm", "Mesosphere"), {"message": "Unauthorized"})
        if request.path == "/ping":
            return Reply(200, "pong")
        if request.path == "/metrics":
            return Reply(
                200, {"version": "3.0.0", "gauges": {"service.mesosphere.marathon.leaderDuration": {"value": int(marathon.leading)}}}
            )
        if request.path == "/v2/leader" and request.method == "GET":
            return Reply(200, {"leader": marathon.leader}) if marathon.leader else Reply(404, {"message": "There is no leader"})
        if not marathon.leading:
            return self.forward(request)
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] != ["v2"] or len(parts) < 2:
            raise Failure(404, {"message": "URI not found"})
        handler = getattr(self, f"do_{parts[1]}", None)
        if handler is None:
            raise Failure(404, {"message": "URI not found"})
        if parts[1] == "events":
            return self.do_events(request, [])
        with marathon.lock:
            reply: Reply = handler(request, parts[2:])
            reply.headers["X-Marathon-Leader"] = f"{marathon.scheme}://{marathon.mine}"
            return reply

    def forward(self, request: Request) -> Reply:
        marathon = self.marathon
        if not marathon.leader or marathon.leader == marathon.mine:
            raise Failure(502, "Could not determine the current leader")
        url = f"{marathon.scheme}://{marathon.leader}{request.target}"
        if request.path == "/v2/events":
            raise Failure(302, None, Location=url)
        sent = {name: request.headers[name] for name in ("Authorization", "Accept", "Content-Type") if request.headers.get(name)}
        try:
            response = call(url, request.method, request.body or None, sent, marathon.forwarding())
            text = response.read().decode()
        except OSError as error:
            raise Failure(502, f"Failed to complete request: {error}") from error
        headers = {"Content-Type": response.headers.get("Content-Type", "application/json"), "Via": f"1.1 {marathon.mine}"}
        return Reply(response.status, text, headers)

    # Applications

    def shown(self, app: apps.App, tasks: bool) -> dict[str, Any]:
        """An application as it is answered."""
        marathon = self.marathon
        mine = marathon.mine_of(app["id"])
        running = [task for task in mine if task["state"] == "TASK_RUNNING"]
        counts = {
            "tasksStaged": len(mine) - len(running),
            "tasksRunning": len(running),
            "tasksHealthy": sum(task.get("alive") is True for task in running),
            "tasksUnhealthy": sum(task.get("alive") is False for task in running),
        }
        waiting = [{"id": key} for key, entry in marathon.state["deployments"].items() if app["id"] in entry["affectedApps"]]
        found = {key: value for key, value in app.items() if key != "kept"}
        found |= {**counts, "deployments": waiting, "versionInfo": {"lastConfigChangeAt": app["kept"], "lastScalingAt": app["version"]}}
        return {**found, "tasks": [task_of(task) for task in mine]} if tasks else found

    def deploy(self, request: Request, names: list[str], action: str) -> dict[str, str]:
        """Begin a deployment, unless another one holds an application and force is not given."""
        marathon = self.marathon
        locked = [key for key, entry in marathon.state["deployments"].items() if set(names) & set(entry["affectedApps"])]
        default = "true" if request.method == "DELETE" and request.path.startswith("/v2/apps") else "false"
        if locked and request.one("force", default) != "true":
            text = "App is locked by one or more deployments. Override with the option '?force=true'. "
            text += "View details at '/v2/deployments/<DEPLOYMENT_ID>'."
            raise Failure(409, {"message": text, "deployments": [{"id": key} for key in locked]})
        for key in locked:
            marathon.state["deployments"].pop(key)
        key, version = str(uuid.uuid4()), apps.stamp()
        steps = [{"actions": [{"action": action, "app": name} for name in names]}]
        marathon.state["deployments"][key] = {"id": key, "version": version, "affectedApps": names, "affectedPods": [], "steps": steps}
        return {"version": version, "deploymentId": key}

    def do_apps(self, request: Request, parts: list[str]) -> Reply:
        marathon = self.marathon
        known = marathon.state["apps"]
        embed = request.query.get("embed", [])
        if not parts and request.method == "GET":
            listed = [self.shown(app, "apps.tasks" in embed) for app in known.values() if wanted(app, request)]
            return Reply(200, {"apps": listed})
        if not parts and request.method == "POST":
            body = request.json()
            name = apps.path_of(body["id"])
            if name in known:
                raise Failure(409, {"message": f"An app with id [{name}] already exists."})
            app = self.put(request, name, body, None)
            return Reply(201, self.shown(app, True), {"Location": f"/v2/apps{name}"})
        if not parts:
            entries = request.json()
            for entry in entries:
                self.put(request, apps.path_of(entry["id"]), entry, known.get(apps.path_of(entry["id"])))
            last = list(marathon.state["deployments"].values())[-1]
            return Reply(200, {"version": last["version"], "deploymentId": last["id"]})
        tail = parts.pop() if parts[-1] in ("tasks", "versions", "restart") else ""
        name = "/" + "/".join(parts)
        if name not in known and (request.method != "PUT" or tail):
            raise Failure(404, {"message": f"App '{name}' does not exist"})
        if tail == "tasks":
            return self.tasks_of(request, name)
        if tail == "versions":
            return Reply(200, {"versions": [known[name]["version"]]})
        if tail == "restart":
            answer = self.deploy(request, [name], "RestartApplication")
            known[name]["version"] = known[name]["kept"] = apps.stamp()
            marathon.save()
            return Reply(200, answer)
        if request.method == "GET":
            last = {"lastTaskFailure": marathon.last[name]} if name in marathon.last else {}
            return Reply(200, {"app": {**self.shown(known[name], True), **last}})
        if request.method in ("PUT", "PATCH"):
            new = name not in known
            partial = request.one("partialUpdate", "true") == "true"
            self.put(request, name, {**request.json(), "id": name}, known.get(name) if partial else None)
            last = list(marathon.state["deployments"].values())[-1]
            return Reply(201 if new else 200, {"version": last["version"], "deploymentId": last["id"]})
        answer = self.deploy(request, [name], "StopApplication")
        del known[name]
        marathon.save()
        marathon.tell("app_terminated_event", appId=name)
        return Reply(200, answer, {"Marathon-Deployment-Id": answer["deploymentId"]})

    def put(self, request: Request, name: str, body: dict[str, Any], former: apps.App | None) -> apps.App:
        marathon = self.marathon
        known = marathon.state["apps"]
        taken = {port for other, app in known.items() if other != name for port in app["ports"]}
        first, last = (int(marathon.values.get(f"local_port_{end}", port)) for end, port in (("min", "10000"), ("max", "20000")))
        app = apps.complete({**body, "id": name}, former, taken, first, last, "gpu_resources" in marathon.features)
        old = known.get(name)
        self.deploy(request, [name], "ScaleApplication" if old and not apps.changes_tasks(old, app) else "StartApplication")
        app["kept"] = old["kept"] if old and not apps.changes_tasks(old, app) else app["version"]
        known[name] = app
        marathon.failures.pop(name, None)
        marathon.last.pop(name, None)
        marathon.save()
        marathon.tell("api_post_event", clientIp="127.0.0.1", uri=request.path, appDefinition=self.shown(app, False))
        return app

    def tasks_of(self, request: Request, name: str) -> Reply:
        marathon = self.marathon
        mine = marathon.mine_of(name)
        if request.method == "DELETE":
            for task in mine:
                marathon.kill(task)
            if request.one("scale") == "true":
                marathon.state["apps"][name]["instances"] = 0
                return Reply(200, self.deploy(request, [name], "ScaleApplication"))
        return Reply(200, {"tasks": [task_of(task) for task in mine]})

    # The rest of the API

    def do_tasks(self, request: Request, parts: list[str]) -> Reply:
        marathon = self.marathon
        if request.method == "POST" and parts == ["delete"]:
            for identity in request.json()["ids"]:
                if identity in marathon.state["tasks"]:
                    marathon.kill(marathon.state["tasks"][identity])
            return Reply(200, {"tasks": []})
        states = {"running": "TASK_RUNNING", "staging": "TASK_STAGING"}
        asked = {states[one] for one in request.query.get("status", []) + request.query.get("status[]", [])}
        return Reply(200, {"tasks": [task_of(task) for task in marathon.state["tasks"].values() if not asked or task["state"] in asked]})

    def do_deployments(self, request: Request, parts: list[str]) -> Reply:
        known = self.marathon.state["deployments"]
        if request.method == "GET":
            return Reply(200, [{**entry, "currentStep": 1, "totalSteps": 1, "currentActions": []} for entry in known.values()])
        if not parts or parts[0] not in known:
            raise Failure(404, {"message": f"DeploymentPlan {parts[0] if parts else ''} does not exist"})
        entry = known.pop(parts[0])
        self.marathon.save()
        self.marathon.tell("deployment_failed", id=parts[0])
        return Reply(200, {"version": entry["version"], "deploymentId": entry["id"]})

    def do_groups(self, request: Request, parts: list[str]) -> Reply:
        prefix = "/" + "".join(f"{part}/" for part in parts)
        mine = [self.shown(app, False) for name, app in self.marathon.state["apps"].items() if name.startswith(prefix)]
        if parts and not mine:
            raise Failure(404, {"message": f"Group '{prefix.rstrip('/')}' does not exist"})
        empty: dict[str, Any] = {"groups": [], "pods": [], "dependencies": []}
        return Reply(200, {"id": prefix.rstrip("/") or "/", "apps": mine, "version": apps.stamp(), **empty})

    def do_queue(self, request: Request, parts: list[str]) -> Reply:
        """Applications with fewer tasks than wanted."""
        marathon = self.marathon
        waiting = []
        for name, app in marathon.state["apps"].items():
            missing = app["instances"] - len(marathon.mine_of(name))
            if missing > 0:
                left = apps.delay(app, *marathon.failures.get(name, (0, 0.0)))
                pause = {"timeLeftSeconds": int(left), "overdue": left == 0}
                waiting.append({"app": self.shown(app, False), "count": missing, "delay": pause, "since": app["version"]})
        if request.method == "DELETE":
            marathon.failures.clear()
            return Reply(204)
        return Reply(200, {"queue": waiting})

    def do_info(self, request: Request, parts: list[str]) -> Reply:
        marathon = self.marathon
        hidden = ("secret", "password", "credentials", "zk", "master")
        config = {key: value for key, value in marathon.values.items() if not any(word in key for word in hidden)}
        framework = (marathon.state["framework"] or {}).get("value")
        about = {"name": "marathon", "version": marathon.version, "elected": True, "leader": marathon.leader, "frameworkId": framework}
        return Reply(200, {**about, "marathon_config": config, "http_config": {}, "zookeeper_config": {}})

    def do_leader(self, request: Request, parts: list[str]) -> Reply:
        for key in ("backup", "restore"):
            if request.one(key) and not request.one(key).startswith("file:///"):
                raise Failure(422, {"message": f"Invalid URI or unsupported scheme: {request.one(key)}"})
        self.marathon.abdicate(request.one("backup"), request.one("restore"))
        return Reply(200, {"message": "Leadership abdicated"})

    def do_events(self, request: Request, parts: list[str]) -> Reply:
        asked = set(request.query.get("event_type", []))
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        return Reply(200, None, headers, self.events(asked, request.headers.get("X-Forwarded-For", "127.0.0.1")))

    def events(self, asked: set[str], client: str) -> Iterator[bytes]:
        waiting: queue.Queue[bytes] = queue.Queue()
        entry = (waiting, asked)
        self.marathon.listeners.append(entry)
        self.marathon.tell("event_stream_attached", remoteAddress=client)
        try:
            # Jetty's response begins at once; a client waits for its head.
            yield b"\r\n"
            while True:
                try:
                    yield waiting.get(timeout=5)
                except queue.Empty:
                    yield b"\r\n"
        finally:
            self.marathon.listeners.remove(entry)


def wanted(app: apps.App, request: Request) -> bool:
    """The filters id, cmd and label of a listing."""
    labels = [pair.partition("==") for pair in filter(None, request.one("label").split(","))]
    fits = all(app["labels"].get(key) == value if equals else key in app["labels"] for key, equals, value in labels)
    return fits and request.one("id") in app["id"] and request.one("cmd") in (app.get("cmd") or "")


def task_of(task: dict[str, Any]) -> dict[str, Any]:
    """A task as it is answered."""
    keys = ("id", "appId", "host", "ports", "servicePorts", "version", "slaveId", "state", "stagedAt", "startedAt")
    found: dict[str, Any] = {key: task[key] for key in keys if key in task}
    found["ipAddresses"] = [{"ipAddress": task["host"], "protocol": "IPv4"}]
    if "alive" in task:
        found["healthCheckResults"] = [{"alive": task["alive"], "consecutiveFailures": task.get("misses", 0), "taskId": task["id"]}]
    return found
