# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for Marathon: its flags, its leader in the real ZooKeeper, applications that run on the stand-in of Mesos."""

from __future__ import annotations

import json
import os
import queue
import ssl
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import apps
from keeper import Keeper, place
from marathon_state import EMPTY, answers, read_backup, write_backup
from marathon_web import MarathonWeb
from options import Refused, Values, arguments_of, scallop
from scheduler import Scheduler
from web import java_trust, keystore, serve

ENDED = {"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE_BY_OPERATOR", "TASK_GONE"}
FEATURES = {"gpu_resources", "task_killing", "external_volumes", "vips", "secrets", "maintenance_mode", "async"}


class Marathon:
    """One process: it waits to be elected, then its state is that of ZooKeeper."""

    def __init__(self, values: Values, version: str) -> None:
        self.values, self.version = values, version
        self.check()
        self.lock = threading.RLock()
        self.state: dict[str, Any] = json.loads(json.dumps(EMPTY))
        self.offers: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, tuple[int, float]] = {}
        self.last: dict[str, dict[str, Any]] = {}
        self.listeners: list[tuple[queue.Queue[bytes], set[str]]] = []
        self.leader: str | None = None
        self.leading = False
        self.scheduler: Scheduler | None = None
        secure = "disable_http" in values
        port = values.get("https_port", "8443") if secure else values.get("http_port", "8080")
        self.mine = f"{values.get('hostname') or os.uname().nodename}:{port}"
        self.scheme = "https" if secure else "http"

    def check(self) -> None:
        """Refuse what the start of Marathon refuses."""
        values = self.values
        features = set(filter(None, values.get("enable_features", "").split(",")))
        if features - FEATURES:
            raise Refused(
                f"requirement failed: Unknown features specified: {', '.join(sorted(features - FEATURES))}. Available features are: ..."
            )
        if values.get("gpu_scheduling_behavior", "undefined") != "undefined" and "gpu_resources" not in features:
            raise Refused("requirement failed: gpu_resources must be set in order to use gpu_scheduling_behavior")
        if "mesos_authentication" in values and "mesos_authentication_principal" not in values:
            raise Refused(
                "[scallop] Error: When specifying 'mesos_authentication', at least 'mesos_authentication_principal' must be provided"
            )
        if "disable_http" in values and not self.store():
            raise Refused("HTTPS cannot be enabled without a keystore: no --ssl_keystore_path", 111)
        self.features = features

    def store(self) -> str:
        return self.values.get("ssl_keystore_path") or os.environ.get("MESOSPHERE_KEYSTORE_PATH", "")

    def forwarding(self) -> ssl.SSLContext:
        """How a standby checks the leader's certificate: by the authorities that Java trusts."""
        context = java_trust(os.environ.get("JAVA_OPTS", ""))
        context.check_hostname = "leader_proxy_ssl_ignore_hostname" not in self.values
        return context

    def run(self) -> None:
        values = self.values
        web = MarathonWeb(self)
        refusal = "zk is not a valid zk url; it should formatted like zk://user:pass@host1:port1,host2:port2/path"
        where = place(values.get("zk", "zk://localhost:2181/marathon"), f"[scallop] Error: Bad arguments for option 'zk': {refusal}")
        if self.store():
            password = values.get("ssl_keystore_password") or os.environ.get("MESOSPHERE_KEYSTORE_PASS", "")
            serve(
                values.get("https_address", "0.0.0.0"), int(values.get("https_port", "8443")), keystore(self.store(), password), web.answer
            )
        if "disable_http" not in values:
            serve(values.get("http_address", "0.0.0.0"), int(values.get("http_port", "8080")), None, web.answer)
        self.keeper = Keeper(where, int(values.get("zk_session_timeout", "10000")) / 1000, code=101, code_first=100)
        self.root = where.path
        self.keeper.ensure(f"{self.root}/leader-curator")
        latch = f"{self.root}/leader-curator"
        node = self.keeper.client.create(
            f"{latch}/_c_{uuid.uuid4()}-latch-", self.mine.encode(), acl=self.keeper.acl, ephemeral=True, sequence=True
        ).rsplit("/", 1)[1]
        self.keeper.watch(latch, "-latch-", lambda name: self.elected(latch, name, node))
        while True:
            time.sleep(0.5)
            if self.leading:
                with self.lock:
                    self.step()

    def elected(self, latch: str, name: str | None, node: str) -> None:
        """A new leader; if it is this one, read the state, after a backup or restore that was asked for."""
        self.leader = self.keeper.text(f"{latch}/{name}") or None if name else None
        if name != node or self.leading:
            return
        runtime = self.keeper.read(f"{self.root}/state/runtime") or {}
        node_of_state = f"{self.root}/state/stand_in"
        if runtime.get("backup"):
            write_backup(runtime["backup"], self.keeper.read(node_of_state) or EMPTY)
        if runtime.get("restore"):
            self.keeper.write(node_of_state, read_backup(runtime["restore"]))
        self.keeper.write(f"{self.root}/state/runtime", {})
        self.state = {**json.loads(json.dumps(EMPTY)), **(self.keeper.read(node_of_state) or {})}
        info: dict[str, Any] = {
            "name": self.values.get("framework_name", "marathon"),
            "user": self.values.get("mesos_user", os.environ.get("USER", "root")),
            "hostname": self.values.get("hostname", ""),
            "failover_timeout": float(self.values.get("failover_timeout", "604800")),
            "checkpoint": True,
            "roles": [self.values.get("mesos_role", "*")],
            "webui_url": f"{self.scheme}://{self.mine}",
            "capabilities": [{"type": "PARTITION_AWARE"}, {"type": "MULTI_ROLE"}],
        }
        if "gpu_resources" in self.features:
            info["capabilities"].append({"type": "GPU_RESOURCES"})
        if "mesos_authentication" in self.values:
            info["principal"] = self.values["mesos_authentication_principal"]
        if self.state["framework"]:
            info["id"] = self.state["framework"]
        self.scheduler = Scheduler(self.values["master"], info, self.values.get("mesos_authentication_secret_file"), self.handle)
        self.scheduler.start()
        self.leading = True
        print(f"Elected as the leader: {self.mine}", file=sys.stderr, flush=True)

    def abdicate(self, backup: str, restore: str) -> None:
        """Note what the next leader is to do, and end: systemd starts the process again."""
        self.keeper.write(f"{self.root}/state/runtime", {"backup": backup, "restore": restore})
        threading.Timer(0.5, lambda: os._exit(105)).start()

    def save(self) -> None:
        self.keeper.write(f"{self.root}/state/stand_in", self.state)

    def tell(self, kind: str, **body: Any) -> None:
        """An event for all who listen."""
        text = json.dumps({"eventType": kind, "timestamp": apps.stamp(), **body})
        for waiting, wanted in list(self.listeners):
            if not wanted or kind in wanted:
                waiting.put(f"event: {kind}\r\ndata: {text}\r\n\r\n".encode())

    def handle(self, event: dict[str, Any]) -> None:
        """An event of the master."""
        with self.lock:
            if event["type"] == "SUBSCRIBED":
                self.state["framework"] = event["subscribed"]["framework_id"]
                self.save()
                known = [{"task_id": {"value": key}, "agent_id": {"value": task["slaveId"]}} for key, task in self.state["tasks"].items()]
                if known and self.scheduler:
                    self.scheduler.send("RECONCILE", {"reconcile": {"tasks": known}})
            elif event["type"] == "OFFERS":
                for offer in event["offers"]["offers"]:
                    self.offers[offer["id"]["value"]] = offer
            elif event["type"] == "RESCIND":
                self.offers.pop(event["rescind"]["offer_id"]["value"], None)
            elif event["type"] == "UPDATE":
                self.update(event["update"]["status"])
            elif event["type"] == "ERROR":
                print(f"Mesos scheduler error: {event['error']['message']}", file=sys.stderr, flush=True)
                os._exit(110 if "removed" in event["error"]["message"] else 106)

    def update(self, status: dict[str, Any]) -> None:
        identity, state = status["task_id"]["value"], status["state"]
        task = self.state["tasks"].get(identity)
        if task is None:
            if state not in ENDED and self.scheduler:
                self.scheduler.kill(identity, status["agent_id"]["value"])
            return
        if task["state"] == state:
            return
        task["state"] = state
        if state == "TASK_RUNNING":
            task["startedAt"] = apps.stamp()
        if state in ENDED or state == "TASK_UNREACHABLE":
            del self.state["tasks"][identity]
            if state not in ("TASK_FINISHED", "TASK_KILLED"):
                failure = {"appId": task["appId"], "taskId": identity, "state": state, "host": task["host"], "version": task["version"]}
                self.last[task["appId"]] = {**failure, "message": status.get("message", ""), "timestamp": apps.stamp()}
            count = self.failures.get(task["appId"], (0, 0.0))[0] + (state != "TASK_KILLED")
            self.failures[task["appId"]] = (count, time.time())
        self.save()
        about = {"slaveId": task["slaveId"], "taskId": identity, "taskStatus": state, "message": status.get("message", "")}
        about |= {"appId": task["appId"], "host": task["host"], "ports": task["ports"], "version": task["version"]}
        self.tell("status_update_event", **about)

    def mine_of(self, app: str) -> list[dict[str, Any]]:
        return [task for task in self.state["tasks"].values() if task["appId"] == app]

    def step(self) -> None:
        """Bring the tasks of each application nearer to what is wanted, and end deployments that are done."""
        for name, app in list(self.state["apps"].items()):
            tasks = self.mine_of(name)
            current = [task for task in tasks if task["version"] == app["kept"] and not task.get("killing")]
            former = [task for task in tasks if task["version"] != app["kept"] and not task.get("killing")]
            self.check_health(app, current)
            start, kill = apps.steps(app, current, former)
            for task in kill:
                self.kill(task)
            if start and not apps.delay(app, *self.failures.get(name, (0, 0.0))):
                self.launch(app, start)
            ready = sum(apps.is_ready(app, task) for task in current) == app["instances"] == len(tasks)
            for key, deployment in list(self.state["deployments"].items()):
                if deployment["affectedApps"] == [name] and ready:
                    self.finish(key)
        for key, deployment in list(self.state["deployments"].items()):
            if all(name not in self.state["apps"] and not self.mine_of(name) for name in deployment["affectedApps"]):
                self.finish(key)
        for task in list(self.state["tasks"].values()):
            if task["appId"] not in self.state["apps"]:
                self.kill(task)
        for key in list(self.offers):
            self.offers.pop(key)
            if self.scheduler:
                self.scheduler.decline(key, 2)

    def finish(self, key: str) -> None:
        deployment = self.state["deployments"].pop(key)
        self.save()
        self.tell("deployment_success", id=key, plan=deployment)

    def kill(self, task: dict[str, Any]) -> None:
        """Ask Mesos to kill a task, again each five seconds until it is gone."""
        if self.scheduler and time.time() - task.get("killing", 0) > 5:
            task["killing"] = time.time()
            self.scheduler.kill(task["id"], task["slaveId"])

    def launch(self, app: apps.App, count: int) -> None:
        behaviour = self.values.get("gpu_scheduling_behavior", "undefined")
        for key, offer in list(self.offers.items()):
            if count and self.scheduler and apps.matches(app, offer, self.mine_of(app["id"]), behaviour):
                del self.offers[key]
                count -= 1
                ports = apps.ports_of(app, offer)
                info = apps.task_info(app, offer, ports, self.values.get("mesos_user", "root"))
                attributes = {entry["name"]: entry.get("text", entry.get("scalar", {})).get("value") for entry in offer["attributes"]}
                task = {
                    "id": info["task_id"]["value"],
                    "appId": app["id"],
                    "host": offer["hostname"],
                    "ports": ports,
                    "version": app["kept"],
                }
                task |= {
                    "slaveId": offer["agent_id"]["value"],
                    "state": "TASK_STAGING",
                    "stagedAt": apps.stamp(),
                    "servicePorts": app["ports"],
                }
                task["attributes"] = {**attributes, "hostname": offer["hostname"]}
                self.state["tasks"][task["id"]] = task
                self.save()
                self.scheduler.launch([key], [info])

    def check_health(self, app: apps.App, tasks: list[dict[str, Any]]) -> None:
        """Ask each running task by HTTP or TCP; after the failures that are allowed it is killed."""
        for probe in app["healthChecks"]:
            for task in tasks:
                if task["state"] != "TASK_RUNNING" or time.time() - task.get("probed", 0) < min(probe.get("intervalSeconds", 60), 5):
                    continue
                task["probed"] = time.time()
                alive = answers(task["host"], task["ports"][probe.get("portIndex", 0)], probe)
                if alive != task.get("alive"):
                    task["alive"] = alive
                    about = {"appId": app["id"], "taskId": task["id"], "instanceId": task["id"], "version": task["version"], "alive": alive}
                    self.tell("health_status_changed_event", **about)
                task["misses"] = 0 if alive else task.get("misses", 0) + 1
                started = time.time() - task.setdefault("since", time.time())
                most = probe.get("maxConsecutiveFailures", 3)
                if most and task["misses"] >= most and started > probe.get("gracePeriodSeconds", 300):
                    self.kill(task)


def main() -> int:
    version = os.environ.get("STAND_IN_VERSION") or (Path(__file__).parent / "marathon.version").read_text(encoding="ascii").strip()
    flags = "marathon-1.5" if version.startswith("1.5.") else "marathon-1.10"
    try:
        values = scallop("marathon", flags, arguments_of("MARATHON_", dict(os.environ)) + sys.argv[1:])
        Marathon(values, version).run()
    except Refused as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
