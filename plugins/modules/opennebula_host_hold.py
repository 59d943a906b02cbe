#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Disable a KVM host in OpenNebula and wait for its virtual machines."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opennebula_host_hold
version_added: 0.1.0
short_description: Disable a KVM host in OpenNebula and wait for its virtual machines, or enable it
author: deephdc.accelerators contributors (@deephdc)
description:
  - Disables a host, as C(onehost disable) does, and waits for its virtual machines, or enables a host that it disabled before.
  - No virtual machine is ended, moved or suspended.
  - What the module does is recorded in the host's attribute C(DEEPHDC_HELD). A host that an administrator disabled or took offline
    has no such attribute, and stays as it is.
attributes:
  check_mode:
    description: Predicts the change and reads which machines run there. Does not wait.
    support: full
  diff_mode:
    description: Shows the host's state and the attribute.
    support: full
extends_documentation_fragment: deephdc.accelerators.opennebula
options:
  name:
    description: The host's name in OpenNebula.
    type: str
    required: true
  state:
    description:
      - A V(held) host gets no new virtual machines.
      - A V(released) host is enabled again if this module disabled it.
    type: str
    choices: [held, released]
    required: true
  reason:
    description: Why it is held, one line; the value of C(DEEPHDC_HELD). Needed for V(held).
    type: str
  machines:
    description: >-
      Which machines to wait for. V(all) machines of the host, as before a reboot, or only those that have one of the O(devices).
    type: str
    choices: [all, devices]
    default: all
  devices:
    description:
      - With O(machines=devices), the PCI addresses of the devices. Empty means all PCI devices of the host.
    type: list
    elements: str
    default: []
  wait:
    description: Seconds to wait until none of these machines runs there; 0 does not wait.
    type: float
    default: 0.0
seealso:
  - module: deephdc.accelerators.opennebula_host_pci
"""

EXAMPLES = r"""
- name: Keep new machines from a host, and wait an hour for those that run there
  deephdc.accelerators.opennebula_host_hold:
    name: kvm1
    state: held
    reason: "gpu_hold: nvidia_driver"
    wait: 3600

- name: Give the host back
  deephdc.accelerators.opennebula_host_hold:
    name: kvm1
    state: released
"""

RETURN = r"""
known:
  description: Whether OpenNebula has a host of this name.
  type: bool
  returned: success
held:
  description: Whether this module holds the host after the call, or would in check mode.
  type: bool
  returned: success
kept:
  description: A sentence if an administrator disabled the host or took it offline, else empty.
  type: str
  returned: success
machines:
  description: The machines that run there after the wait.
  type: list
  elements: dict
  returned: success
  sample: [{"id": 7, "name": "training", "user": "ada", "devices": ["41:00.0"]}]
summary:
  description: The same machines, in words.
  type: list
  elements: str
  returned: success
  sample: ["virtual machine 7 (training) of ada with the device 41:00.0"]
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.api import OPTIONS, Api, Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.objects import listed, to_xml

POLL = 5  # seconds
ATTRIBUTE = "DEEPHDC_HELD"
# States of hosts (HostState) and arguments of one.host.status.
DISABLED = ("4", "7")  # DISABLED and MONITORING_DISABLED
AWAY = (*DISABLED, "8")  # OFFLINE, too
ENABLE = 0
DISABLE = 1
# State of machines (VmState) that have a process on their host, or are about to.
ACTIVE = "3"


def find(api: Api, name: str) -> dict | None:
    """Read a host; None where OpenNebula has none of this name."""
    return next((host for host in listed(api.get("hostpool.info").get("HOST")) if host.get("NAME") == name), None)


def part(owner: dict, name: str) -> dict:
    """An empty part of an object is text."""
    found = owner.get(name)
    return found if isinstance(found, dict) else {}


def reason_of(host: dict) -> str:
    return str(part(host, "TEMPLATE").get(ATTRIBUTE) or "")


def given(host: dict) -> dict[int, list[str]]:
    """Read the PCI addresses that machines have, by the machine's id."""
    found: dict[int, list[str]] = {}
    for device in listed(part(part(host, "HOST_SHARE"), "PCI_DEVICES").get("PCI")):
        number = int(device.get("VMID") or -1)
        if number >= 0:
            found.setdefault(number, []).append(device.get("SHORT_ADDRESS") or device.get("ADDRESS") or "")
    return found


def short(address: str) -> str:
    """An address as OpenNebula lists it: a domain only if it is another than 0000."""
    return address.lower()[5:] if address.startswith("0000:") else address.lower()


