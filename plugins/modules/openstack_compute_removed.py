#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Let an OpenStack cloud forget a compute host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_compute_removed
version_added: 0.1.0
short_description: Remove a compute host from an OpenStack cloud
author: deephdc.accelerators contributors (@deephdc)
description:
  - Deletes the compute service, Neutron's agent for ports and the resource providers of a host that has no servers.
  - Or, with O(state=emptied), deletes the servers of a host. This is your decision.
  - nova-compute and the agent must be stopped on the host, as they would register again.
requirements:
  - openstacksdk 0.101 or newer (Debian's python3-openstacksdk)
attributes:
  check_mode:
    description: Predicts what would be deleted.
    support: full
  diff_mode:
    description: Not needed, the result has a sentence for each change.
    support: none
options:
  cloud:
    description: Name of the cloud in C(/etc/openstack/clouds.yaml), with the account of an administrator.
    type: str
    required: true
  name:
    description: The host's name in Nova.
    type: str
    required: true
  state:
    description:
      - An V(absent) host is not known to Nova, Neutron and Placement.
      - While there is a server, a stopped one included, the module fails and names it.
      - An V(emptied) host has no server. B(Its servers are deleted with their data.)
    type: str
    choices: [absent, emptied]
    default: absent
  dead:
    description: >-
      With O(state=emptied), whether the host will never answer again. Then its servers are deleted only in the cloud, at once.
    type: bool
    default: false
  wait:
    description: With O(state=emptied), seconds to wait until the servers are gone.
    type: float
    default: 120
"""

EXAMPLES = r"""
- name: Remove lxd3 from the cloud
  deephdc.accelerators.openstack_compute_removed:
    cloud: deephdc-admin
    name: lxd3
"""

RETURN = r"""
changes:
  description: What was deleted, or would be in check mode, one sentence each.
  type: list
  elements: str
  returned: success
  sample: ["Nova forgets the compute service of lxd3.", "Placement forgets lxd3_gpu_0000:41:00.0."]
"""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import compute_removal
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import LIBRARY_ERROR, entered
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.compute_hold import Host, sentence

POLL = 3  # seconds


def emptied(module: AnsibleModule, host: Host) -> list[str]:
    """Delete the servers and wait until they are gone; a sentence for each.

    :raises Refused: one is still there after the wait.
    """
    servers = host.servers("present", [])
    changes = [f"The {sentence(server)} ends." for server in servers]
    if module.check_mode or not servers:
        return changes
    service = host.service()
    if module.params["dead"] and service is not None and not service.get("forced_down"):
        compute_removal.force_down(host, service)
    deadline = time.monotonic() + module.params["wait"]
    while servers:
        # Once more each time: what was asked of a host that died meanwhile is lost.
        compute_removal.end(host, servers)
        if time.monotonic() >= deadline:
            raise Refused(
                f"After {module.params['wait']:g} s there still is {', '.join(map(sentence, servers))}: look at nova-compute.log there."
            )
        time.sleep(POLL)
        servers = host.servers("present", [])
    return changes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["absent", "emptied"], "default": "absent"},
            "dead": {"type": "bool", "default": False},
            "wait": {"type": "float", "default": 120.0},
        },
        supports_check_mode=True,
    )
    if LIBRARY_ERROR:
        module.fail_json(
            msg=missing_required_lib("openstacksdk", reason="(the package python3-openstacksdk)"),
            exception=LIBRARY_ERROR,
        )
    try:
        host = Host(entered(module.params["cloud"]), module.params["name"])
        changes = emptied(module, host) if module.params["state"] == "emptied" else compute_removal.forget(host, module.check_mode)
    except Refused as refused:
        module.fail_json(msg=str(refused))
    module.exit_json(changed=bool(changes), changes=changes)


if __name__ == "__main__":
    main()
