#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bind PCI functions to another driver, now and at each boot, and back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pci_driver_override
version_added: 0.1.0
short_description: Bind PCI functions to another driver than their own, such as vfio-pci
author: deephdc.accelerators contributors (@deephdc)
description:
  - Writes a driver for PCI functions into the files of C(driverctl), which binds it at each boot, and binds it now if that is safe.
    This is for single addresses, not for all devices with the same ids.
  - It is safe while no process has the function open, no console is shown on it and no default route goes through it.
    What is not safe now waits for the next boot.
  - Functions that got a driver from this module earlier and that O(functions) no longer has are given back to their own driver.
    The module records its overrides in C(/var/lib/deephdc/pci_driver_override.json). Overrides from elsewhere stay as they are.
requirements:
  - The package driverctl, for the next boot.
attributes:
  check_mode:
    description: Predicts the change without making it.
    support: full
  diff_mode:
    description: Shows the driver of each address at the next boot.
    support: full
options:
  functions:
    description: The functions that must have the driver. Others that got it from this module are given back.
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
  driver:
    description: Name of the kernel driver.
    type: str
    default: vfio-pci
  live:
    description: Whether to bind now where that is safe. With V(false), every change waits for the next boot.
    type: bool
    default: true
seealso:
  - module: deephdc.accelerators.iommu_facts
  - name: driverctl
    description: The program that binds the driver at boot.
    link: https://gitlab.com/driverctl/driverctl
"""

EXAMPLES = r"""
- name: Reserve a GPU and its audio function for virtual machines
  deephdc.accelerators.pci_driver_override:
    functions:
      - {address: "0000:41:00.0", vendor_id: 10de, device_id: 1e30}
      - {address: "0000:41:00.1", vendor_id: 10de, device_id: 10f7}

- name: Give all of them back to the host
  deephdc.accelerators.pci_driver_override:
    functions: []
"""

RETURN = r"""
bound:
  description: Present driver of each function that is in O(functions) or was given back, by address. V(null) if no driver is bound.
  type: dict
  returned: success
  sample: {"0000:41:00.0": "vfio-pci"}
given_back:
  description: Functions that were given back, or would be in check mode.
  type: list
  elements: str
  returned: success
pending:
  description: What waits for the next boot and why, one sentence each.
  type: list
  elements: str
  returned: success
  sample: ["0000:41:00.0 is bound to nouveau until the next boot: the console is shown on it (fb0)."]
reboot_needed:
  description: Whether something waits for the next boot.
  type: bool
  returned: success
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.address import canonical_address
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import link_name, read_text, under
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.durable_file import note, noted, replace
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu

# Only tests have another one.
ROOT = "/"

RECORD = "/var/lib/deephdc/pci_driver_override.json"
RULES = ("/usr/lib/udev/rules.d/05-driverctl.rules", "/lib/udev/rules.d/05-driverctl.rules")


def device(address: str, name: str = "") -> str:
    return under(ROOT, f"/sys/bus/pci/devices/{address}/{name}".rstrip("/"))


def saved_file(address: str) -> str:
    return under(ROOT, f"{iommu.OVERRIDES}/pci-{address}")


def write(path: str, text: str) -> None:
    """To sysfs, where the kernel acts on it.

    What it refuses shows when the file is closed, without a name.
    """
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise Refused(f"the kernel refused {text.strip() or 'nothing'} for {path} ({error.strerror}): see dmesg") from error


def recorded() -> dict[str, str]:
    """What the module gave: driver by address."""
    return noted(under(ROOT, RECORD))


def record(overrides: dict[str, str]) -> None:
    note(under(ROOT, RECORD), overrides)


def driver_of(address: str) -> str | None:
    return link_name(device(address, "driver"))


def check(functions: list[dict], driver: str, saved: dict[str, str], ours: dict[str, str]) -> None:
    """Everything that can be found wrong before anything is changed."""
    for function in functions:
        address = function["address"]
        if canonical_address(address) != address:
            raise Refused(f"{address} is not a PCI address such as 0000:41:00.0")
        if not os.path.exists(device(address)):
            raise Refused(f"this host has no PCI function {address}")
        found = [(read_text(device(address, name)) or "").replace("0x", "", 1) for name in ("vendor", "device")]
        if found != [function["vendor_id"], function["device_id"]]:
            raise Refused(
                f"{address} is {':'.join(found)}, not {function['vendor_id']}:{function['device_id']}: the addresses have changed"
            )
        if saved.get(address, driver) != driver and address not in ours:
            raise Refused(
                f"an administrator chose the driver {saved[address]} for {address};"
                f" take that back first (driverctl unset-override {address})"
            )


