# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Applications of the stand-in Marathon: defaults, what is refused, task descriptions. No socket and no file."""

from __future__ import annotations

import math
import re
import time
import uuid
from datetime import datetime, timezone
from typing import Any

import resources as amounts
from web import Failure

App = dict[str, Any]
SEGMENT = re.compile(r"^(([a-z0-9]|[a-z0-9][a-z0-9\-]*[a-z0-9])\.)*([a-z0-9]|[a-z0-9][a-z0-9\-]*[a-z0-9])|(\.|\.\.)$")
DEFAULTS: App = {
    "cpus": 1.0,
    "mem": 128.0,
    "disk": 0.0,
    "gpus": 0,
    "instances": 1,
    "labels": {},
    "env": {},
    "constraints": [],
    "healthChecks": [],
    "fetch": [],
    "networks": [{"mode": "host"}],
    "backoffSeconds": 1,
    "backoffFactor": 1.15,
    "maxLaunchDelaySeconds": 300,
    "killSelection": "YOUNGEST_FIRST",
    "requirePorts": False,
    "upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 1},
    "unreachableStrategy": {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 0},
}


def stamp() -> str:
    now = datetime.now(timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def invalid(path: str, text: str) -> Failure:
    """A validation that failed, in Marathon's form."""
    return Failure(422, {"message": "Object is not valid", "details": [{"path": path, "errors": [text]}]})


def path_of(name: str) -> str:
    """The absolute id of an application."""
    return "/" + name.strip("/")


def check(app: App) -> None:
    """Refuse what Marathon's AppValidation refuses, as far as tests need it."""
    if not all(SEGMENT.match(part) for part in app["id"].strip("/").split("/")):
        raise invalid("/id", "must fully match regular expression '" + SEGMENT.pattern + "'")
    if not app.get("cmd") and not app.get("args") and not (app.get("container") or {}).get("docker"):
        raise invalid("/", "AppDefinition must either contain one of 'cmd' or 'args', and/or a 'container'.")
    if app.get("cmd") and app.get("args"):
        raise invalid("/", "AppDefinition must either contain one of 'cmd' or 'args', and/or a 'container'.")
    if app.get("gpus", 0) and (app.get("container") or {}).get("type", "MESOS") == "DOCKER":
        raise invalid("/", "GPU resources only work with the Mesos containerizer")
    for name in ("cpus", "mem", "disk", "gpus", "instances"):
        if not isinstance(app[name], (int, float)) or app[name] < 0:
            raise invalid(f"/{name}", f"got {app[name]}, expected 0 or more")
    if app["gpus"] != int(app["gpus"]):
        raise invalid("/gpus", "error.expected.int")


def complete(body: App, former: App | None, taken: set[int], first: int, last: int, gpus: bool) -> App:
    """An application with all of its defaults and its service ports; a partial body changes the former one."""
    app = {**DEFAULTS, **(former or {}), **body}
    app["id"] = path_of(app["id"])
    for name in ("tasks", "deployments", "tasksRunning", "tasksStaged", "tasksHealthy", "tasksUnhealthy", "versionInfo", "uris"):
        app.pop(name, None)
    check(app)
    if app["gpus"] and not gpus:
        raise invalid("/gpus", "Feature gpu_resources is not enabled. Enable with --enable_features gpu_resources)")
    if "ports" in body and "portDefinitions" not in body:
        app["portDefinitions"] = [{"port": port, "protocol": "tcp", "labels": {}} for port in body["ports"]]
    app.setdefault("portDefinitions", [{"port": 0, "protocol": "tcp", "labels": {}}])
    app["portDefinitions"] = [dict(entry) for entry in app["portDefinitions"]]
    free = (port for port in range(first, last + 1) if port not in taken)
    for entry in app["portDefinitions"]:
        entry.setdefault("protocol", "tcp")
        if not entry.get("port"):
            entry["port"] = next(free, 0)
            if not entry["port"]:
                raise Failure(500, {"message": f"All ports in the range [{first}-{last}) are already in use"})
    app["ports"] = [entry["port"] for entry in app["portDefinitions"]]
    app["version"] = stamp()
    return app


def changes_tasks(old: App, new: App) -> bool:
    """Whether running tasks are of another kind now: a change of the number alone keeps them."""
    skip = {"instances", "version", "kept"}
    return {key: value for key, value in old.items() if key not in skip} != {key: value for key, value in new.items() if key not in skip}


def needed(app: App) -> amounts.Resources:
    return {name: float(app[name]) for name in amounts.SCALARS}


def matches(app: App, offer: dict[str, Any], mine: list[dict[str, Any]], behaviour: str) -> bool:
    """Whether an offer suits an application: resources, constraints, and GPUs kept for those who ask for them."""
    free = amounts.from_json(offer["resources"])
    if not amounts.fits(needed(app), free):
        return False
    if free.get("gpus") and not app["gpus"] and behaviour == "restricted":
        return False
    attributes = {entry["name"]: entry.get("text", entry.get("scalar", {})).get("value") for entry in offer.get("attributes", [])}
    attributes["hostname"] = offer["hostname"]
    for constraint in app["constraints"]:
        field, operator, value = (*constraint, None)[:3]
        seen = [task["attributes"].get(field) for task in mine]
        here = attributes.get(field)
        if operator == "UNIQUE" and here in seen:
            return False
        if operator == "CLUSTER" and ((value and str(here) != value) or (seen and here != seen[0])):
            return False
        if operator == "LIKE" and not re.fullmatch(value or "", str(here)):
            return False
        if operator == "UNLIKE" and re.fullmatch(value or "", str(here)):
            return False
        if operator == "IS" and str(here) != value:
            return False
    count = len(app["portDefinitions"])
    return sum(last - begin + 1 for begin, last in free.get("ports", [])) >= count


def ports_of(app: App, offer: dict[str, Any]) -> list[int]:
    """Host ports out of an offer; the wanted ones with requirePorts."""
    free = [port for first, last in amounts.from_json(offer["resources"]).get("ports", []) for port in range(first, last + 1)]
    if app["requirePorts"]:
        return [entry["port"] for entry in app["portDefinitions"]]
    return free[: len(app["portDefinitions"])]


def task_info(app: App, offer: dict[str, Any], ports: list[int], user: str) -> dict[str, Any]:
    """A task in the v1 API, with Marathon's variables (mesosphere/mesos TaskBuilder.scala)."""
    identity = f"{app['id'].strip('/').replace('/', '_')}.instance-{uuid.uuid4()}._app.1"
    variables = {key: value for key, value in app["env"].items() if isinstance(value, str)}
    variables |= {
        "MARATHON_APP_ID": app["id"],
        "MARATHON_APP_VERSION": app["version"],
        "MESOS_TASK_ID": identity,
        "HOST": offer["hostname"],
    }
    variables |= {f"MARATHON_APP_RESOURCE_{name.upper()}": str(app[name]) for name in ("cpus", "mem", "disk", "gpus")}
    variables["MARATHON_APP_LABELS"] = " ".join(key.upper() for key in app["labels"])
    variables |= {f"MARATHON_APP_LABEL_{re.sub(r'[^A-Z0-9_]', '_', key.upper())}": value for key, value in app["labels"].items()}
    for number, port in enumerate(ports):
        variables |= {f"PORT{number}": str(port), f"PORT_{app['portDefinitions'][number]['port']}": str(port)}
    if ports:
        variables |= {"PORT": str(ports[0]), "PORTS": ",".join(map(str, ports))}
    command: dict[str, Any] = {"environment": {"variables": [{"name": key, "value": value} for key, value in variables.items()]}}
    command |= {"shell": True, "value": app["cmd"]} if app.get("cmd") else {"shell": False, "arguments": app.get("args", [])}
    command["user"] = app.get("user") or user
    return {
        "name": ".".join(reversed(app["id"].strip("/").split("/"))),
        "task_id": {"value": identity},
        "agent_id": offer["agent_id"],
        "resources": amounts.to_json({**needed(app), "ports": [[port, port] for port in ports]}),
        "command": command,
        "kill_policy": {"grace_period": {"nanoseconds": int(app.get("taskKillGracePeriodSeconds", 3) * 1e9)}},
        **({"container": app["container"]} if app.get("container") else {}),
    }


def steps(app: App, current: list[dict[str, Any]], former: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    """How many tasks to start, and which to kill: by upgradeStrategy for those of a former version."""
    wanted = int(app["instances"])
    strategy = app["upgradeStrategy"]
    most = wanted + max(1, math.ceil(wanted * strategy["maximumOverCapacity"])) if former and strategy["maximumOverCapacity"] else wanted
    least = math.ceil(wanted * strategy["minimumHealthCapacity"])
    start = max(0, min(wanted - len(current), most - len(current) - len(former)))
    ready = sum(is_ready(app, task) for task in current)
    spare = max(0, ready + len(former) - least) if ready < wanted else len(former)
    kill = former[:spare]
    surplus = len(current) - wanted
    if surplus > 0:
        youngest = app["killSelection"] == "YOUNGEST_FIRST"
        kill = kill + sorted(current, key=lambda task: task["stagedAt"], reverse=youngest)[:surplus]
    return start, kill


def is_ready(app: App, task: dict[str, Any]) -> bool:
    """Whether a task counts: it runs, and its health checks say so."""
    return task["state"] == "TASK_RUNNING" and (not app["healthChecks"] or bool(task.get("alive")))


def delay(app: App, failures: int, last: float) -> float:
    """Seconds until the next start after failures."""
    if not failures:
        return 0.0
    wait = min(app["backoffSeconds"] * app["backoffFactor"] ** (failures - 1), app["maxLaunchDelaySeconds"])
    return max(0.0, float(last + wait - time.time()))
