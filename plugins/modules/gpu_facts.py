#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a host's accelerators."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: gpu_facts
version_added: 0.1.0
short_description: Read a host's accelerators as facts
author: deephdc.accelerators contributors (@deephdc)
description:
  - Lists GPUs, other accelerators and console graphics of a host, each with the same keys.
  - Ids, placement and the bound driver come from sysfs alone. So they are there for any user, before a driver is installed and
    without lspci. Names come from the host's pci.ids where it has one.
  - With a driver, C(/proc/driver/nvidia) and C(nvidia-smi), or the sysfs files of amdgpu, i915 and xe and C(rocm-smi), add the rest.
  - A fact that the host does not have is V(null). C(health) of a device lists what is wrong with it.
extends_documentation_fragment: deephdc.accelerators.reads
attributes:
  facts:
    description: The list is in RV(ansible_facts.accelerators).
    support: full
options:
  root:
    description:
      - Prefix of C(/sys), C(/proc) and C(/dev), for a simulated or a mounted host.
      - Commands are still taken from E(PATH), and pci.ids from C(/usr/share).
    type: path
    default: /
  vendors:
    description: Only devices of these vendors are listed.
    type: list
    elements: str
    choices: [nvidia, amd, intel, other]
    default: [nvidia, amd, intel, other]
  timeout:
    description:
      - Seconds that all commands together may take. Then a command that hangs is killed, with all that it started.
      - What the kernel says is returned even then.
    type: float
    default: 10.0
seealso:
  - module: deephdc.accelerators.gpu_simulator
"""

EXAMPLES = r"""
- name: Read the accelerators
  deephdc.accelerators.gpu_facts:

- name: Show the scheduler types of the GPUs
  ansible.builtin.debug:
    msg: "{{ ansible_facts.accelerators | selectattr('kind', 'equalto', 'gpu') | map(attribute='type') }}"

