#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Open the files of a host's GPUs as the user who will."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_open_info
version_added: 0.1.0
short_description: Open a host's GPUs, and compute on them, as the user who will use them
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads the accelerators as M(deephdc.accelerators.gpu_facts) does, opens the files of each for reading and writing as a user, and closes
    them again. For a GPU that was given to virtual machines, it opens the file of the IOMMU group.
  - If that succeeds on an NVIDIA GPU, the module squares a million numbers on the GPU as the same user. This needs the driver's library
    C(libcuda.so.1). Like any CUDA program, it takes some hundreds of MiB of the GPU's memory for a moment.
  - Nothing is computed on GPUs that are divided by MIG, nor on GPUs that a process has open, which are V(busy).
    NVIDIA's daemons that serve and watch GPUs do not count as use.
extends_documentation_fragment: deephdc.accelerators.reads
options:
  user:
    description: The user to open the files as, with all of the user's groups.
    type: str
    default: nobody
  root:
    description: Prefix of C(/sys) and C(/proc) that the accelerators are read from. The files that are opened are those in C(/dev).
    type: path
    default: /
  compute:
    description: Whether to compute on NVIDIA GPUs.
    type: bool
    default: true
  accepted:
    description: States of files that are not reported as errors.
    type: list
    elements: str
    default: [opened]
  count:
    description: Number of GPUs that must be there; V(-1) for one or more.
    type: int
    default: -1
seealso:
  - module: deephdc.accelerators.gpu_facts
"""

EXAMPLES = r"""
- name: Open the GPUs as the user of the emulator
  deephdc.accelerators.gpu_open_info:
    user: libvirt-qemu
"""

RETURN = r"""
gpus:
  description:
    - For each GPU, C(pci_address), C(type), C(driver), C(files), C(computation) and C(problems).
    - C(files) has the state of each path - V(opened), V(denied), V(missing), V(no_driver), V(busy), V(broken) or the system's words.
    - C(computation) is V(computed), V(busy), what went wrong, or V(null) if nothing was computed. V(busy) means that a process has the
      GPU open, so nothing was tried, or that it has all of the GPU's memory.
  type: list
  elements: dict
  returned: always
errors:
  description: What is wrong, one sentence each.
  type: list
  elements: str
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu_check import opened as gpu_check_opened
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu


def in_use(root: str, gpus: list[dict]) -> set[str]:
    """PCI addresses of GPUs that some process has open."""
    files = iommu.opened_devices()
    users = {gpu["pci_address"]: iommu.users(root, gpu["pci_address"], files) for gpu in gpus}
    return {address for address, names in users.items() if any(not name.startswith(vendors.watchers()) for name in names)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "default": "nobody"},
            "root": {"type": "path", "default": "/"},
            "compute": {"type": "bool", "default": True},
            "accepted": {"type": "list", "elements": "str", "default": ["opened"]},
            "count": {"type": "int", "default": -1},
        },
        supports_check_mode=True,
    )
    user = module.params["user"]
    found = gather(module.params["root"], timeout=10.0)
    gpus = [accelerator for accelerator in found if accelerator["kind"] == "gpu"]
    try:
        opened = gpu_check_opened.open_all_as(user, [path for gpu in gpus for path in gpu_check_opened.files_of(gpu)])
    except (KeyError, OSError) as error:
        module.fail_json(msg=f"The GPUs can't be opened as {user}: {error}.")
    computed = {}
    if module.params["compute"]:
        computed = gpu_check_opened.compute_all_as(user, gpus, opened, in_use(module.params["root"], gpus))
    results = gpu_check_opened.report(gpus, opened, computed)
    errors = gpu_check_opened.errors(os.uname().nodename, user, results, module.params["accepted"], module.params["count"])
    module.exit_json(changed=False, gpus=results, errors=errors)


if __name__ == "__main__":
    main()
