#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep new tasks from an agent of Mesos and wait for those that run there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_agent_hold
version_added: 0.1.0
short_description: Deactivate a Mesos agent and wait for its tasks, or reactivate it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Deactivates an agent by the leader of the masters, so that it is offered to no framework, and waits for its tasks,
    or reactivates an agent that was deactivated before.
  - No task is ended unless O(end_tasks) asks for it.
  - Mesos keeps no reason for that. Keep RV(record) on the agent's host, and give it in O(recorded) in the next call.
  - Runs on a host that reaches the masters and has the operator's secret, such as a master.
attributes:
  check_mode:
    description: Predicts the change and reads which tasks run there. Does not wait.
    support: full
  diff_mode:
    description: Shows the state of the agent and its record.
    support: full
options:
  masters:
    description: Addresses of all masters, with their ports. Without them, those in O(cluster).
    type: list
    elements: str
    default: []
  names:
    description: With O(masters), addresses by host name, for names that the resolver does not know.
    type: dict
    default: {}
  ca:
    description: With O(masters), path of the certificate of their authority. Empty means that they speak plain HTTP.
    type: str
    default: ""
  cluster:
    description: File that the role mesos_master wrote, with C(masters), C(names) and C(ca).
    type: path
    default: /etc/mesos/cluster.json
  credentials:
    description: Path of a file of credentials as Mesos reads it, which root alone may read.
    type: path
    default: /etc/mesos/credentials.json
  principal:
    description: Principal in O(credentials) whose secret is used.
    type: str
    default: operator
  name:
    description: Name of the agent's host in Mesos.
    type: str
    required: true
  port:
    description: The agent's port.
    type: int
    default: 5051
  state:
    description:
      - A V(held) agent gets no new tasks.
      - A V(released) agent gets tasks again if it was deactivated with the same O(mark).
    type: str
    choices: [held, released]
    required: true
  mark:
    description:
      - Who holds the agent. V(held) is for the role gpu_hold, V(drained) for an administrator by the playbook mesos_drain. V(lost) is for a
        host that lost a GPU, by the playbook mesos.
      - An agent may have several, in its one record. It gets tasks again when none is left.
    type: str
    choices: [held, drained, lost]
    default: held
  reason:
    description:
      - Why it is held, one line. Needed for V(held).
      - With O(mark=held) it must begin with C(gpu_hold:). With others, the mark is written before it.
      - An agent that is held already with this mark keeps its reason.
    type: str
  recorded:
    description: The record of the agent on its host, RV(record) of an earlier call.
    type: str
    default: ""
  has_processes:
    description: >-
      With O(state=held), whether processes of tasks run on the agent's host. Then it is an error if the masters have no agent of it.
      Masters forget an agent that was silent for long, and its tasks run on.
    type: bool
    default: false
  unfit:
    description: >-
      With O(state=released) and O(mark=drained), what is wrong with the host. If it is not empty, the host is not given back. The text
      follows "because" in the message.
    type: str
    default: ""
  tasks:
    description: >-
      Which tasks to wait for, V(all), those with V(gpus), or V(none). Mesos does not say which task has which GPU.
    type: str
    choices: [all, gpus, none]
    default: all
  end_tasks:
    description: >-
      Whether to drain the agent, which ends its tasks. Marathon starts its tasks on other agents. A job of Chronos is lost.
    type: bool
    default: false
  grace:
    description: With O(end_tasks), how many seconds a task gets at most to end by itself.
    type: int
    default: 600
  wait:
    description: Seconds to wait until none of these tasks runs there; 0 does not wait.
    type: float
    default: 0.0
  patience:
    description: Seconds to wait until the masters have a leader.
    type: float
    default: 60.0
"""

EXAMPLES = r"""
- name: Keep new tasks from an agent, and wait an hour for those that run there
  deephdc.accelerators.mesos_agent_hold:
    masters: ["192.0.2.1:5050", "192.0.2.2:5050", "192.0.2.3:5050"]
    ca: /etc/mesos/ca.pem
    name: gpu1
    state: held
    reason: "gpu_hold: nvidia_driver"
    wait: 3600

- name: Give the host back
  deephdc.accelerators.mesos_agent_hold:
    name: gpu1
    state: released
    recorded: "gpu_hold: nvidia_driver"
"""

RETURN = r"""
known:
  description: Whether the masters have an agent of this name.
  type: bool
  returned: success
held:
  description: Whether the agent is held with this mark after the call, or would be in check mode.
  type: bool
  returned: success
kept:
  description: A sentence if another one deactivated the agent, else empty.
  type: str
  returned: success
record:
  description: What to keep on the agent's host, empty for nothing.
  type: str
  returned: success
  sample: "gpu_hold: nvidia_driver"
left:
  description: With O(state=released) and O(mark=drained), why the host is not given back, else empty.
  type: str
  returned: success
tasks:
  description: The tasks that run there after the wait.
  type: list
  elements: dict
  returned: success
  sample: [{"id": "training.1f6c", "name": "training", "framework": "marathon", "user": "nobody", "gpus": 1}]
summary:
  description: The same tasks, in words.
  type: list
  elements: str
  returned: success
  sample: ["task training.1f6c of the framework marathon as nobody with 1 GPU"]
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import agents
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.api import OPTIONS, Masters, connect
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import marks
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

POLL = 5  # seconds


def marked(module: AnsibleModule) -> str:
    """The reason with its mark."""
    begin = agents.MARKS[module.params["mark"]]
    return str(module.params["reason"]) if module.params["mark"] == "held" else begin + str(module.params["reason"])


