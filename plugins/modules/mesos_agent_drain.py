#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Take an agent of a Mesos cluster from its users, give it back, or let the cluster forget it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_agent_drain
version_added: 0.1.0
short_description: Take an agent of a Mesos cluster from its users, give it back, or let the cluster forget it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Deactivates an agent, so that its resources are offered no more, and waits for its tasks. No task is ended unless O(end_tasks) says so.
  - Runs on a host with a master, which passes each call on to the leading one.
attributes:
  check_mode:
    description: Predicts the change and reads which tasks run there. Does not wait.
    support: full
  diff_mode:
    description: Shows whether the agent is active.
    support: full
options:
  name:
    description: The host's name in Mesos.
    type: str
    required: true
  state:
    description:
      - A V(drained) agent gets no new tasks.
      - An V(active) one gets them again.
      - A V(gone) one is forgotten for good, with its tasks. B(An agent that still runs is shut down.)
    type: str
    choices: [drained, active, gone]
    required: true
  end_tasks:
    description: >-
      With O(state=drained), whether the tasks are ended by the call C(DRAIN_AGENT), which nothing can stop once it began.
      Marathon starts its own elsewhere; Chronos counts them as failed.
    type: bool
    default: false
  grace:
    description: With O(end_tasks), the most seconds that a task has to end by itself.
    type: int
    default: 600
  wait:
    description: Seconds to wait until no task runs there; 0 does not wait.
    type: float
    default: 0.0
  note:
    description: With O(state=active), whether a run of the playbook mesos_drain took the agent. One that another deactivated stays so.
    type: bool
    default: true
  holder:
    description: For which role gpu_hold holds the host, empty if it does not. Such an agent is not given back.
    type: str
    default: ""
  unfit:
    description: With O(state=active), what is wrong with the host; it is not given back then. Words that follow "because".
    type: str
    default: ""
  environment:
    description: File with the environment of the master.
    type: path
    default: /etc/default/mesos-master
  credentials:
    description: The master's file of credentials, of which the principal C(operator) is used.
    type: path
    default: /etc/mesos/credentials.json
  authority:
    description: PEM file of the authority of the masters' certificates.
    type: path
    default: /etc/mesos/ca.pem
"""

EXAMPLES = r"""
- name: Keep new tasks from an agent, and wait an hour for those that run there
  deephdc.accelerators.mesos_agent_drain:
    name: gpu1
    state: drained
    wait: 3600

- name: Give it back
  deephdc.accelerators.mesos_agent_drain:
    name: gpu1
    state: active
"""

RETURN = r"""
known:
  description: Whether an agent of this name is registered.
  type: bool
  returned: success
id:
  description: The agent's id, empty where there is no agent.
  type: str
  returned: success
was:
  description: Whether the agent was V(active), V(deactivated) or V(disconnected) before, or V(unknown).
  type: str
  returned: success
left:
  description: With O(state=active), the sentence why the agent is not given back; else empty.
  type: str
  returned: success
tasks:
  description: The tasks that run there after the wait.
  type: list
  elements: dict
  returned: success
  sample: [{"id": "train.1f6c", "name": "train", "framework": "marathon", "gpus": 1}]
summary:
  description: The same tasks, in words.
  type: list
  elements: str
  returned: success
  sample: ["task train.1f6c of marathon with 1 GPU"]
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import leader
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.agent_tasks import agent_of, drain_state, left, sentence, tasks_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

POLL = 2.0  # seconds
STATE = "/state"


def status_of(agent: dict[str, Any] | None) -> str:
    """One word for what the agent is."""
    if agent is None:
        return "unknown"
    return "deactivated" if agent.get("deactivated") else "active" if agent.get("active") else "disconnected"


def call(api: leader.Api, kind: str, agent: dict[str, Any], **more: Any) -> None:
    """Change an agent by the operator's API."""
    api.ask("/api/v1", "POST", {"type": kind, kind.lower(): {"agent_id": {"value": agent["id"]}, **more}})


def wanted_call(module: AnsibleModule, agent: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The call that brings the agent into its wanted state; empty where it is."""
    state = module.params["state"]
    if state == "gone":
        return "MARK_AGENT_GONE", {}
    if state == "active":
        return ("REACTIVATE_AGENT", {}) if agent.get("deactivated") else ("", {})
    if module.params["end_tasks"]:
        return ("", {}) if drain_state(agent) else ("DRAIN_AGENT", {"max_grace_period": {"seconds": module.params["grace"]}})
    return ("", {}) if agent.get("deactivated") else ("DEACTIVATE_AGENT", {})


def tasks_after(module: AnsibleModule, api: leader.Api, seen: dict[str, Any], agent: dict[str, Any]) -> list[dict[str, Any]]:
    """List the tasks that run there when all have ended or the wait is over."""
    deadline = time.monotonic() + (0 if module.check_mode else module.params["wait"])
    while True:
        tasks = tasks_of(seen, agent)
        remaining = deadline - time.monotonic()
        # DRAINED also says that the frameworks know of the end of their tasks.
        if (not tasks and drain_state(agent) != "DRAINING") or remaining <= 0:
            return tasks
        time.sleep(min(remaining, POLL))
        seen = api.ask(STATE)
        agent = agent_of(seen, module.params["name"]) or agent


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "active", "gone"], "required": True},
            "end_tasks": {"type": "bool", "default": False},
            "grace": {"type": "int", "default": 600},
            "wait": {"type": "float", "default": 0.0},
            "note": {"type": "bool", "default": True},
            "holder": {"type": "str", "default": ""},
            "unfit": {"type": "str", "default": ""},
            "environment": {"type": "path", "default": "/etc/default/mesos-master"},
            "credentials": {"type": "path", "default": "/etc/mesos/credentials.json"},
            "authority": {"type": "path", "default": "/etc/mesos/ca.pem"},
        },
        supports_check_mode=True,
    )
    name, state = module.params["name"], module.params["state"]
    tasks: list[dict[str, Any]] = []
    why_left, kind = "", ""
    try:
        api = leader.master(module.params["environment"], module.params["credentials"], module.params["authority"])
        seen = api.ask(STATE)
        agent = agent_of(seen, name)
        if state == "active":
            why_left = left(agent, name, module.params["note"], module.params["holder"], module.params["unfit"])
        if agent is not None and not why_left:
            kind, more = wanted_call(module, agent)
            if kind and not module.check_mode:
                call(api, kind, agent, **more)
                seen = api.ask(STATE)
            if state == "drained":
                tasks = tasks_after(module, api, seen, agent_of(seen, name) or agent)
    except Refused as refused:
        module.fail_json(msg=str(refused))
    was = status_of(agent)
    after = {"MARK_AGENT_GONE": "gone", "REACTIVATE_AGENT": "active"}.get(kind, "deactivated")
    head = f"agent {name}"
    diff = {"before": f"{was}\n", "after": f"{after}\n", "before_header": head, "after_header": head} if kind else {}
    module.exit_json(
        changed=bool(kind),
        known=agent is not None,
        id=agent["id"] if agent else "",
        was=was,
        left=why_left,
        tasks=tasks,
        summary=[sentence(task) for task in tasks],
        diff=diff,
    )


if __name__ == "__main__":
    main()
