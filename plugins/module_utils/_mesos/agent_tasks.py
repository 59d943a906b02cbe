# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent of a Mesos cluster and the tasks that run there, from what the leading master says: pure functions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

# What a task is in until its resources are free.
ALIVE = ("TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING")


def agent_of(state: Mapping[str, Any], name: str) -> Optional[Dict[str, Any]]:
    """The registered agent of a host; of several, as after a change of its identity, one that is active."""
    found = [one for one in state.get("slaves") or [] if one.get("hostname") == name]
    found.sort(key=lambda one: not one.get("active"))
    return dict(found[0]) if found else None


def drain_state(agent: Mapping[str, Any]) -> str:
    """DRAINING, DRAINED, or nothing."""
    return str((agent.get("drain_info") or {}).get("state") or "")


def tasks_of(state: Mapping[str, Any], agent: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The tasks on an agent that have not ended."""
    found = []
    for framework in state.get("frameworks") or []:
        for task in framework.get("tasks") or []:
            if task.get("slave_id") == agent["id"] and task.get("state") in ALIVE:
                gpus = int(float((task.get("resources") or {}).get("gpus") or 0))
                found.append({"id": task["id"], "name": task.get("name") or "", "framework": framework.get("name") or "", "gpus": gpus})
    return sorted(found, key=lambda task: str(task["id"]))


def sentence(task: Mapping[str, Any]) -> str:
    """Say whose task it is and what it has."""
    gpus = int(task["gpus"])
    has = " with {0} GPU{1}".format(gpus, "s" if gpus > 1 else "") if gpus else ""
    return "task {0} of {1}{2}".format(task["id"], task["framework"], has)


def left(agent: Optional[Mapping[str, Any]], name: str, note: bool, holder: str, unfit: str) -> str:
    """The sentence why an agent is not given back to users; empty if nothing keeps it.

    :param note: whether a run of mesos_drain took it. holder: which role holds the host, if any.
    :param unfit: what is wrong with the host, in words that follow "because".
    """
    if agent is None:
        return "Mesos knows no agent on {0}: start mesos-agent there, or run the playbook mesos.".format(name)
    if agent.get("deactivated") and not note:
        if holder:
            return "{0} stays deactivated, because the role gpu_hold holds it for {1}.".format(name, holder)
        return (
            "{0} stays deactivated, because no run of mesos_drain did that: the call REACTIVATE_AGENT of the master's API gives it back, "
            "with the id {1}.".format(name, agent["id"])
        )
    if holder:
        return "{0} stays as it is, because the role gpu_hold holds it for {1}.".format(name, holder)
    if unfit:
        return "{0} stays as it is, because {1}: repair it, then run again.".format(name, unfit)
    if drain_state(agent) == "DRAINING":
        return "{0} stays as it is, because its tasks are still ending, which Mesos can't stop: run again when they have.".format(name)
    if not agent.get("active") and not agent.get("deactivated"):
        return "{0} stays as it is, because its agent is disconnected: start mesos-agent there, then run again.".format(name)
    return ""