- name: Read simulated accelerators
  deephdc.accelerators.gpu_facts:
    root: /var/lib/gpu_simulator
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    accelerators:
      description: The devices in the order of their PCI addresses.
      type: list
      elements: dict
      returned: always
      contains:
        kind:
          description:
            - V(gpu) is a display controller (PCI class 03) of NVIDIA, or a card of AMD or Intel; also a processing accelerator (class 12)
              that is known as a GPU, such as an MI300X.
            - V(accelerator) is any other processing accelerator (class 12) or co-processor (class 0b40).
            - V(console) is any other display controller, such as ASPEED, Matrox, virtio, or graphics that is part of a CPU.
              It is never scheduled.
          type: str
          sample: gpu
        index:
          description: Position in this list.
          type: int
          sample: 0
        pci_address:
          description: Domain, bus, device and function as sysfs writes them; the domain may have more than four digits.
          type: str
          sample: "0000:41:00.0"
        class:
          description: PCI class, six hexadecimal digits.
          type: str
          sample: "030200"
        vendor_id:
          description: PCI vendor, four hexadecimal digits.
          type: str
          sample: 10de
        device_id:
          description: PCI device, four hexadecimal digits.
          type: str
          sample: 20b2
        subsystem_id:
          description: PCI subsystem, vendor and device.
          type: str
          sample: "10de:147f"
        vendor:
          description: V(nvidia), V(amd), V(intel) or V(other).
          type: str
          sample: nvidia
        model:
          description: Marketing name, from the driver, else from pci.ids.
          type: str
          sample: NVIDIA A100-SXM4-80GB
        type:
          description: Short name for schedulers, of small letters, digits and C(_). An unknown device gets a slug of its model or ids.
          type: str
          sample: a100
        memory_mib:
          description: Device memory in MiB.
          type: int
          sample: 81920
        uuid:
          description: The name that the vendor's run time knows the device by (C(CUDA_VISIBLE_DEVICES), C(ROCR_VISIBLE_DEVICES)).
          type: str
          sample: GPU-513536b6-7d19-9063-b049-1e69664bb298
        serial:
          description: Serial number of the board.
          type: str
          sample: "1650522003820"
        driver:
          description: Kernel driver that is bound to the device now.
          type: str
          sample: nvidia
        driver_version:
          description: Version of the loaded kernel module.
          type: str
          sample: 550.163.01
        library_version:
          description: Version of the user space, NVML or ROCm.
          type: str
          sample: 550.163.01
        device_files:
          description:
            - Files through which processes use the device, without the prefix O(root), the one that schedulers confine first.
            - Only files that exist.
          type: list
          elements: str
          sample: [/dev/nvidia0]
        numa_node:
          description: NUMA node.
          type: int
          sample: 3
        local_cpus:
          description: CPUs of that node, as a list of the kernel.
          type: str
          sample: 48-63,112-127
        pcie:
          description: The PCI Express link as it is now; an idle GPU may have lowered its generation.
          type: dict
          contains:
            gen:
              description: Generation.
              type: int
              sample: 4
            width:
              description: Lanes.
              type: int
              sample: 16
        iommu_group:
          description: IOMMU group.
          type: int
          sample: 42
        iommu_group_peers:
          description: PCI addresses of the other devices in the group, such as the GPU's own audio function.
          type: list
          elements: str
          sample: ["0000:41:00.1"]
        sriov:
          description: Virtual functions.
          type: dict
          contains:
            total_vfs:
              description: Number of virtual functions the device can have; V(null) if it cannot have any.
              type: int
              sample: 16
            num_vfs:
              description: Number of virtual functions it has now.
              type: int
              sample: 0
            is_vf:
              description: Whether it is a virtual function itself.
              type: bool
              sample: false
        mig:
          description: NVIDIA's multi-instance mode.
          type: dict
          contains:
            capable:
              description: Whether the GPU has such a mode. Only nvidia-smi reports it.
              type: bool
              sample: true
            enabled:
              description: Whether the mode is on.
              type: bool
              sample: true
            devices:
              description: The instances.
              type: list
              elements: dict
              contains:
                uuid:
                  description: UUID.
                  type: str
                  sample: MIG-c7384736-a75d-5afc-978f-d2f1294409fd
                profile:
                  description: Profile.
                  type: str
                  sample: 1g.10gb
                gpu_instance_id:
                  description: Id of the GPU instance.
                  type: int
                  sample: 7
                compute_instance_id:
                  description: Id of the compute instance in it.
                  type: int
                  sample: 0
                memory_mib:
                  description: Memory in MiB.
                  type: int
                  sample: 9728
                device_files:
                  description: The GPU's file and the two capabilities that open the instance.
                  type: list
                  elements: str
                  sample: [/dev/nvidia0, /dev/nvidia-caps/nvidia-cap66, /dev/nvidia-caps/nvidia-cap67]
        display_active:
          description: Whether the firmware or a screen uses it as display.
          type: bool
          sample: false
        ecc:
          description: Whether error correction of its memory is on.
          type: bool
          sample: true
        health:
          description: What is wrong with it; empty if nothing was found.
          type: list
          elements: dict
          sample: []
          contains:
            problem:
              description:
                - V(driver_mismatch), kernel module and user space have different versions.
                - V(fallen_off_bus), the device does not answer any more.
                - V(nvidia_smi_timeout), V(nvidia_smi_failed), V(nvidia_smi_unreadable), the command hung, failed, or gave a broken answer;
                  V(rocm_smi_timeout), V(rocm_smi_failed), V(rocm_smi_unreadable) likewise.
                - V(nvidia_smi_warning), it has a full answer, and complains.
                - V(nvidia_smi_unlisted), nvidia-smi answers and does not list this GPU, though the driver is bound to it.
                - V(excluded), an administrator keeps the driver from the GPU.
                - V(reset_required), the GPU must be reset before it works again.
                - V(driver_error), the kernel log, which root alone can read, has an error (Xid) after which NVIDIA asks for a reset or a
                  reboot. It counts where the driver itself does not say what the GPU needs, as before version 575.
                - V(fabric_not_ready), the GPU is not connected to the NVLink fabric of its host.
                - V(compute_prohibited), the GPU's compute mode lets no program use it.
                - V(compute_partitions), an AMD GPU is in another compute partition mode than SPX.
                - V(device_file_missing), a file that the driver names is not there.
                - V(device_file_shared), another device has the same file, so a job could open that device.
                - V(ecc_errors), memory errors that could not be corrected, or that wait for a reset to be repaired.
              type: str
              sample: driver_mismatch
            message:
              description: One sentence, beginning with the PCI address.
              type: str
              sample: "0000:41:00.0: the NVML library 535.183 does not fit the loaded kernel module 550.163.01."
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather

VENDORS = list(vendors.names())


def main():
    # type: () -> None
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "vendors": {"type": "list", "elements": "str", "choices": VENDORS, "default": VENDORS},
            "timeout": {"type": "float", "default": 10.0},
        },
        supports_check_mode=True,
    )
    accelerators = gather(module.params["root"], tuple(module.params["vendors"]), module.params["timeout"])
    module.exit_json(changed=False, ansible_facts={"accelerators": accelerators})


if __name__ == "__main__":
    main()
