# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Agents, frameworks and tasks of a master, and their forms in the v1 API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import resources as amounts
from options import seconds

ENDED = {"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE_BY_OPERATOR"}


@dataclass
class Agent:
    """One agent. drain is {"state", "config"}; commands wait for its next question."""

    id: str
    info: dict[str, Any]
    seen: float
    registered: float
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    active: bool = True
    unreachable: bool = False
    drain: dict[str, Any] | None = None
    deactivated: bool = False

    def used(self) -> amounts.Resources:
        total: amounts.Resources = {}
        for task in self.tasks.values():
            if task["state"] not in ENDED:
                total = amounts.plus(total, task["resources"])
        return amounts.plus(total, {})


@dataclass
class Framework:
    """One framework. events wait for its stream; declined holds until when it wants no offer of an agent."""

    id: str
    info: dict[str, Any]
    principal: str | None
    registered: float
    stream: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    declined: dict[str, float] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    suppressed: bool = False
    left: float = 0.0

    def can(self, capability: str) -> bool:
        return any(entry.get("type") == capability for entry in self.info.get("capabilities", []))

    def roles(self) -> list[str]:
        return list(self.info.get("roles") or [self.info.get("role", "*")])


def grace(value: Any) -> float:
    """Seconds of a duration: an object, as the operator API's document has it, or text, as that of maintenance has."""
    return float(value.get("seconds", 0)) if isinstance(value, dict) else seconds(value)


def status(task: dict[str, Any], agent: str) -> dict[str, Any]:
    """A task's status in the v1 API."""
    return {
        "task_id": {"value": task["task_id"]},
        "agent_id": {"value": agent},
        "state": task["state"],
        "source": "SOURCE_EXECUTOR",
        "reason": task.get("reason", "REASON_COMMAND_EXECUTOR_FAILED"),
        "message": task.get("message", ""),
        "timestamp": task["timestamp"],
        "uuid": task.get("uuid", ""),
    }


def offer(key: str, agent: Agent, framework: str, rest: amounts.Resources) -> dict[str, Any]:
    """An offer in the v1 API."""
    return {
        "id": {"value": key},
        "framework_id": {"value": framework},
        "agent_id": {"value": agent.id},
        "hostname": agent.info["hostname"],
        "resources": amounts.to_json(rest),
        "attributes": attribute_list(agent.info["attributes"]),
    }


def attribute_list(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes in the v1 API."""
    return [
        {"name": name, "type": "TEXT", "text": {"value": value}}
        if isinstance(value, str)
        else {"name": name, "type": "SCALAR", "scalar": {"value": value}}
        for name, value in found.items()
    ]
