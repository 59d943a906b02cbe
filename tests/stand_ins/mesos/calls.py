# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of frameworks to the master: the scheduler API v1, as far as Marathon, Chronos and pymesos use it."""

from __future__ import annotations

import time
import uuid
from typing import Any

import resources as amounts
from access import approved
from cluster import Cluster
from parts import ENDED, Agent, Framework, status
from web import Failure

# A stand-in's agents have neither a Docker daemon nor an image store.
DOCKER = "The stand-in has no Docker containerizer"


def handle(cluster: Cluster, principal: str | None, stream: str, call: dict[str, Any]) -> None:
    """Do one call of a subscribed framework."""
    with cluster.changed:
        framework = cluster.frameworks.get(call.get("framework_id", {}).get("value", ""))
        if framework is None:
            raise Failure(400, "Framework cannot be found")
        if framework.principal != principal:
            owner = framework.principal
            raise Failure(400, f"Authenticated principal '{principal}' does not match principal '{owner}' set in `FrameworkInfo`")
        if not stream or framework.stream != stream:
            raise Failure(400, "The stream ID included in this request didn't match the stream ID currently associated with framework ID")
        kind = call["type"]
        if kind == "ACCEPT":
            accept(cluster, framework, call["accept"])
        elif kind == "DECLINE":
            give_back(cluster, framework, call["decline"])
        elif kind == "REVIVE":
            framework.declined, framework.suppressed = {}, False
        elif kind == "SUPPRESS":
            framework.suppressed = True
        elif kind == "KILL":
            kill(cluster, framework, call["kill"])
        elif kind == "ACKNOWLEDGE":
            acknowledge(cluster, call["acknowledge"])
        elif kind == "RECONCILE":
            reconcile(cluster, framework, call["reconcile"].get("tasks", []))
        elif kind == "TEARDOWN":
            cluster.remove(framework.id)
        elif kind not in ("MESSAGE", "REQUEST", "SHUTDOWN"):
            raise Failure(400, f"Unknown call {kind}")
        cluster.changed.notify_all()


def give_back(cluster: Cluster, framework: Framework, body: dict[str, Any]) -> list[tuple[Agent, amounts.Resources]]:
    """Take offers out; their agents are not offered for the filter's time."""
    taken = []
    for entry in body.get("offer_ids", []):
        offer = cluster.offers.get(entry["value"])
        if offer and offer[1] == framework.id:
            del cluster.offers[entry["value"]]
            framework.declined[offer[0]] = time.time() + float(body.get("filters", {}).get("refuse_seconds", 5))
            if offer[0] in cluster.agents:
                taken.append((cluster.agents[offer[0]], offer[2]))
    return taken


def accept(cluster: Cluster, framework: Framework, body: dict[str, Any]) -> None:
    """Launch tasks on what was offered."""
    taken = give_back(cluster, framework, body)
    rest: amounts.Resources = {}
    for _agent, offered in taken:
        rest = amounts.plus(rest, offered)
    for operation in body.get("operations", []):
        for info in operation.get("launch", {}).get("task_infos", []):
            wanted = amounts.from_json(info.get("resources", []))
            problem = refused(cluster, framework, info, wanted)
            if not taken or not taken[0][0].active or taken[0][0].deactivated:
                tell(
                    framework,
                    info,
                    "TASK_DROPPED" if framework.can("PARTITION_AWARE") else "TASK_LOST",
                    "Task launched with invalid offers",
                )
            elif problem:
                tell(framework, info, "TASK_ERROR", problem)
            elif not amounts.fits(wanted, rest):
                tell(framework, info, "TASK_ERROR", f"Total resources required by task {wanted} is more than what is offered {rest}")
            else:
                rest = amounts.minus(rest, wanted)
                launch(taken[0][0], framework, info, wanted)


def user_of(framework: Framework, info: dict[str, Any]) -> str:
    """The account of a task: its own, else the framework's."""
    return str(info.get("command", {}).get("user") or framework.info.get("user") or "root")


