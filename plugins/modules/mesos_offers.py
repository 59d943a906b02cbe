#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare what agents of Mesos offer with what was promised."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_offers
version_added: 0.1.0
short_description: Wait until Mesos agents offer the promised GPUs
author: deephdc.accelerators contributors (@deephdc)
description:
  - Waits until the leader of the masters has each agent with all GPUs that were promised.
  - Fails with a sentence for each difference.
  - Runs on a host that reaches the masters and has the operator's secret, such as a master.
attributes:
  check_mode:
    description: Nothing is compared, as nothing was delivered.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
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
  patience:
    description: Seconds to wait until the masters have a leader.
    type: float
    default: 60.0
  expected:
    description: What each agent must offer.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: Inventory name, for messages.
        type: str
        required: true
      name:
        description: Name of the host in Mesos.
        type: str
        required: true
      gpus:
        description: Number of GPUs.
        type: int
        default: 0
  port:
    description: The agents' port.
    type: int
    default: 5051
  wait:
    description: Seconds to wait until nothing differs.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Check that gpu1 offers its two GPUs
  deephdc.accelerators.mesos_offers:
    masters: ["192.0.2.1:5050"]
    ca: /etc/mesos/ca.pem
    expected:
      - {host: gpu1, name: gpu1, gpus: 2}
"""

RETURN = r"""
offered:
  description: What each agent offers, one line each.
  type: list
  elements: str
  returned: always
  sample: ["gpu1: 2 GPUs of 2, 1 in use"]
gpus:
  description: The GPUs of the whole cluster, as the leader counts them.
  type: dict
  returned: success
  sample: {"total": 4, "used": 1}
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import agents
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.api import OPTIONS, connect
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

POLL = 2  # seconds


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            "expected": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "host": {"type": "str", "required": True},
                    "name": {"type": "str", "required": True},
                    "gpus": {"type": "int", "default": 0},
                },
            },
            "port": {"type": "int", "default": 5051},
            "wait": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    given = module.params
    counts = {"total": 0, "used": 0}
    if module.check_mode or not given["expected"]:
        module.exit_json(changed=False, offered=[], gpus=counts)
    until = time.monotonic() + given["wait"]
    found: dict[str, list[str]] = {"lines": [], "wrong": []}
    try:
        masters = connect(given)
        while True:
            found = agents.offers(masters.get("/slaves"), given["expected"], given["port"])
            if not found["wrong"] or time.monotonic() >= until:
                break
            time.sleep(POLL)
        metrics = masters.get("/metrics/snapshot")
        counts = {name: int(metrics.get(f"master/gpus_{name}") or 0) for name in counts}
    except Refused as refused:
        module.fail_json(msg=str(refused), offered=found["lines"])
    if found["wrong"]:
        module.fail_json(msg="\n".join(found["wrong"]), offered=found["lines"])
    module.exit_json(changed=False, offered=found["lines"], gpus=counts)


if __name__ == "__main__":
    main()