def running(api: Api, host: dict, which: str, devices: list[str]) -> list[dict]:
    """List the machines that run on a host.

    With devices, only those that have one of them.
    """
    owned = given(host)
    wanted = {short(address) for address in devices}
    numbers = {int(number) for number in listed(part(host, "VMS").get("ID"))}
    if which == "devices":
        numbers = {number for number, addresses in owned.items() if not wanted or wanted & {short(address) for address in addresses}}
    found = []
    for number in sorted(numbers | (set(owned) if which == "all" else set())):
        machine = api.get("vm.info", number)
        if machine.get("STATE") == ACTIVE:
            found.append(
                {"id": number, "name": machine.get("NAME") or "", "user": machine.get("UNAME") or "", "devices": owned.get(number, [])}
            )
    return found


def sentence(machine: dict) -> str:
    """Say whose machine it is and what it has."""
    devices = machine["devices"]
    named = f" with the device{'s' if len(devices) > 1 else ''} {', '.join(devices)}" if devices else ""
    return f"virtual machine {machine['id']} ({machine['name']}) of {machine['user']}{named}"


def hold(api: Api, module: AnsibleModule, host: dict, number: int) -> tuple[dict[str, str], str]:
    """Disable a host.

    What changes, and the sentence that says so if an administrator did that before.
    """
    is_away = host.get("STATE") in AWAY
    if is_away and not reason_of(host):
        state = "disabled" if host["STATE"] in DISABLED else "offline"
        return {}, f"{host['NAME']} was {state} in OpenNebula already and stays so"
    changes = {}
    # Before the host is disabled, so that the next run knows that this module did it.
    if not reason_of(host):
        changes[ATTRIBUTE] = module.params["reason"]
        if not module.check_mode:
            api.call("host.update", number, to_xml({ATTRIBUTE: module.params["reason"]}), 1)
    if not is_away:
        changes["state"] = "disabled"
        if not module.check_mode:
            api.call("host.status", number, DISABLE)
    return changes, ""


def release(api: Api, module: AnsibleModule, host: dict, number: int) -> dict[str, str]:
    """Enable a host that this module disabled; what changes."""
    if not reason_of(host):
        return {}
    changes = {}
    if host.get("STATE") in DISABLED:
        changes["state"] = "enabled"
        if not module.check_mode:
            api.call("host.status", number, ENABLE)
    changes[ATTRIBUTE] = ""
    if not module.check_mode:
        api.call("host.update", number, to_xml({ATTRIBUTE: ""}), 1)
    return changes


def machines_after(api: Api, module: AnsibleModule, host: dict) -> list[dict]:
    """List the machines that run there when all have ended or the wait is over."""
    deadline = time.monotonic() + (0 if module.check_mode else module.params["wait"])
    while True:
        found = running(api, host, module.params["machines"], module.params["devices"])
        left = deadline - time.monotonic()
        if not found or left <= 0:
            return found
        time.sleep(min(left, POLL))
        host = find(api, module.params["name"]) or host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["held", "released"], "required": True},
            "reason": {"type": "str"},
            "machines": {"type": "str", "choices": ["all", "devices"], "default": "all"},
            "devices": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "float", "default": 0.0},
        },
        required_if=[("state", "held", ["reason"])],
        supports_check_mode=True,
    )
    name, holding = module.params["name"], module.params["state"] == "held"
    changes: dict[str, str] = {}
    machines: list[dict] = []
    kept = ""
    before = {"state": "enabled", ATTRIBUTE: ""}
    try:
        api = Api(module)
        host = find(api, name)
        if host is not None:
            number = api.number(host, "ID")
            before = {"state": "disabled" if host.get("STATE") in AWAY else "enabled", ATTRIBUTE: reason_of(host)}
            if holding:
                changes, kept = hold(api, module, host, number)
                machines = machines_after(api, module, host if module.check_mode else find(api, name) or host)
            else:
                changes = release(api, module, host, number)
    except Refused as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(
        changed=bool(changes),
        known=host is not None,
        held=bool(holding and host is not None and not kept),
        kept=kept,
        machines=machines,
        summary=[sentence(machine) for machine in machines],
        diff={
            "before": "".join(f"{key} {before[key]}\n" for key in sorted(changes)),
            "after": "".join(f"{key} {changes[key]}\n" for key in sorted(changes)),
            "before_header": f"host {name}",
            "after_header": f"host {name}",
        },
    )


if __name__ == "__main__":
    main()
