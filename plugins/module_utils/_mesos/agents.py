# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Agents of Mesos and their tasks, from what a master answers: pure functions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import marks

# Begin what the collection remembers of an agent that it took from frameworks, by who did: the role gpu_hold, the playbook mesos_drain,
# or the playbook mesos because of a lost device. Mesos itself keeps no reason.
RENEWAL = "drained: another agent after a change of its resources"
MARKS = {"held": "gpu_hold: ", "drained": "drained: ", "lost": "lost: "}
# A task in one of these has ended, and only its framework does not know it yet.
ENDED = ("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE", "TASK_GONE_BY_OPERATOR")
DRAINING = "DRAINING"


def agent_of(answer: Mapping[str, Any], name: str, port: int) -> Optional[Dict[str, Any]]:
    """Return a host's agent in the answer of /slaves; None where the master has none.

    Of several agents it is the one that is active.
    """
    found = [dict(one) for one in answer.get("slaves") or [] if one.get("hostname") == name and int(one.get("port", port)) == port]
    return sorted(found, key=lambda one: not one.get("active"))[0] if found else None


def missing(answer: Mapping[str, Any], name: str, port: int, has_processes: bool) -> str:
    """Return why a host without an agent in the answer of /slaves may have tasks.

    It is empty if nothing says that. Masters do not list an agent that has not registered with a new leader yet, or that was silent
    for long. Its tasks run on.

    :param has_processes: whether processes of tasks run on the host.
    """
    if agent_of(answer, name, port) is not None:
        return ""
    if agent_of({"slaves": answer.get("recovered_slaves")}, name, port) is not None:
        return (
            "The agent of {0} has not registered with the present leader of the masters, which does not know its tasks yet: "
            "start mesos-agent there, or wait until the masters give it up (agent_reregister_timeout, 10 minutes), then run again."
        ).format(name)
    if has_processes:
        return (
            "The masters have no agent of {0}, but processes of tasks run there: start mesos-agent there, wait until the masters "
            "have it, then run again. If it can't start, end those processes: they are in the control groups /sys/fs/cgroup/*/mesos."
        ).format(name)
    return ""


def is_closed(agent: Mapping[str, Any]) -> bool:
    """Whether the agent gets no tasks, because it was deactivated or drained."""
    return bool(agent.get("deactivated") or agent.get("drain_info"))


def is_draining(agent: Mapping[str, Any]) -> bool:
    """Whether the agent still ends tasks for a drain."""
    return bool((agent.get("drain_info") or {}).get("state") == DRAINING)


def is_held(agent: Mapping[str, Any], recorded: str, mark: str) -> bool:
    """Whether the agent is closed, with this mark or this one among others."""
    return is_closed(agent) and marks.has(recorded, MARKS[mark], MARKS.values())


def kept(agent: Mapping[str, Any], recorded: str) -> str:
    """Return the sentence that says so if another one closed the agent.

    It is empty if the agent is ours to close. What the collection closed with another mark gets this one, too.
    """
    if not is_closed(agent) or any(is_held(agent, recorded, mark) for mark in MARKS):
        return ""
    because = " ({0})".format(recorded) if recorded else ""
    return "the agent of {0} was deactivated by an administrator{1} and stays so".format(agent.get("hostname"), because)


def left(agent: Mapping[str, Any], recorded: str, unfit: str) -> str:
    """Return the sentence why a host is not given back to users after a drain.

    It is empty if nothing keeps the host.

    :param unfit: what is wrong with the host, in words that follow "because".
    """
    name = agent.get("hostname")
    if is_closed(agent) and not is_held(agent, recorded, "drained"):
        if is_held(agent, recorded, "held"):
            return "{0} stays deactivated, because the role gpu_hold holds it ({1}).".format(name, recorded)
        if is_held(agent, recorded, "lost"):
            return "{0} stays deactivated, because a GPU is lost ({1}): repair it, then run the playbook mesos.".format(name, recorded)
        return (
            "{0} stays deactivated, because no run of mesos_drain did that: the call REACTIVATE_AGENT of the master's interface "
            "gives it back.".format(name)
        )
    if is_draining(agent):
        return "{0} stays as it is, because its tasks are still being ended: run again in a moment.".format(name)
    return "{0} stays as it is, because {1}: repair it, then run again.".format(name, unfit) if unfit else ""


def tasks_on(state: Mapping[str, Any], agent: Mapping[str, Any], which: str) -> List[Dict[str, Any]]:
    """The tasks that run on an agent, or are about to, in the answer of /state.

    :param which: C(all), or C(gpus) for those that have one. Mesos does not say which.
    """
    found = []
    for framework in state.get("frameworks") or []:
        for task in framework.get("tasks") or []:
            gpus = int((task.get("resources") or {}).get("gpus") or 0)
            if task.get("slave_id") != agent.get("id") or task.get("state") in ENDED or (which == "gpus" and not gpus):
                continue
            found.append(
                {
                    "id": str(task.get("id")),
                    "name": str(task.get("name") or ""),
                    "framework": str(framework.get("name") or framework.get("id")),
                    "user": str(task.get("user") or framework.get("user") or ""),
                    "gpus": gpus,
                }
            )
    return sorted(found, key=lambda task: str(task["id"]))


def sentence(task: Mapping[str, Any]) -> str:
    """Say whose task it is and what it has."""
    gpus = " with {0} GPU{1}".format(task["gpus"], "s" if task["gpus"] > 1 else "") if task["gpus"] else ""
    owner = " as {0}".format(task["user"]) if task["user"] else ""
    return "task {0} of the framework {1}{2}{3}".format(task["id"], task["framework"], owner, gpus)


def offers(answer: Mapping[str, Any], expected: Sequence[Mapping[str, Any]], port: int) -> Dict[str, List[str]]:
    """Return what the agents offer, and what differs from what was promised.

    The first is a line for each agent, the second a sentence for each difference.
    """
    lines, wrong = [], []
    for wanted in expected:
        host, promised = wanted["host"], int(wanted["gpus"])
        agent = agent_of(answer, str(wanted["name"]), port)
        if agent is None:
            wrong.append("{0}: no agent of {1} is registered: look at 'journalctl -u mesos-agent' there.".format(host, wanted["name"]))
            continue
        total = int((agent.get("resources") or {}).get("gpus") or 0)
        used = int((agent.get("used_resources") or {}).get("gpus") or 0)
        closed = ", closed to new tasks" if is_closed(agent) else ""
        lines.append("{0}: {1} GPUs of {2}, {3} in use{4}".format(host, total, promised, used, closed))
        if not agent.get("active") and not is_closed(agent):
            wrong.append("{0}: its agent has lost the masters: look at 'journalctl -u mesos-agent' there.".format(host))
        elif total != promised:
            wrong.append(
                "{0} offers {1} GPUs, but {2} {3} promised: look at 'journalctl -u mesos-agent' there.".format(
                    host, total, promised, "was" if promised == 1 else "were"
                )
            )
    return {"lines": lines, "wrong": wrong}
