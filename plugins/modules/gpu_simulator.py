#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulate accelerators on a host that has none."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_simulator
version_added: 0.1.0
short_description: Simulate GPUs on a host that has none
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes below O(root) the files of sysfs and procfs that a kernel would show for O(devices), for M(deephdc.accelerators.gpu_facts)
    to read. Also makes real device nodes in C(/dev) that schedulers can hand out and confine. Nothing can compute on them.
  - The nodes come back after a reboot by C(/etc/tmpfiles.d/gpu_simulator.conf).
  - Fails on a host that has a real compute GPU. A container sees its machine's GPUs in C(/sys), so there it only fails if a GPU's
    device file is in the container's own C(/dev) too.
  - The device nodes have the drivers' names but numbers of no driver, so they never reach a real GPU.
  - Removes only what it made. Before it makes something, it records that in C(.gpu_simulator.json) below O(root),
    so that a run that was killed can be completed or undone.
requirements:
  - Python 3.8 or newer on the host
attributes:
  check_mode:
    description: Predicts what would change.
    support: full
  diff_mode:
    description: Shows the files that change.
    support: full
options:
  devices:
    description:
      - The devices. Required if O(state=present).
      - Devices without O(devices[].pci_address) get C(0000:01:00.0) and following. NVIDIA's minor numbers are in order of address.
    type: list
    elements: dict
    suboptions:
      type:
        description:
          - V(p100), V(v100), V(t4), V(a100), V(h100), V(h200), V(b200), V(l4), V(l40s), V(rtx3090), V(rtx4090), V(rtx6000_ada), V(mi100),
            V(mi210), V(mi250x), V(mi300x), V(max1550), V(flex170).
          - Any other name needs O(devices[].vendor_id) and O(devices[].device_id); it then also is the model's name.
        type: str
        required: true
      count:
        description: Number of such devices.
        type: int
        default: 1
      vendor_id:
        description: PCI vendor, four hexadecimal digits.
        type: str
      device_id:
        description: PCI device, four hexadecimal digits.
        type: str
      subsystem_id:
        description: PCI subsystem, such as V(10de:147f).
        type: str
      class:
        description: PCI class, six hexadecimal digits.
        type: str
      model:
        description: Marketing name.
        type: str
      memory_mib:
        description: Memory in MiB. Of an NVIDIA device only nvidia-smi reports it, which is not simulated.
        type: int
      driver:
        description: Kernel driver that is bound. Empty for a device without driver. The default is the vendor's driver.
        type: str
      driver_version:
        description: Version of NVIDIA's kernel module.
        type: str
      pci_address:
        description: PCI address, for one device.
        type: str
      numa_node:
        description: NUMA node. V(-1) as on a host with one node.
        type: int
      local_cpus:
        description: CPUs of that node, such as V(0-3).
        type: str
      iommu_group:
        description: IOMMU group.
        type: int
  root:
    description: Directory that stands for C(/) of the simulated host.
    type: path
    default: /var/lib/gpu_simulator
  state:
    description: V(absent) removes the simulated devices.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: deephdc.accelerators.gpu_facts
"""

EXAMPLES = r"""
- name: Simulate two A100 and read them
  deephdc.accelerators.gpu_simulator:
    devices:
      - type: a100
        count: 2

- name: Read the simulated GPUs
  deephdc.accelerators.gpu_facts:
    root: /var/lib/gpu_simulator

- name: Simulate a model that the module does not know
  deephdc.accelerators.gpu_simulator:
    devices:
      - type: x9000
        vendor_id: 10de
        device_id: "2fff"

- name: Remove what was simulated
  deephdc.accelerators.gpu_simulator:
    state: absent
"""

RETURN = r"""
device_files:
  description: The device nodes of the simulated devices.
  type: list
  elements: str
  returned: always
  sample: [/dev/nvidia0, /dev/nvidia1]
root:
  description: The directory for O(deephdc.accelerators.gpu_facts#module:root).
  type: str
  returned: always
  sample: /var/lib/gpu_simulator
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.host import SimulatedHost, SimulationError

DEVICE_OPTIONS = {
    "type": {"type": "str", "required": True},
    "count": {"type": "int", "default": 1},
    "vendor_id": {"type": "str"},
    "device_id": {"type": "str"},
    "subsystem_id": {"type": "str"},
    "class": {"type": "str"},
    "model": {"type": "str"},
    "memory_mib": {"type": "int"},
    "driver": {"type": "str"},
    "driver_version": {"type": "str"},
    "pci_address": {"type": "str"},
    "numa_node": {"type": "int"},
    "local_cpus": {"type": "str"},
    "iommu_group": {"type": "int"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "dict", "options": DEVICE_OPTIONS},
            "root": {"type": "path", "default": "/var/lib/gpu_simulator"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["devices"])],
        supports_check_mode=True,
    )
    present = module.params["state"] == "present"
    if present and module.params["devices"] is None:  # given as null, which required_if lets pass
        module.fail_json(msg="state is present but devices is empty: give a list of devices, or [] for a host without any")
    try:
        host = SimulatedHost(module.params["root"])
        real = host.real_gpu()
        if present and module.params["devices"] and real:
            raise SimulationError(f"gpu_simulator_devices cannot be simulated on this host, it has {real}")
        change = host.plan(module.params["devices"] if present else [], keep=present, may_remove_nodes=not real)
        if change.is_needed and not module.check_mode:
            change.apply()
    except SimulationError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"gpu_simulator_devices cannot be simulated on this host: {error}")
    result = {"changed": change.is_needed, "root": module.params["root"], "device_files": change.device_files}
    if module._diff:
        result["diff"] = change.diff
    module.exit_json(**result)


if __name__ == "__main__":
    main()
