# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""HTTP surface of the stand-in agent: metrics, state, the files of sandboxes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import access
import resources as amounts
from options import is_set
from web import Failure, Reply, Request, unauthorized

if TYPE_CHECKING:
    from agent import Agent


class AgentWeb:
    """Answers for an agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def answer(self, request: Request) -> Reply:
        agent = self.agent
        if request.path in ("/health", "/slave(1)/health"):
            return Reply(200, "")
        if request.path == "/version":
            return Reply(200, {"version": "1.11.0"})
        principal = access.principal_of(request.headers.get("Authorization", ""), agent.secrets)
        if principal is None and is_set(agent.values, "authenticate_http_readonly"):
            raise unauthorized("mesos-agent-readonly")
        with agent.lock:
            if request.path == "/metrics/snapshot":
                if not access.approved(agent.acls, "get_endpoints", principal, request.path):
                    raise Failure(403)
                return Reply(200, self.metrics())
            if request.path in ("/state", "/slave(1)/state"):
                return Reply(200, self.state(principal))
            if request.path == "/flags":
                return Reply(200, {"flags": agent.values}) if access.approved(agent.acls, "view_flags", principal) else Reply(403)
            if request.path in ("/files/read", "/files/read.json", "/files/download"):
                return self.file(request, principal)
        raise Failure(404)

    def running(self) -> list[dict[str, Any]]:
        return [task.record for task in self.agent.tasks.values() if task.record["state"] in ("TASK_STAGING", "TASK_RUNNING")]

    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = {"slave/registered": float(self.agent.id is not None), "slave/tasks_running": float(len(self.running()))}
        for name in amounts.SCALARS:
            total = self.agent.info["resources"].get(name, 0.0)
            used = sum(record["resources"].get(name, 0.0) for record in self.running())
            found |= {f"slave/{name}_total": total, f"slave/{name}_used": used, f"slave/{name}_percent": used / total if total else 0.0}
        return found

    def state(self, principal: str | None) -> dict[str, Any]:
        seen = [record for record in self.running() if access.approved(self.agent.acls, "view_tasks", principal, record["user"])]
        return {
            "id": self.agent.id,
            "version": "1.11.0",
            "hostname": self.agent.info["hostname"],
            "attributes": self.agent.info["attributes"],
            "resources": amounts.old_json(self.agent.info["resources"]),
            "tasks": [{key: record[key] for key in ("task_id", "framework_id", "name", "state", "user", "sandbox")} for record in seen],
        }

    def file(self, request: Request, principal: str | None) -> Reply:
        """A file of a sandbox, for whoever may read sandboxes of the task's account."""
        path = Path(request.one("path")).resolve()
        owners = [task.record["user"] for task in self.agent.tasks.values() if path.is_relative_to(task.record["sandbox"])]
        inside = path.is_relative_to((self.agent.work / "slaves").resolve())
        if not inside or not all(access.approved(self.agent.acls, "access_sandboxes", principal, owner) for owner in owners or [""]):
            raise Failure(403)
        if not path.is_file():
            raise Failure(404)
        text = path.read_text(encoding="utf-8", errors="replace")
        return Reply(200, text) if request.path.endswith("download") else Reply(200, {"data": text, "offset": 0})