def unsafe(address: str, facts: dict[str, dict]) -> str | None:
    """Why a function can't change its driver while the host runs."""
    function = facts[address]
    if function["users"]:
        return f"{function['users'][0]}"
    if function["framebuffer"]:
        return f"the console is shown on it ({function['framebuffer']})"
    if any(interface["is_uplink"] for interface in function["interfaces"]):
        return "the host's default route goes through it"
    return None


def is_held(address: str, function: dict, driver: str) -> bool:
    """Return whether a driver keeps a function from its own.

    The driver has it, or would have it, where it could not be bound at boot.
    """
    return driver_of(address) == driver or (driver_of(address) is None and function["driver_override"] == driver)


def load(module: AnsibleModule, driver: str) -> None:
    code, _out, err = module.run_command(["modprobe", driver])
    if code != 0:
        raise Refused(f"the driver {driver} can't be loaded: {' '.join(err.split())}")


def bind(address: str, override: str) -> None:
    """Let the kernel choose a driver again; an empty override leaves the choice to it."""
    write(device(address, "driver_override"), f"{override}\n")
    if driver_of(address):
        write(device(address, "driver/unbind"), address)
    write(under(ROOT, "/sys/bus/pci/drivers_probe"), address)


def rebind(module: AnsibleModule, address: str, driver: str | None) -> None:
    """Bind a driver, or (None) the one that the kernel chooses.

    A function that the driver does not take keeps its former one.
    """
    if driver is None:
        alias = read_text(device(address, "modalias"))
        if alias:
            module.run_command(["modprobe", alias])
        bind(address, "")
        return
    former = (read_text(device(address, "driver_override")) or "").replace("(null)", "")
    bind(address, driver)
    if driver_of(address) != driver:
        bind(address, former)
        raise Refused(f"{address} was not taken by {driver}, it has {driver_of(address) or 'no driver'} again: see dmesg")


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
                },
            },
            "driver": {"type": "str", "default": "vfio-pci"},
            "live": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    try:
        module.exit_json(**bring_about(module))
    except Refused as reason:
        module.fail_json(msg=f"{reason}.")
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}.")


def bring_about(module: AnsibleModule) -> dict:
    driver, live = module.params["driver"], module.params["live"]
    wanted = [function["address"] for function in module.params["functions"]]
    ours, saved = recorded(), iommu.overrides(ROOT)
    check(module.params["functions"], driver, saved, ours)
    if wanted and not module.check_mode and not any(os.path.exists(under(ROOT, rule)) for rule in RULES):
        raise Refused("the package driverctl is not installed, so nothing would give the driver at the next boot")
    leaving = [address for address in ours if address not in wanted]
    facts = {entry["address"]: entry for entry in iommu.functions(ROOT)}
    for address in leaving:
        busy = facts[address]["users"] if address in facts and driver_of(address) == ours[address] else []
        if busy:
            raise Refused(f"{address} can't be given back: {busy[0]}; end the virtual machine that has it first")

    new = [address for address in wanted if saved.get(address) != driver]
    after = {**{address: own for address, own in saved.items() if address not in leaving}, **dict.fromkeys(wanted, driver)}
    moving = [address for address in wanted if driver_of(address) != driver]
    moving += [address for address in leaving if address in facts and is_held(address, facts[address], ours[address])]
    reasons = {address: unsafe(address, facts) if live else "it was not asked to be bound now" for address in moving}
    now = [address for address in moving if reasons[address] is None]
    waiting = [address for address in moving if reasons[address] is not None]
    kept = {address: own for address, own in {**ours, **dict.fromkeys(new, driver)}.items() if address in [*wanted, *waiting]}
    removed = [address for address in leaving if saved.get(address) == ours[address]]
    if not module.check_mode:
        if new or set(now) & set(wanted):  # before anything is written
            load(module, driver)
        if new:  # the note comes before the files, so that what a killed run made is known as ours
            record({**ours, **dict.fromkeys(new, driver)})
        for address in new:
            replace(saved_file(address), f"{driver}\n")
        for address in removed:
            os.unlink(saved_file(address))
        for address in now:
            try:
                rebind(module, address, driver if address in wanted else None)
            except Refused:
                if address in new:  # else it would have no driver after the next boot
                    os.unlink(saved_file(address))
                    record({other: own for other, own in recorded().items() if other != address})
                raise
        if kept != recorded():
            record(kept)
    return {
        "changed": bool(new or removed or now or kept != ours),
        "bound": {address: driver_of(address) for address in [*wanted, *leaving]},
        "given_back": leaving,
        "pending": [
            f"{address} is bound to {driver_of(address) or 'no driver'} until the next boot: {reasons[address]}." for address in waiting
        ],
        "reboot_needed": bool(waiting),
        "diff": {"before": listing(saved), "after": listing(after)},
    }


def listing(overrides: dict[str, str]) -> str:
    return "".join(f"{address} {driver}\n" for address, driver in sorted(overrides.items()))


if __name__ == "__main__":
    main()