def refused(cluster: Cluster, framework: Framework, info: dict[str, Any], wanted: amounts.Resources) -> str:
    """Why a task is not launched; empty if it is."""
    if wanted.get("gpus", 0) != int(wanted.get("gpus", 0)):
        return "Task uses invalid resources: The 'gpus' resource must be an unsigned integer"
    user = user_of(framework, info)
    if not approved(cluster.acls, "run_tasks", framework.principal or framework.info.get("principal"), user):
        return f"Not authorized to launch task {info['task_id']['value']} of framework {framework.id} under user '{user}'"
    if "executor" in info:
        return "The stand-in runs commands only, no executor of a framework"
    return DOCKER if info.get("container", {}).get("type") == "DOCKER" else ""


def launch(agent: Agent, framework: Framework, info: dict[str, Any], wanted: amounts.Resources) -> None:
    task = {
        "task_id": info["task_id"]["value"],
        "framework_id": framework.id,
        "name": info.get("name", ""),
        "resources": wanted,
        "state": "TASK_STAGING",
        "timestamp": time.time(),
        "user": user_of(framework, info),
        "labels": info.get("labels", {}).get("labels", []),
    }
    agent.tasks[task["task_id"]] = task
    grace = info.get("kill_policy", {}).get("grace_period", {}).get("nanoseconds", 3e9) / 1e9
    agent.commands.append({"launch": {**task, "command": info.get("command", {}), "grace": grace}})


def tell(framework: Framework, info: dict[str, Any], state: str, message: str) -> None:
    """An update that the master itself sends; it needs no acknowledgement."""
    task = {
        "task_id": info["task_id"]["value"],
        "state": state,
        "message": message,
        "timestamp": time.time(),
        "reason": "REASON_TASK_INVALID",
    }
    update = {**status(task, info.get("agent_id", {}).get("value", "")), "source": "SOURCE_MASTER"}
    update.pop("uuid")
    framework.events.append({"type": "UPDATE", "update": {"status": update}})


def find(cluster: Cluster, framework: Framework, identity: str) -> tuple[Agent, dict[str, Any]] | None:
    for agent in cluster.agents.values():
        task = agent.tasks.get(identity)
        if task and task["framework_id"] == framework.id:
            return agent, task
    return None


def kill(cluster: Cluster, framework: Framework, body: dict[str, Any]) -> None:
    known = find(cluster, framework, body["task_id"]["value"])
    if known is None:
        tell(framework, {"task_id": body["task_id"]}, "TASK_LOST", "Attempted to kill an unknown task")
        return
    policy = body.get("kill_policy", {}).get("grace_period", {}).get("nanoseconds")
    known[0].commands.append({"kill": known[1]["task_id"], **({} if policy is None else {"grace": policy / 1e9})})


def acknowledge(cluster: Cluster, body: dict[str, Any]) -> None:
    """A task that ended is forgotten when its framework has heard of it."""
    agent = cluster.agents.get(body["agent_id"]["value"])
    task = agent.tasks.get(body["task_id"]["value"]) if agent else None
    if agent and task and task["state"] in ENDED and task.get("uuid") == body["uuid"]:
        agent.commands.append({"forget": task["task_id"]})
        del agent.tasks[task["task_id"]]
        cluster.settle(agent)


def reconcile(cluster: Cluster, framework: Framework, wanted: list[dict[str, Any]]) -> None:
    """Report the states of tasks: of all that are known, or of those that are named."""
    # Of an agent that has not registered at a new leader yet nothing is said.
    missing = set(cluster.registry["agents"]) - set(cluster.agents)
    awaited = [entry["task_id"]["value"] for entry in wanted if entry.get("agent_id", {}).get("value") in missing]
    names = [entry["task_id"]["value"] for entry in wanted if entry["task_id"]["value"] not in awaited]
    for agent in cluster.agents.values():
        for task in agent.tasks.values():
            if task["framework_id"] == framework.id and (not wanted or task["task_id"] in names):
                answer = {**status(task, agent.id), "source": "SOURCE_MASTER", "reason": "REASON_RECONCILIATION"}
                framework.events.append({"type": "UPDATE", "update": {"status": {**answer, "uuid": answer["uuid"] or str(uuid.uuid4())}}})
    for name in names:
        if find(cluster, framework, name) is None:
            tell(framework, {"task_id": {"value": name}}, "TASK_LOST", "Reconciliation: Task is unknown")
