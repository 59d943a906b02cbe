#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Let a Mesos cluster forget an agent."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_agent_removed
version_added: 0.1.0
short_description: Remove an agent from a Mesos cluster
author: deephdc.accelerators contributors (@deephdc)
description:
  - Marks an agent as gone for good by the leader of the masters. Frameworks learn that its tasks are gone, and start them elsewhere.
  - B(An agent that still runs is shut down), and its identity is never accepted again. So stop mesos-agent on the host first.
attributes:
  check_mode:
    description: Predicts whether an agent would be removed.
    support: full
  diff_mode:
    description: Not needed, the result has the agent.
    support: none
options:
  masters:
    description: Addresses of all masters, with their ports.
    type: list
    elements: str
    required: true
  names:
    description: Addresses by host name, for names that the resolver does not know.
    type: dict
    default: {}
  ca:
    description: Path of the certificate of the masters' authority. Empty means that they speak plain HTTP.
    type: str
    default: ""
  credentials:
    description: Path of a file of credentials as Mesos reads it, which root alone may read. The secret of C(operator) is used.
    type: path
    default: /etc/mesos/credentials.json
  name:
    description: Name of the agent's host in Mesos.
    type: str
    required: true
  port:
    description: The agent's port.
    type: int
    default: 5051
  tasks_end:
    description: Whether to remove an agent with tasks on it. This is your decision. Without it, the module fails and names the tasks.
    type: bool
    default: false
  patience:
    description: Seconds to wait until the masters have a leader.
    type: float
    default: 60.0
"""

EXAMPLES = r"""
- name: Remove gpu3 from the cluster
  deephdc.accelerators.mesos_agent_removed:
    masters: ["192.0.2.1:5050", "192.0.2.2:5050", "192.0.2.3:5050"]
    ca: /etc/mesos/ca.pem
    name: gpu3
"""

RETURN = r"""
known:
  description: Whether the masters had an agent of this name.
  type: bool
  returned: success
ended:
  description: The tasks that are gone with the agent, in words.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import agents
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.api import Masters, secret_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "masters": {"type": "list", "elements": "str", "required": True},
            "names": {"type": "dict", "default": {}},
            "ca": {"type": "str", "default": ""},
            "credentials": {"type": "path", "default": "/etc/mesos/credentials.json"},
            "name": {"type": "str", "required": True},
            "port": {"type": "int", "default": 5051},
            "tasks_end": {"type": "bool", "default": False},
            "patience": {"type": "float", "default": 60.0},
        },
        supports_check_mode=True,
    )
    given = module.params
    ended: list[str] = []
    try:
        secret = secret_of(given["credentials"], "operator")
        masters = Masters(given["masters"], "operator", secret, given["ca"], given["names"], given["patience"])
        answer = masters.get("/slaves")
        agent = agents.agent_of(answer, given["name"], given["port"])
        why_missing = agents.missing(answer, given["name"], given["port"], has_processes=False)
        if why_missing:
            raise Refused(why_missing)
        if agent is not None:
            ended = [agents.sentence(task) for task in agents.tasks_on(masters.get("/state"), agent, "all")]
            if ended and not given["tasks_end"]:
                raise Refused(f"{given['name']} is not forgotten, because it still has {', '.join(ended)}.")
            if not module.check_mode:
                masters.call("MARK_AGENT_GONE", agent_id={"value": agent["id"]})
    except Refused as refused:
        module.fail_json(msg=str(refused))
    module.exit_json(changed=agent is not None, known=agent is not None, ended=ended)


if __name__ == "__main__":
    main()
