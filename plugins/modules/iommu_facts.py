#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a host's IOMMU and the groups of its PCI functions."""

from __future__ import annotations

DOCUMENTATION = r"""
module: iommu_facts
version_added: 0.1.0
short_description: Read a host's IOMMU and the groups of its PCI functions as facts
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads whether the firmware has an IOMMU and the kernel uses it. Also reads every PCI function with its group, its driver, and what the
    host itself does with it.
  - Needs root to see which processes have a device open.
extends_documentation_fragment: deephdc.accelerators.reads
attributes:
  facts:
    description: Returns C(ansible_facts.iommu).
    support: full
options:
  root:
    description: Prefix of C(/sys), C(/proc), C(/etc) and C(/lib), for a simulated host.
    type: path
    default: /
seealso:
  - module: deephdc.accelerators.gpu_facts
  - module: deephdc.accelerators.pci_driver_override
  - module: deephdc.accelerators.pci_virtual_functions
"""

EXAMPLES = r"""
- name: Read the IOMMU
  deephdc.accelerators.iommu_facts:

- name: Show what shares a group with the GPU at 0000:41:00.0
  ansible.builtin.debug:
    msg: "{{ functions | selectattr('group', 'equalto', (functions | selectattr('address', 'equalto', '0000:41:00.0') | first).group) }}"
  vars:
    functions: "{{ ansible_facts.iommu.functions }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    iommu:
      description: What was read.
      type: dict
      returned: always
      contains:
        table:
          description: The firmware's table that describes an IOMMU, V(DMAR) (Intel) or V(IVRS) (AMD). V(null) without one.
          type: str
          sample: DMAR
        units:
          description: IOMMUs that the kernel uses.
          type: list
          elements: str
          sample: [dmar0, dmar1]
        kernel:
          description: Release of the running kernel.
          type: str
          sample: 6.1.0-37-amd64
        kernel_arguments:
          description: Arguments that the running kernel was started with.
          type: list
          elements: str
          sample: [BOOT_IMAGE=/boot/vmlinuz-6.1.0-37-amd64, ro, intel_iommu=on]
        has_vfio:
          description: Whether the running kernel has the driver vfio-pci.
          type: bool
        overrides:
          description: Drivers that driverctl gives at boot, by PCI address.
          type: dict
          sample: {"0000:41:00.0": "vfio-pci"}
        divided:
          description:
            - Number of SR-IOV virtual functions that M(deephdc.accelerators.pci_virtual_functions) makes at each boot, by PCI address.
          type: dict
          sample: {"0000:41:00.0": 4}
        functions:
          description: All PCI functions in order of address.
          type: list
          elements: dict
          contains:
            address:
              description: PCI address.
              type: str
              sample: "0000:41:00.0"
            class:
              description: PCI class, six hexadecimal digits.
              type: str
              sample: "030200"
            vendor_id:
              description: PCI vendor.
              type: str
              sample: 10de
            device_id:
              description: PCI device.
              type: str
              sample: 20b2
            driver:
              description: Kernel driver that is bound now, V(null) if none is.
              type: str
              sample: nvidia
            driver_override:
              description: The only driver that the running kernel may bind, V(null) if it may choose.
              type: str
              sample: vfio-pci
            group:
              description: IOMMU group, V(null) if the kernel has none for it.
              type: int
              sample: 42
            boot_display:
              description: Whether the firmware started with it as display.
              type: bool
            framebuffer:
              description: Name of its framebuffer, where the console may be shown, or V(null).
              type: str
              sample: fb0
            interfaces:
              description: Its network interfaces, and whether a default route goes through them.
              type: list
              elements: dict
              sample: [{"name": "eno1", "is_uplink": true}]
            sriov:
              description:
                - C(total_vfs), how many virtual functions it can have, and C(num_vfs), how many it has. V(null) without SR-IOV.
                - C(physical_function), for a virtual function the address of its physical function, otherwise V(null).
              type: dict
              sample: {"total_vfs": 16, "num_vfs": 4, "physical_function": null}
            users:
              description:
                - Who has its device files open. Only read for display controllers, processing accelerators, virtual functions
                  and what is on the same card.
              type: list
              elements: str
              sample: ["python3 (process 4711) has /dev/nvidia0 open"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    module.exit_json(changed=False, ansible_facts={"iommu": iommu.read(module.params["root"])})


if __name__ == "__main__":
    main()
