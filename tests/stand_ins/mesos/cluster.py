# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a leading master knows: agents, frameworks, offers, tasks. No socket and no file, so unit tests drive it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import resources as amounts
from access import approved
from options import Values, is_set, seconds
from parts import ENDED, Agent, Framework, grace, offer, status
from web import Failure


class Cluster:
    """All of it, under one lock. save is called with the registry when that changed."""

    def __init__(self, values: Values, acls: dict[str, Any] | None, save: Callable[[dict[str, Any]], None]) -> None:
        self.values, self.acls, self.save = values, acls, save
        self.changed = threading.Condition(threading.RLock())
        self.agents: dict[str, Agent] = {}
        self.frameworks: dict[str, Framework] = {}
        self.offers: dict[str, tuple[str, str, amounts.Resources, float]] = {}
        self.registry: dict[str, Any] = {"agents": {}, "removed": []}
        self.began = time.time()
        self.gone_after = seconds(values.get("agent_ping_timeout", "15secs")) * int(values.get("max_agent_ping_timeouts", "5"))

    # Agents

    def report(self, principal: str | None, body: dict[str, Any]) -> dict[str, Any]:
        """Take what an agent says of itself; a new one gets its id."""
        if not approved(self.acls, "register_agents", principal):
            raise Failure(403, {"message": "Not authorized to register agent"})
        with self.changed:
            identity = body.get("id") or f"{uuid.uuid4()}-S{len(self.registry['agents'])}"
            known = self.registry["agents"].get(identity, {})
            if known.get("gone"):
                raise Failure(410, {"message": "Agent has been marked gone"})
            now = time.time()
            agent = self.agents.get(identity)
            if agent is None:
                self.replace(body["info"])
                agent = self.agents[identity] = Agent(identity, body["info"], now, now)
                agent.drain, agent.deactivated = known.get("drain"), bool(known.get("deactivated"))
                if agent.drain:
                    agent.commands.append({"drain": agent.drain["config"]})
                self.remember(agent)
            if agent.unreachable:
                agent.unreachable = False
                self.remember(agent)
            agent.info, agent.seen, agent.active = body["info"], now, True
            told = {task["task_id"]: task for task in body["tasks"]}
            # A task that was sent to the agent, of which it has not heard yet, stays.
            staging = {key: task for key, task in agent.tasks.items() if key not in told and now - task["timestamp"] < 30}
            acknowledged = set(body.get("forgotten", []))
            agent.tasks = {**{key: task for key, task in staging.items() if key not in acknowledged}, **told}
            self.settle(agent)
            self.deliver()
            return {"id": identity}

    def commands(self, identity: str, wait: float) -> list[dict[str, Any]]:
        """Give an agent what it is to do, after some seconds at most."""
        with self.changed:
            agent = self.agents.get(identity)
            if agent is None:
                raise Failure(404, {"message": "Agent is not registered"})
            agent.seen = time.time()
            self.changed.wait_for(lambda: bool(agent.commands), wait)
            given, agent.commands = agent.commands, []
            return given

    def remember(self, agent: Agent) -> None:
        self.registry["agents"][agent.id] = {
            "drain": agent.drain,
            "deactivated": agent.deactivated,
            "hostname": agent.info["hostname"],
            "port": agent.info["port"],
        }
        self.save(self.registry)

    def listed(self) -> list[Agent]:
        """The agents that /slaves shows: not those that were silent for long."""
        return [agent for agent in self.agents.values() if not agent.unreachable]

    def recovered(self) -> list[dict[str, Any]]:
        """Agents of the registry that have not registered with this leader yet."""
        if time.time() - self.began > self.gone_after:
            return []
        return [
            {"id": identity, "hostname": known["hostname"], "port": known["port"]}
            for identity, known in self.registry["agents"].items()
            if "port" in known and not known.get("unreachable") and identity not in self.agents
        ]

    def replace(self, info: dict[str, Any]) -> None:
        """An agent that registers at the address of a former one takes its place: master.cpp removes the one that is disconnected."""
        for former in [one for one in self.agents.values() if (one.info["ip"], one.info["port"]) == (info["ip"], info["port"])]:
            self.rescind(lambda offer: offer[0] == former.id)  # noqa: B023  # because it is called at once
            for task in former.tasks.values():
                framework = self.frameworks.get(task["framework_id"])
                if framework and task["state"] not in ENDED:
                    state = "TASK_GONE" if framework.can("PARTITION_AWARE") else "TASK_LOST"
                    task.update(state=state, uuid=str(uuid.uuid4()), reason="REASON_SLAVE_REMOVED")
            self.deliver()
            del self.agents[former.id]
            self.registry["agents"].pop(former.id, None)

    def settle(self, agent: Agent) -> None:
        """A draining agent without tasks is drained."""
        if agent.drain and agent.drain["state"] == "DRAINING" and not agent.tasks:
            agent.drain = {**agent.drain, "state": "DRAINED"}
            if agent.drain["config"].get("mark_gone"):
                self.forget(agent.id)
            else:
                self.remember(agent)

    def forget(self, identity: str) -> None:
        """Mark an agent gone: it does not come back under this id."""
        self.registry["agents"][identity] = {"gone": True}
        self.agents.pop(identity, None)
        self.save(self.registry)

    def operate(self, principal: str | None, call: dict[str, Any]) -> None:
        """DRAIN_AGENT, DEACTIVATE_AGENT, REACTIVATE_AGENT and MARK_AGENT_GONE."""
        kind = call["type"]
        rights = {
            "DRAIN_AGENT": "drain_agents",
            "DEACTIVATE_AGENT": "deactivate_agents",
            "REACTIVATE_AGENT": "reactivate_agents",
            "MARK_AGENT_GONE": "mark_agents_gone",
        }
        if not approved(self.acls, rights[kind], principal):
            raise Failure(403)
        request = call[kind.lower()]
        with self.changed:
            agent = self.agents.get(request["agent_id"]["value"])
            if agent is None and kind == "MARK_AGENT_GONE":
                raise Failure(404, f"Agent '{request['agent_id']['value']}' not found")
            if kind == "REACTIVATE_AGENT" and (agent is None or not agent.deactivated):
                raise Failure(400, "Agent is not deactivated")
            if agent is None:
                raise Failure(400, "Unknown agent")
            if kind == "MARK_AGENT_GONE":
                agent.commands.append({"shutdown": True})
                self.forget(agent.id)
                return
            if kind == "DRAIN_AGENT":
                config: dict[str, Any] = {"mark_gone": bool(request.get("mark_gone"))}
                if "max_grace_period" in request:
                    config["max_grace_period"] = {"nanoseconds": int(grace(request["max_grace_period"]) * 1e9)}
                agent.drain, agent.deactivated = {"state": "DRAINING", "config": config}, True
                agent.commands.append({"drain": config})
            elif kind == "DEACTIVATE_AGENT":
                agent.deactivated = True
            else:
                if agent.drain and agent.drain["state"] == "DRAINING":
                    raise Failure(400, "Agent is still in the DRAINING state")
                agent.drain, agent.deactivated = None, False
            self.rescind(lambda offer: offer[0] == agent.id and agent.deactivated)
            self.remember(agent)
            self.settle(agent)
            self.changed.notify_all()

    # Frameworks

    def subscribe(self, principal: str | None, info: dict[str, Any]) -> Framework:
        """Take a framework, new or back again. The sentences are those of master.cpp."""
        if info.get("user") == "root" and not is_set(self.values, "root_submissions", True):
            raise ValueError("User 'root' is not allowed to run frameworks without --root_submissions set")
        if principal and info.get("principal") and info["principal"] != principal:
            raise ValueError(f"Authenticated principal '{principal}' does not match principal '{info['principal']}' set in FrameworkInfo")
        roles = info.get("roles") or [info.get("role", "*")]
        if not all(approved(self.acls, "register_frameworks", principal or info.get("principal"), role) for role in roles):
            known = info.get("id", {}).get("value", "")
            raise ValueError(f"Not authorized to register framework {known} with roles {{ {', '.join(roles)} }}")
        with self.changed:
            identity = info.get("id", {}).get("value") or f"{uuid.uuid4()}-{len(self.frameworks):04d}"
            if identity in self.registry["removed"]:
                raise ValueError("Framework has been removed")
            framework = self.frameworks.setdefault(identity, Framework(identity, info, principal, time.time()))
            self.rescind(lambda offer: offer[1] == identity)
            framework.info, framework.principal, framework.stream = {**info, "id": {"value": identity}}, principal, str(uuid.uuid4())
            framework.events, framework.sent, framework.declined, framework.suppressed = [], set(), {}, False
            framework.events.append(
                {"type": "SUBSCRIBED", "subscribed": {"framework_id": {"value": identity}, "heartbeat_interval_seconds": 15}}
            )
            self.deliver()
            return framework

    def remove(self, identity: str) -> None:
        """Tear a framework down: its tasks are killed, its id is not taken again."""
        with self.changed:
            framework = self.frameworks.pop(identity, None)
            if framework is None:
                raise Failure(400, "No framework found with specified ID")
            framework.stream = ""
            self.registry["removed"].append(identity)
            self.save(self.registry)
            for agent in self.agents.values():
                mine = [task for task in agent.tasks.values() if task["framework_id"] == identity]
                agent.commands += [{"kill": task["task_id"], "grace": 0, "forget": True} for task in mine]
            self.rescind(lambda offer: offer[1] == identity)
            self.changed.notify_all()

    def deliver(self) -> None:
        """Send each framework the updates that it has not seen."""
        for agent in self.agents.values():
            for task in agent.tasks.values():
                framework = self.frameworks.get(task["framework_id"])
                if framework and framework.stream and task.get("uuid") and task["uuid"] not in framework.sent:
                    framework.sent.add(task["uuid"])
                    framework.events.append({"type": "UPDATE", "update": {"status": status(task, agent.id)}})
        self.changed.notify_all()

    def rescind(self, applies: Callable[[tuple[str, str, amounts.Resources, float]], bool]) -> None:
        for key in [key for key, entry in self.offers.items() if applies(entry)]:
            framework = self.frameworks.get(self.offers.pop(key)[1])
            if framework:
                framework.events.append({"type": "RESCIND", "rescind": {"offer_id": {"value": key}}})

    def free(self, agent: Agent) -> amounts.Resources:
        """What no task has and no offer holds."""
        rest = amounts.minus(agent.info["resources"], agent.used())
        for owner, _framework, offered, _until in self.offers.values():
            if owner == agent.id:
                rest = amounts.minus(rest, offered)
        return rest

    def allocate(self) -> None:
        """Offer what is free; the framework with the fewest tasks comes first. Called about each second."""
        with self.changed:
            now = time.time()
            self.rescind(lambda offer: offer[3] < now)
            for agent in self.agents.values():
                if agent.active and now - agent.seen > self.gone_after:
                    self.unreachable(agent)
            held = seconds(self.values["offer_timeout"]) if "offer_timeout" in self.values else 1e9
            for agent in self.agents.values():
                rest = self.free(agent)
                if not agent.active or agent.deactivated or (rest["cpus"] < 0.01 and rest["mem"] < 32):
                    continue
                wanting = [framework for framework in self.frameworks.values() if self.may_have(framework, agent, now)]
                if wanting:
                    framework = min(wanting, key=lambda one: self.count(one.id))
                    key = str(uuid.uuid4())
                    self.offers[key] = (agent.id, framework.id, rest, now + held)
                    framework.events.append({"type": "OFFERS", "offers": {"offers": [offer(key, agent, framework.id, rest)]}})
            self.deliver()

    def may_have(self, framework: Framework, agent: Agent, now: float) -> bool:
        if not framework.stream or framework.suppressed or framework.declined.get(agent.id, 0) > now:
            return False
        hidden = agent.info["resources"].get("gpus") and is_set(self.values, "filter_gpu_resources", True)
        return not hidden or framework.can("GPU_RESOURCES")

    def count(self, identity: str) -> int:
        return sum(task["framework_id"] == identity for agent in self.agents.values() for task in agent.tasks.values())

    def unreachable(self, agent: Agent) -> None:
        """An agent that is silent for long: its tasks may live on, which is not known."""
        agent.active, agent.unreachable = False, True
        self.registry["agents"][agent.id]["unreachable"] = True
        self.save(self.registry)
        self.rescind(lambda offer: offer[0] == agent.id)
        for task in agent.tasks.values():
            if task["state"] not in ENDED:
                framework = self.frameworks.get(task["framework_id"])
                aware = framework is not None and framework.can("PARTITION_AWARE")
                task.update(state="TASK_UNREACHABLE" if aware else "TASK_LOST", uuid=str(uuid.uuid4()), reason="REASON_SLAVE_REMOVED")