def hold(module: AnsibleModule, masters: Masters, agent: dict[str, Any]) -> dict[str, str]:
    """Deactivate or drain the agent; what is after that."""
    recorded, mark = module.params["recorded"], module.params["mark"]
    ends = module.params["end_tasks"] and not agent.get("drain_info")
    ours = agents.is_held(agent, recorded, mark)
    # What an administrator says of the host counts for longer than the change for which the playbook mesos closed it.
    if ours and agents.RENEWAL in recorded and marked(module).startswith(agents.MARKS["drained"]):
        recorded = marks.without(recorded, agents.MARKS[mark], agents.MARKS.values())
    if ours and not ends:
        return {"agent": "closed", "record": marks.add(recorded, marked(module), agents.MARKS.values())}
    if not module.check_mode:
        identity = {"value": agent["id"]}
        if ends:
            masters.call("DRAIN_AGENT", agent_id=identity, max_grace_period={"seconds": module.params["grace"]})
        elif not agents.is_closed(agent):
            masters.call("DEACTIVATE_AGENT", agent_id=identity)
    # Of an agent that is open, what is remembered is over.
    there = recorded if agents.is_closed(agent) else ""
    return {"agent": "drained" if ends else "closed", "record": marks.add(there, marked(module), agents.MARKS.values())}


def release(module: AnsibleModule, masters: Masters, agent: dict[str, Any]) -> dict[str, str]:
    """Reactivate an agent that is held with the mark and no other; what is after that."""
    if not agents.is_held(agent, module.params["recorded"], module.params["mark"]):
        # Of an agent that is open, nothing is remembered; what another one did stays.
        return {"agent": "", "record": module.params["recorded"] if agents.is_closed(agent) else ""}
    record = marks.without(module.params["recorded"], agents.MARKS[module.params["mark"]], agents.MARKS.values())
    if record:
        return {"agent": "", "record": record}
    if not module.check_mode:
        masters.call("REACTIVATE_AGENT", agent_id={"value": agent["id"]})
    return {"agent": "open", "record": ""}


def tasks_after(module: AnsibleModule, masters: Masters, agent: dict[str, Any]) -> list[dict[str, Any]]:
    """List the tasks that run there when all have ended or the wait is over."""
    if module.params["tasks"] == "none":
        return []
    deadline = time.monotonic() + (0 if module.check_mode else module.params["wait"])
    while True:
        found = agents.tasks_on(masters.get("/state"), agent, module.params["tasks"])
        left = deadline - time.monotonic()
        if not found or left <= 0:
            return found
        time.sleep(min(left, POLL))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            "name": {"type": "str", "required": True},
            "port": {"type": "int", "default": 5051},
            "state": {"type": "str", "choices": ["held", "released"], "required": True},
            "mark": {"type": "str", "choices": list(agents.MARKS), "default": "held"},
            "reason": {"type": "str"},
            "recorded": {"type": "str", "default": ""},
            "has_processes": {"type": "bool", "default": False},
            "unfit": {"type": "str", "default": ""},
            "tasks": {"type": "str", "choices": ["all", "gpus", "none"], "default": "all"},
            "end_tasks": {"type": "bool", "default": False},
            "grace": {"type": "int", "default": 600},
            "wait": {"type": "float", "default": 0.0},
        },
        required_if=[("state", "held", ["reason"])],
        supports_check_mode=True,
    )
    given = module.params
    holding, mark, recorded = given["state"] == "held", given["mark"], given["recorded"]
    if holding and mark == "held" and not str(given["reason"]).startswith("gpu_hold: "):
        module.fail_json(msg="The reason must begin with 'gpu_hold: ', by which the hold is known later.")
    tasks: list[dict[str, Any]] = []
    before = {"agent": "open", "record": recorded}
    after = {"agent": "", "record": "" if not holding else recorded}
    because, why_left = "", ""
    try:
        masters = connect(given)
        answer = masters.get("/slaves")
        agent = agents.agent_of(answer, given["name"], given["port"])
        why_missing = agents.missing(answer, given["name"], given["port"], given["has_processes"]) if holding else ""
        if why_missing:
            raise Refused(why_missing)
        if agent is not None:
            before["agent"] = "closed" if agents.is_closed(agent) else "open"
            if holding:
                because = agents.kept(agent, recorded)
                after = {"agent": before["agent"], "record": recorded} if because else hold(module, masters, agent)
                tasks = tasks_after(module, masters, agent)
            else:
                why_left = agents.left(agent, recorded, given["unfit"]) if mark == "drained" else ""
                after = {"agent": "", "record": recorded} if why_left else release(module, masters, agent)
                if mark == "drained" and after["record"] and not why_left:
                    why_left = agents.left(agent, after["record"], "")
    except Refused as refused:
        module.fail_json(msg=str(refused))
    after["agent"] = after["agent"] or before["agent"]
    module.exit_json(
        changed=after["agent"] != before["agent"],
        known=agent is not None,
        held=bool(holding and agent is not None and not because),
        kept=because,
        record=after["record"],
        left=why_left,
        tasks=tasks,
        summary=[agents.sentence(task) for task in tasks],
        diff={
            "before": "".join(f"{key} {before[key]}\n" for key in sorted(before)),
            "after": "".join(f"{key} {after[key]}\n" for key in sorted(after)),
            "before_header": f"agent of {given['name']}",
            "after_header": f"agent of {given['name']}",
        },
    )


if __name__ == "__main__":
    main()
