# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the master's endpoints show: /slaves, /state, /metrics/snapshot and the GET calls of the operator API."""

from __future__ import annotations

from typing import Any

import resources as amounts
from access import approved
from cluster import Cluster
from parts import ENDED, Agent, Framework, attribute_list

VERSION = {"version": "1.11.0", "build_date": "1970-01-01 00:00:00", "build_time": 0.0, "build_user": "stand-in"}


def pid(agent: Agent) -> str:
    return f"slave(1)@{agent.info['ip']}:{agent.info['port']}"


def offered(cluster: Cluster, agent: Agent) -> amounts.Resources:
    total: amounts.Resources = amounts.plus({}, {})
    for owner, _framework, rest, _until in cluster.offers.values():
        if owner == agent.id:
            total = amounts.plus(total, rest)
    return total


def slave(cluster: Cluster, agent: Agent) -> dict[str, Any]:
    """An entry of /slaves."""
    return {
        "id": agent.id,
        "hostname": agent.info["hostname"],
        "port": agent.info["port"],
        "pid": pid(agent),
        "registered_time": agent.registered,
        "resources": amounts.old_json(agent.info["resources"]),
        "used_resources": amounts.old_json(agent.used()),
        "offered_resources": amounts.old_json(offered(cluster, agent)),
        "unreserved_resources": amounts.old_json(agent.info["resources"]),
        "reserved_resources": {},
        "attributes": agent.info["attributes"],
        "active": agent.active and not agent.deactivated,
        "deactivated": agent.deactivated,
        "version": agent.info["version"],
        "capabilities": ["MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT", "TASK_RESOURCE_LIMITS", "AGENT_DRAINING"],
        **({"drain_info": agent.drain} if agent.drain else {}),
    }


def agent_v1(cluster: Cluster, agent: Agent) -> dict[str, Any]:
    """An entry of GET_AGENTS."""
    total, used, free = (amounts.to_json(one) for one in (agent.info["resources"], agent.used(), offered(cluster, agent)))
    return {
        "agent_info": {
            "id": {"value": agent.id},
            "hostname": agent.info["hostname"],
            "port": agent.info["port"],
            "resources": [{key: value for key, value in one.items() if key != "role"} for one in total],
            "attributes": attribute_list(agent.info["attributes"]),
        },
        "active": agent.active and not agent.deactivated,
        "deactivated": agent.deactivated,
        "version": agent.info["version"],
        "pid": pid(agent),
        "registered_time": {"nanoseconds": int(agent.registered * 1e9)},
        "total_resources": total,
        **({"allocated_resources": used} if used else {}),
        **({"offered_resources": free} if free else {}),
        "capabilities": [{"type": "AGENT_DRAINING"}],
        **({"drain_info": agent.drain} if agent.drain else {}),
    }


def tasks(cluster: Cluster, principal: str | None, framework: str | None = None) -> list[dict[str, Any]]:
    """Tasks that a principal may see."""
    return [
        {
            "id": task["task_id"],
            "name": task["name"],
            "framework_id": task["framework_id"],
            "slave_id": agent.id,
            "state": task["state"],
            "user": task["user"],
            "resources": amounts.old_json(task["resources"]),
            "labels": task.get("labels", []),
        }
        for agent in cluster.listed()
        for task in agent.tasks.values()
        if framework in (None, task["framework_id"]) and approved(cluster.acls, "view_tasks", principal, task["user"])
    ]


def framework_of(cluster: Cluster, principal: str | None, framework: Framework) -> dict[str, Any]:
    """An entry of /frameworks and /state."""
    mine = tasks(cluster, principal, framework.id)
    return {
        "id": framework.id,
        "name": framework.info.get("name", ""),
        "principal": framework.principal,
        "user": framework.info.get("user", ""),
        "hostname": framework.info.get("hostname", ""),
        "webui_url": framework.info.get("webui_url", ""),
        **({"roles": framework.roles()} if framework.can("MULTI_ROLE") else {"role": framework.roles()[0]}),
        "capabilities": [entry["type"] for entry in framework.info.get("capabilities", [])],
        "active": bool(framework.stream),
        "connected": bool(framework.stream),
        "registered_time": framework.registered,
        "tasks": [task for task in mine if task["state"] not in ENDED],
        "completed_tasks": [task for task in mine if task["state"] in ENDED],
    }


