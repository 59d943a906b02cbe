#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Divide PCI devices into SR-IOV virtual functions, and make them whole again."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pci_virtual_functions
version_added: 0.1.0
short_description: Divide PCI devices into SR-IOV virtual functions
author: deephdc.accelerators contributors (@deephdc)
description:
  - Lets the devices' own driver make virtual functions, now and, by a udev rule, at each boot. The kernel binds no driver to them by
    itself, so that they wait for M(deephdc.accelerators.pci_driver_override) or C(driverctl).
  - Devices that the module divided earlier and that O(functions) no longer has are made whole again. Virtual functions that were made in
    another way stay as they are.
  - To change the number, all virtual functions of the device are removed first. The module fails if one of them is in use.
attributes:
  check_mode:
    description: Predicts the change without making it.
    support: full
  diff_mode:
    description: Shows the udev rules.
    support: full
options:
  functions:
    description: The physical functions to divide. Others that this module divided are made whole again.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description: PCI address as sysfs writes it.
        type: str
        required: true
      vendor_id:
        description: PCI vendor that is expected there. Addresses change when cards are put in or taken out.
        type: str
        required: true
      device_id:
        description: PCI device that is expected there.
        type: str
        required: true
      count:
        description: How many virtual functions to make, 1 or more.
        type: int
        required: true
seealso:
  - module: deephdc.accelerators.iommu_facts
  - module: deephdc.accelerators.pci_driver_override
  - name: PCI Express I/O Virtualization Howto
    description: The kernel's interface.
    link: https://docs.kernel.org/PCI/pci-iov-howto.html
"""

EXAMPLES = r"""
- name: Divide one GPU into four virtual functions
  deephdc.accelerators.pci_virtual_functions:
    functions:
      - {address: "0000:41:00.0", vendor_id: "8086", device_id: 56c0, count: 4}

- name: Make all devices whole again
  deephdc.accelerators.pci_virtual_functions:
    functions: []
"""

RETURN = r"""
virtual_functions:
  description: Addresses of the virtual functions that each device has now.
  type: dict
  returned: success
  sample: {"0000:41:00.0": ["0000:41:00.1", "0000:41:00.2"]}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.address import canonical_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import under
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.durable_file import replace
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough.virtual_functions import in_use, virtual_functions

# Only tests have another one.
ROOT = "/"

# A driver that was loaded in the initramfs is bound before there are rules: then the event is the one of udev's start, add.
RULE = (
    'ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="{address}", ATTR{{vendor}}=="0x{vendor_id}", ATTR{{device}}=="0x{device_id}", '
    'DRIVER=="?*", ATTR{{sriov_drivers_autoprobe}}="0", ATTR{{sriov_numvfs}}="{count}"\n'
)


def write(address: str, name: str, text: str) -> None:
    """To sysfs, where the kernel acts on it."""
    with open(under(ROOT, f"/sys/bus/pci/devices/{address}/{name}"), "w", encoding="ascii") as file:
        file.write(text)


def rules(functions: list[dict]) -> str:
    if not functions:
        return ""
    lines = "".join(RULE.format(**function) for function in sorted(functions, key=lambda entry: entry["address"]))
    return f"# Made by deephdc.accelerators. Virtual functions for virtual machines; driverctl gives them their driver.\n{lines}"


def is_of(line: str, addresses: set[str]) -> bool:
    return any(f'KERNEL=="{address}"' in line for address in addresses)


def check(wanted: list[dict], present: dict[str, dict]) -> None:
    """What can be found wrong before anything is changed."""
    for function in wanted:
        address, count = function["address"], function["count"]
        if canonical_address(address) != address:
            raise Refused(f"{address} is not a PCI address such as 0000:41:00.0")
        if address not in present:
            raise Refused(f"this host has no PCI function {address}")
        found = f"{present[address]['vendor_id']}:{present[address]['device_id']}"
        if found != f"{function['vendor_id']}:{function['device_id']}":
            raise Refused(f"{address} is {found}, not {function['vendor_id']}:{function['device_id']}: the addresses have changed")
        able = present[address]["sriov"]["total_vfs"] or 0
        if not 1 <= count <= able:
            raise Refused(f"{address} can have 1 to {able} virtual functions, not {count}" if able else f"{address} has no SR-IOV")


def set_number(address: str, present: int, count: int) -> None:
    try:
        if present:  # from one number to another the kernel goes by way of none only
            write(address, "sriov_numvfs", "0")
        write(address, "sriov_drivers_autoprobe", "0" if count else "1")
        if count:
            write(address, "sriov_numvfs", str(count))
    except OSError as error:
        raise Refused(f"the driver of {address} does not make {count} virtual functions ({error.strerror}): see dmesg") from error


def bring_about(module: AnsibleModule) -> dict:
    wanted = module.params["functions"]
    counts = {function["address"]: function["count"] for function in wanted}
    listed, ours = iommu.functions(ROOT), iommu.divided(ROOT)
    functions = {entry["address"]: entry for entry in listed}
    check(wanted, functions)
    present = {address: functions[address]["sriov"]["num_vfs"] or 0 for address in [*counts, *ours] if address in functions}
    moving = {address: counts.get(address, 0) for address in present if present[address] != counts.get(address, 0)}
    for address in moving:
        if present[address] and address not in ours:
            raise Refused(f"{address} has {present[address]} virtual functions already, made by other means")
        obstacle = in_use(virtual_functions(listed, address))
        if obstacle:
            raise Refused(f"the virtual functions of {address} can't change: {obstacle}")
    path = under(ROOT, iommu.DIVISION_RULES)
    before, after = iommu.read_text_whole(path), rules(wanted)
    if not module.check_mode:
        # Those that go are still known as ours when the run is killed before they are gone, those that come before they are there.
        if after and after != before:
            replace(path, after + "".join(line for line in before.splitlines(keepends=True) if is_of(line, set(ours) - set(counts))))
        for address, count in moving.items():
            set_number(address, present[address], count)
        if not after and before:
            os.unlink(path)
        elif after != iommu.read_text_whole(path):
            replace(path, after)
        listed = iommu.functions(ROOT)
    return {
        "changed": bool(moving or before != after),
        "virtual_functions": {address: [entry["address"] for entry in virtual_functions(listed, address)] for address in counts},
        "diff": {"before_header": iommu.DIVISION_RULES, "after_header": iommu.DIVISION_RULES, "before": before, "after": after},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "functions": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "address": {"type": "str", "required": True},
                    "vendor_id": {"type": "str", "required": True},
                    "device_id": {"type": "str", "required": True},
                    "count": {"type": "int", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**bring_about(module))
    except Refused as reason:
        module.fail_json(msg=f"{reason}.")


if __name__ == "__main__":
    main()
