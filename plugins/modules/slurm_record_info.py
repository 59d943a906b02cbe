#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the record of accelerators that a SLURM controller keeps."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_record_info
version_added: 0.1.0
short_description: Read which accelerators a SLURM controller promises, and which nodes are busy
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads the record that the role slurm_cluster keeps on the controller, the accelerators of every node as they were
    configured last. A device that is in it and not in the facts was lost.
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
options:
  path:
    description: The record.
    type: path
    default: /var/lib/deephdc/slurm_accelerators
"""

EXAMPLES = r"""
- name: Read the record
  deephdc.accelerators.slurm_record_info:
  register: record
"""

RETURN = r"""
record:
  description: The record's text, empty where there is none yet.
  type: str
  returned: always
busy:
  description: Nodes that run jobs now.
  type: list
  elements: str
  returned: always
  sample: [gpu1]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._hostlist import expand


def busy_nodes(module: AnsibleModule) -> list[str]:
    """Nodes with jobs, as the controller says; none where it does not answer, since then nothing is known to be lost."""
    if not module.get_bin_path("squeue"):
        return []
    code, out, _err = module.run_command(["squeue", "--noheader", "--states=RUNNING,SUSPENDED,COMPLETING", "--format=%N"])
    return sorted({name for line in out.split() for name in expand(line)}) if code == 0 else []


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "default": "/var/lib/deephdc/slurm_accelerators"}},
        supports_check_mode=True,
    )
    path = module.params["path"]
    record = ""
    if os.path.exists(path):
        # A damaged one is told by the plan, in one sentence.
        with open(path, encoding="utf-8", errors="replace") as file:
            record = file.read()
    module.exit_json(changed=False, record=record, busy=busy_nodes(module) if record else [])


if __name__ == "__main__":
    main()
