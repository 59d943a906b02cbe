#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make and remove mediated devices (vGPUs), now and at each boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mediated_devices
version_added: 0.1.0
short_description: Make mediated devices, such as vGPUs, for virtual machines
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes mediated devices of the kernel's framework C(mdev), and defines them in the files of C(mdevctl), which makes them at each boot.
    The driver that divides the parent, such as a vendor's vGPU host driver, must be loaded.
  - Devices that the module made earlier and that O(devices) no longer has are removed, unless a process has them open.
    The module records what it made in C(/var/lib/deephdc/mediated_devices.json). Devices that were made or defined in another way
    stay as they are.
  - If something can't be done, the module fails before it changes anything, with all reasons at once.
requirements:
  - The package mdevctl, for the next boot.
attributes:
  check_mode:
    description: Predicts the change without making it.
    support: full
  diff_mode:
    description: Shows the module's devices that are there, now and at the next boot.
    support: full
options:
  devices:
    description: The devices that must exist. Other devices that the module made are removed.
    type: list
    elements: dict
    default: []
    suboptions:
      parent:
        description: Name in C(/sys/class/mdev_bus), which is the PCI address of a GPU.
        type: str
        required: true
      type:
        description: Name of a directory in C(mdev_supported_types) of the parent, or the text of the file C(name) in it.
        type: str
        required: true
      count:
        description: How many such devices.
        type: int
        default: 1
  assigned:
    description: PCI addresses that virtual machines get as a whole. None of them can be a parent.
    type: list
    elements: str
    default: []
seealso:
  - module: deephdc.accelerators.pci_driver_override
  - name: mdevctl
    description: The program that makes the devices at boot.
    link: https://github.com/mdevctl/mdevctl
"""

EXAMPLES = r"""
- name: Divide a GPU into two vGPUs
  deephdc.accelerators.mediated_devices:
    devices:
      - {parent: "0000:41:00.0", type: nvidia-63, count: 2}

- name: Remove all of them
  deephdc.accelerators.mediated_devices:
    devices: []
"""

RETURN = r"""
devices:
  description:
    - The devices that are wanted, by UUID.
    - Their C(device_file) is what a virtual machine opens. It is V(null) in check mode if the device does not exist yet.
  type: list
  elements: dict
  returned: success
  sample:
    - {uuid: 5ad1e2c1-3a1c-5a0b-9d55-0d7c0d6a3a11, parent: "0000:41:00.0", type: nvidia-63, device_file: /dev/vfio/31}
made:
  description: UUIDs of the devices that were made, or would be in check mode.
  type: list
  elements: str
  returned: success
removed:
  description: UUIDs of the devices that have been removed, or would be in check mode.
  type: list
  elements: str
  returned: success
errors:
  description: Why nothing was changed, one sentence each.
  type: list
  elements: str
  returned: failure
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import link_name, list_directory, under
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.durable_file import note, noted, replace
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu, mediated

# Only tests have another one.
ROOT = "/"

RECORD = "/var/lib/deephdc/mediated_devices.json"
PROGRAM = "/usr/bin/mdevctl"


def write(path: str, text: str) -> None:
    """To sysfs, where the kernel acts on it."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def recorded() -> dict[str, dict]:
    """What the module made: parent and type by UUID."""
    return noted(under(ROOT, RECORD))


def record(devices: dict[str, dict]) -> None:
    note(under(ROOT, RECORD), devices)


def definition_file(name: str, device: dict) -> str:
    return under(ROOT, f"{mediated.DEFINITIONS}/{device['parent']}/{name}")


def drivers() -> dict[str, str | None]:
    directory = under(ROOT, "/sys/bus/pci/devices")
    return {address: link_name(os.path.join(directory, address, "driver")) for address in list_directory(directory)}


def make(device: dict) -> None:
    """Let the kernel make a device.

    If no device of its type is free any more, that ends in an error.
    """
    kinds = f"{mediated.PARENTS}/{device['parent']}/mdev_supported_types"
    try:
        write(under(ROOT, f"{kinds}/{device['type']}/create"), device["uuid"])
    except OSError as error:
        reason = f"{device['parent']} made no mediated device of type {device['type']}: {error.strerror}; see dmesg."
        raise Refused(reason) from error


def unmake(name: str) -> None:
    """Let the kernel remove a device.

    The error of what it refuses has no name of a file.
    """
    try:
        write(under(ROOT, f"{mediated.DEVICES}/{name}/remove"), "1")
    except OSError as error:
        raise Refused(f"Mediated device {name} can't be removed: {error.strerror}; see dmesg.") from error


def undefine(name: str, device: dict) -> None:
    path = definition_file(name, device)
    remove(path)
    if os.path.isdir(os.path.dirname(path)) and not os.listdir(os.path.dirname(path)):
        os.rmdir(os.path.dirname(path))


def bring_about(module: AnsibleModule) -> dict:
    wanted, ours, state = module.params["devices"], recorded(), mediated.read(ROOT)
    opened = iommu.opened_devices(ROOT) if ours else []
    steps = mediated.plan(wanted, state, ours, module.params["assigned"], drivers() if wanted else {}, opened)
    if steps["errors"]:
        raise Refused(*steps["errors"])
    if wanted and not module.check_mode and not os.path.exists(under(ROOT, PROGRAM)):
        raise Refused("The package mdevctl is not installed, so nothing would make the devices at the next boot.")
    devices = {device["uuid"]: device for device in steps["devices"]}
    notes = {name: {"parent": device["parent"], "type": device["type"]} for name, device in devices.items()}
    before = {name: device for name, device in ours.items() if name in state["active"] and (device["parent"], name) in state["defined"]}
    if not module.check_mode:
        if {**ours, **notes} != ours:  # the note comes first, so that what a killed run made is known as ours
            record({**ours, **notes})
        for name in steps["leaving"]:
            undefine(name, ours[name])
        for name in steps["stop"]:
            unmake(name)
        for name, device in devices.items():
            if name in steps["start"]:
                make(device)
            if name in steps["define"]:
                replace(definition_file(name, device), mediated.definition(device))
        if notes != recorded():
            record(notes)
        state = mediated.read(ROOT)
    return {
        "changed": bool(steps["leaving"] or steps["define"] or steps["start"] or notes != ours),
        "devices": [{**device, "device_file": state["active"].get(name, {}).get("device_file")} for name, device in devices.items()],
        "made": steps["start"],
        "removed": steps["leaving"],
        "diff": {"before": listing(before), "after": listing(notes)},
    }


def listing(devices: dict[str, dict]) -> str:
    return "".join(f"{name} {device['parent']} {device['type']}\n" for name, device in sorted(devices.items()))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "devices": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "parent": {"type": "str", "required": True},
                    "type": {"type": "str", "required": True},
                    "count": {"type": "int", "default": 1},
                },
            },
            "assigned": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**bring_about(module))
    except Refused as reasons:
        module.fail_json(msg="\n".join(reasons.args), errors=list(reasons.args))
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}.")


if __name__ == "__main__":
    main()
