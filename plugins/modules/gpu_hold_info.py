#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read which roles hold a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_hold_info
version_added: 0.1.0
short_description: Read which roles hold a host
author: deephdc.accelerators contributors (@deephdc)
description:
  - The role gpu_hold writes a file C(/var/lib/deephdc/held/HOLDER) before it takes a host from its users, and removes it after it has given
    the host back. A file that is there before a run was left by a run that was killed or failed.
  - Files that earlier versions of the roles nvidia_driver and pci_passthrough left also count.
extends_documentation_fragment: deephdc.accelerators.reads
"""

EXAMPLES = r"""
- name: Read which roles hold the host
  deephdc.accelerators.gpu_hold_info:
  register: holds
"""

RETURN = r"""
holders:
  description: The roles that hold the host, to what they noted.
  type: dict
  returned: always
  contains:
    managers:
      description: >-
        What each manager did. V(held). V(kept) if an administrator had taken the host away before. V(none) if the manager had no such
        host. V(pending) if a run ended before the host was held in all managers.
        Empty if the file can't be read or an earlier version wrote it.
      type: dict
    former:
      description: Whether an earlier version wrote it.
      type: bool
  sample: {"nvidia_driver": {"managers": {"slurm": "held"}, "former": false}}
"""

import json
import os
import re

from ansible.module_utils.basic import AnsibleModule

# Only tests have another one.
ROOT = "/"
HELD = "var/lib/deephdc/held"
# What earlier versions wrote.
FORMER = {
    "nvidia_driver": "var/lib/deephdc/nvidia_driver_drained",
    "pci_passthrough": "var/lib/deephdc/pci_passthrough_drained",
}
HOLDER = re.compile(r"[a-z][a-z0-9_]*\Z")
STATES = ("pending", "held", "kept", "none")


def managers(path: str) -> dict:
    """Read what a holder noted of its managers.

    A damaged file says only that the host is held.
    """
    try:
        with open(path, encoding="utf-8") as file:
            noted = json.load(file)["managers"]
        return {str(name): state for name, state in noted.items() if state in STATES}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    directory = os.path.join(ROOT, HELD)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found = {name: {"managers": managers(os.path.join(directory, name)), "former": False} for name in names if HOLDER.match(name)}
    for name, path in FORMER.items():
        if os.path.exists(os.path.join(ROOT, path)):
            found.setdefault(name, {"managers": {}})["former"] = True
    module.exit_json(changed=False, holders=found)


if __name__ == "__main__":
    main()
