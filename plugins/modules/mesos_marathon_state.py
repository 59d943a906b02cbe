#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Let Marathon write its state into a file, or go on with one that it wrote."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_marathon_state
version_added: 0.1.0
short_description: Save Marathon's state into a file, or restore it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Asks the leading Marathon to give up its lead. The next leader writes or reads the file on B(its own) host before it does
    anything else. Any Marathon may become the leader. So for a restore the same file must be on all hosts, and after a backup one
    host has it.
  - Tasks go on. Marathon's interface answers again after some seconds.
  - A restore replaces all applications. Tasks that were started since the backup are ended, as Marathon does not know them.
attributes:
  check_mode:
    description: Predicts the change without asking for it.
    support: full
  diff_mode:
    description: Not needed.
    support: none
options:
  state:
    description: Whether the state is V(saved) or V(restored).
    type: str
    choices: [saved, restored]
    required: true
  path:
    description: The file, which the account of Marathon can write or read.
    type: path
    required: true
  wait:
    description: Seconds to wait until a Marathon leads again.
    type: float
    default: 120
  folder:
    description: Folder with the environment of this host's Marathon, which has its account, its arguments, and the CA of its certificate.
    type: path
    default: /etc/marathon
"""

EXAMPLES = r"""
- name: Save the state of Marathon
  deephdc.accelerators.mesos_marathon_state:
    state: saved
    path: /var/lib/marathon/backup/20261121T150000Z.tar
"""

RETURN = r"""
leader:
  description: Host and port of the Marathon that leads after the call.
  type: str
  returned: success
  sample: m2:8443
applications:
  description: How many applications it has, and had before.
  type: dict
  returned: success
  sample: {"before": 3, "after": 3}
"""

import time
import urllib.parse

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.marathon_api import Marathon
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused

POLL = 1.0  # seconds
# The leader gives its lead up half a second after its answer (Marathon 1.5 to 1.10: LeaderResource).
DELAY = 2.0


def wait_for_leader(marathon: Marathon, seconds: float) -> tuple[str, int]:
    """Who leads, and how many applications it has.

    :raises Refused: there is no leader in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            leader = str((marathon.ask("/v2/leader") or {})["leader"])
            return leader, len((marathon.ask("/v2/apps") or {}).get("apps") or [])
        except (Refused, KeyError) as error:
            if time.monotonic() >= deadline:
                raise Refused(f"No Marathon leads after {seconds:.0f} s: {error}") from error
        time.sleep(POLL)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["saved", "restored"], "required": True},
            "path": {"type": "path", "required": True},
            "wait": {"type": "float", "default": 120.0},
            "folder": {"type": "path", "default": "/etc/marathon"},
        },
        supports_check_mode=True,
    )
    wait = module.params["wait"]
    try:
        marathon = Marathon(module.params["folder"])
        leader, before = wait_for_leader(marathon, wait)
        after = before
        if not module.check_mode:
            key = "backup" if module.params["state"] == "saved" else "restore"
            uri = urllib.parse.quote(f"file://{module.params['path']}", safe="")
            marathon.ask(f"/v2/leader?{key}={uri}", "DELETE")
            time.sleep(DELAY)
            leader, after = wait_for_leader(marathon, wait)
    except Refused as refused:
        module.fail_json(msg=str(refused))
    module.exit_json(changed=True, leader=leader, applications={"before": before, "after": after})


if __name__ == "__main__":
    main()
