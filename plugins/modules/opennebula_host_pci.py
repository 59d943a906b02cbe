#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Say which PCI devices a KVM host of OpenNebula offers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opennebula_host_pci
version_added: 0.1.0
short_description: Select which of a host's accelerators OpenNebula offers
author: deephdc.accelerators contributors (@deephdc)
description:
  - Sets the attribute C(PCI_SHORT_ADDRESS) of a host, which narrows what the patterns of C(pci.conf) let through.
    C(pci.conf) is one file for all hosts, so it can't distinguish two devices of the same model.
  - Addresses that the list has from elsewhere stay, and so do the devices that OpenNebula shows of a host without a list. What this module
    added is recorded in attributes of the host, C(DEEPHDC_PCI_SHORT_ADDRESS) and C(DEEPHDC_PCI_FOUND).
  - With neither O(addresses) nor O(withheld), the host gets its former attributes again.
  - Needs OpenNebula 7.0 or newer, as older ones do not know the attribute.
attributes:
  check_mode:
    description: Predicts the change. Does not wait.
    support: full
  diff_mode:
    description: Shows the attributes that change.
    support: full
extends_documentation_fragment: deephdc.accelerators.opennebula
options:
  name:
    description: The host's name in OpenNebula.
    type: str
    required: true
  addresses:
    description: PCI addresses of the accelerators to offer, as C(lspci -mm) prints them. The domain is only written if it is not 0000.
    type: list
    elements: str
    default: []
  withheld:
    description: Addresses of accelerators of the same models that must not be offered, because the host uses them itself.
    type: list
    elements: str
    default: []
  devices:
    description: C(vendor:device:class) of the accelerators to offer, to find a C(PCI_FILTER) that hides them.
    type: list
    elements: str
    default: []
  lost:
    description: Those of O(addresses) that are missing on the host, so that OpenNebula can't list them now.
    type: list
    elements: str
    default: []
  wait:
    description:
      - Seconds to wait until OpenNebula lists all O(addresses). The module fails if one is still missing then.
        With 0 it does not wait, and returns what is missing in RV(missing).
    type: int
    default: 0
seealso:
  - module: deephdc.accelerators.opennebula_gpu_template
  - plugin: deephdc.accelerators.opennebula_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Offer one GPU to virtual machines and withhold another
  deephdc.accelerators.opennebula_host_pci:
    name: kvm1
    addresses: ["41:00.0"]
    withheld: ["42:00.0"]
    devices: ["10de:20b0:0302"]
"""

RETURN = r"""
id:
  description: The host's id.
  type: int
  returned: success
attributes:
  description: The attributes as they are now, or would be in check mode.
  type: dict
  returned: success
  sample: {"PCI_SHORT_ADDRESS": "41:00.0"}
missing:
  description: Addresses that OpenNebula does not list yet.
  type: list
  elements: str
  returned: success
monitored:
  description: Whether the host is enabled and monitored. One that a person has disabled or taken offline is not.
  type: bool
  returned: success
unguarded:
  description:
    - The KVM hosts of this front end for which neither the host nor its cluster has C(PCI_SHORT_ADDRESS) or C(PCI_FILTER).
    - They offer all their devices that pci.conf lets through.
  type: list
  elements: str
  returned: success
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula import host_pci
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.api import OPTIONS, Api
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.objects import listed, to_xml, version

OLDEST = (7, 0)  # 7.0's development releases are called 6.99
POLL = 2  # seconds
MONITORED = ("1", "2")  # states MONITORING_MONITORED and MONITORED


def find(api: Api, name: str) -> dict:
    return named(listed(api.get("hostpool.info").get("HOST")), name)


def named(hosts: list[dict], name: str) -> dict:
    host = next((host for host in hosts if host.get("NAME") == name), None)
    if host is None:
        raise Refused(f"OpenNebula has no host {name}: make it with 'onehost create', or correct opennebula_host_name.")
    return host


def shown(host: dict) -> list[str]:
    """The addresses that OpenNebula lists."""
    devices = (host.get("HOST_SHARE") or {}).get("PCI_DEVICES") or {}
    return [device.get("SHORT_ADDRESS", "") for device in listed(devices.get("PCI") if isinstance(devices, dict) else None)]


def attributes_of(owner: dict) -> dict:
    """TEMPLATE of an object; an empty one is text."""
    return owner["TEMPLATE"] if isinstance(owner.get("TEMPLATE"), dict) else {}


def wait(api: Api, name: str, host: dict, addresses: list[str], seconds: int) -> list[str]:
    """What OpenNebula does not list after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        missing = sorted(set(addresses) - set(shown(host)))
        if not missing or time.monotonic() >= deadline:
            return missing
        time.sleep(POLL)
        host = find(api, name)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "withheld": {"type": "list", "elements": "str", "default": []},
            "devices": {"type": "list", "elements": "str", "default": []},
            "lost": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        api = Api(module)
        server = str(api.call("system.version"))
        if version(server) < OLDEST:
            raise Refused(f"OpenNebula {server} knows no PCI_SHORT_ADDRESS of hosts: upgrade the front end to 7.0 or newer.")
        pool = listed(api.get("hostpool.info").get("HOST"))
        host = named(pool, given["name"])
        number = api.number(host, "ID")
        clusters = {
            str(cluster): attributes_of(api.get("cluster.info", cluster))
            for cluster in sorted({api.number(one, "CLUSTER_ID") for one in pool})
            if cluster >= 0
        }
        template = attributes_of(host)
        cluster = clusters.get(str(host["CLUSTER_ID"]), {})
        hidden = host_pci.hidden_by(template, cluster, given["devices"])
        if hidden:
            raise Refused(f"{given['name']} can't offer its accelerators: {hidden}.")
        wanted = host_pci.host_attributes(template, cluster, shown(host), given["addresses"], given["withheld"])
        changes = {name: value for name, value in wanted.items() if str(template.get(name) or "") != value}
        if changes and not module.check_mode:
            api.call("host.update", number, to_xml(changes), 1)
        expected = [address for address in given["addresses"] if address not in given["lost"]]
        missing = wait(api, given["name"], host, expected, 0 if module.check_mode else given["wait"])
        if missing and given["wait"] and not module.check_mode:
            raise Refused(
                f"{given['name']}: after {given['wait']} s OpenNebula does not list {', '.join(missing)}. See 'onehost show "
                f"{given['name']}' whether the host is monitored, and as oneadmin 'onehost sync --force' for new settings of the probes."
            )
    except Refused as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(
        changed=bool(changes),
        id=number,
        attributes=wanted,
        missing=missing,
        monitored=host.get("STATE") in MONITORED,
        unguarded=host_pci.unguarded(pool, clusters),
        diff={
            "before": "".join(f"{name}={template.get(name) or ''}\n" for name in sorted(changes)),
            "after": "".join(f"{name}={changes[name]}\n" for name in sorted(changes)),
            "before_header": f"host {given['name']}",
            "after_header": f"host {given['name']}",
        },
    )


if __name__ == "__main__":
    main()