def frameworks(cluster: Cluster, principal: str | None) -> list[dict[str, Any]]:
    """Frameworks that a principal may see."""
    known = cluster.frameworks.values()
    allowed = [one for one in known if approved(cluster.acls, "view_frameworks", principal, one.info.get("user", ""))]
    return [framework_of(cluster, principal, framework) for framework in allowed]


def metrics(cluster: Cluster | None, started: float, now: float) -> dict[str, float]:
    """What /metrics/snapshot has; cluster is None on a standby."""
    shown: dict[str, float] = {"master/elected": float(cluster is not None), "master/uptime_secs": now - started}
    agents = list(cluster.agents.values()) if cluster else []
    active = [agent for agent in agents if agent.active and not agent.deactivated]
    for name in amounts.SCALARS:
        total = sum(agent.info["resources"].get(name, 0.0) for agent in active)
        used = sum(agent.used()[name] for agent in active)
        shown |= {f"master/{name}_total": total, f"master/{name}_used": used, f"master/{name}_percent": used / total if total else 0.0}
    known = list(cluster.frameworks.values()) if cluster else []
    states = [task["state"] for agent in agents for task in agent.tasks.values()]
    shown |= {
        "master/slaves_active": float(len(active)),
        "master/slaves_inactive": float(len(agents) - len(active)),
        "master/slaves_connected": float(sum(agent.active for agent in agents)),
        "master/slaves_disconnected": float(sum(not agent.active for agent in agents)),
        "master/frameworks_active": float(sum(bool(one.stream) for one in known)),
        "master/frameworks_connected": float(sum(bool(one.stream) for one in known)),
        "master/frameworks_disconnected": float(sum(not one.stream for one in known)),
        "master/outstanding_offers": float(len(cluster.offers) if cluster else 0),
    }
    for state in ("STAGING", "RUNNING", "FINISHED", "FAILED", "KILLED", "LOST", "ERROR", "UNREACHABLE"):
        shown[f"master/tasks_{state.lower()}"] = float(states.count(f"TASK_{state}"))
    return shown


def state(cluster: Cluster, principal: str | None, values: dict[str, str], leader: dict[str, Any]) -> dict[str, Any]:
    """The endpoint /state."""
    flags = values if approved(cluster.acls, "view_flags", principal) else {}
    return {
        **VERSION,
        "cluster": values.get("cluster", ""),
        "leader": leader["pid"],
        "leader_info": {key: leader[key] for key in ("id", "pid", "port", "hostname")},
        "id": leader["id"],
        "hostname": leader["hostname"],
        "flags": flags,
        "activated_slaves": float(sum(agent.active and not agent.deactivated for agent in cluster.agents.values())),
        "deactivated_slaves": float(sum(agent.deactivated for agent in cluster.agents.values())),
        "slaves": [slave(cluster, agent) for agent in cluster.listed()],
        "frameworks": frameworks(cluster, principal),
        "completed_frameworks": [],
        "unregistered_frameworks": [],
    }


def operator(
    cluster: Cluster, principal: str | None, kind: str, values: dict[str, str], now: float, started: float
) -> dict[str, Any] | None:
    """The answer of a GET call; None if the call is not known."""
    listed = cluster.listed()
    answers: dict[str, Any] = {
        "GET_HEALTH": {"healthy": True},
        "GET_VERSION": {"version_info": VERSION},
        "GET_AGENTS": {"agents": [agent_v1(cluster, agent) for agent in listed], "recovered_agents": []},
        "GET_METRICS": {"metrics": [{"name": name, "value": value} for name, value in metrics(cluster, started, now).items()]},
        "GET_FLAGS": {"flags": [{"name": name, "value": value} for name, value in values.items()]},
    }
    if kind == "GET_FLAGS" and not approved(cluster.acls, "view_flags", principal):
        answers["GET_FLAGS"] = {"flags": []}
    return {"type": kind, kind.lower(): answers[kind]} if kind in answers else None
