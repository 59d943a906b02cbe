#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Say who has a host's GPUs open."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_users_info
version_added: 0.1.0
short_description: Read which processes have a host's GPUs open
author: deephdc.accelerators contributors (@deephdc)
description:
  - Looks through the open files of all processes for the device files of the host's GPUs. It does not open the device files itself.
  - NVIDIA's daemons that serve and watch GPUs do not count.
extends_documentation_fragment: deephdc.accelerators.reads
options:
  root:
    description: Prefix of C(/sys) and C(/proc) that the accelerators are read from. Processes are always read from this host.
    type: path
    default: /
seealso:
  - module: deephdc.accelerators.gpu_open_info
"""

EXAMPLES = r"""
- name: Check whether a process uses the GPUs
  deephdc.accelerators.gpu_users_info:
  register: gpu_users
  failed_when: gpu_users.users | length > 0
"""

RETURN = r"""
users:
  description: The processes and the device files that they have open, one sentence each.
  type: list
  elements: str
  returned: always
  sample: ["python3 (process 4711) has /dev/nvidia0 open"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import compute_gpu_addresses
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    root = module.params["root"]
    opened = iommu.opened_devices()
    found = [user for address in compute_gpu_addresses(root) for user in iommu.users(root, address, opened)]
    module.exit_json(changed=False, users=[user for user in dict.fromkeys(found) if not user.startswith(vendors.watchers())])


if __name__ == "__main__":
    main()
