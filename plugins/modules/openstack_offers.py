#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare what compute hosts offer in Placement with what was promised."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_offers
version_added: 0.1.0
short_description: Wait until compute hosts offer the promised GPUs in Placement
author: deephdc.accelerators contributors (@deephdc)
description:
  - Waits until each compute host is up in Nova, and Placement has all units of GPUs that were promised for it, including reserved ones.
  - Fails with a sentence for each difference.
requirements:
  - openstacksdk 0.101 or newer (Debian's python3-openstacksdk)
attributes:
  check_mode:
    description: Nothing is compared, as nothing was delivered.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  cloud:
    description: Name of the cloud in C(/etc/openstack/clouds.yaml), with the account of an administrator.
    type: str
    required: true
  expected:
    description: What each compute host must offer.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: Inventory name, for messages.
        type: str
        required: true
      name:
        description: Name of the host in Nova.
        type: str
        required: true
      classes:
        description: How many units of each resource class, such as V(CUSTOM_GPU_A100).
        type: dict
        default: {}
  wait:
    description: Seconds to wait until nothing differs.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Check that gpu1 offers its two A100
  deephdc.accelerators.openstack_offers:
    cloud: deephdc-admin
    expected:
      - {host: gpu1, name: gpu1, classes: {CUSTOM_GPU_A100: 2}}
"""

RETURN = r"""
offered:
  description: What each host offers, one line each.
  type: list
  elements: str
  returned: always
  sample: ["gpu1: 2 CUSTOM_GPU_A100 of 2, 1 in use, 0 reserved"]
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack import cloud as openstack_cloud

POLL = 2  # seconds
BEGIN = "CUSTOM_GPU_"
# With nested providers of one root, and their inventories by class.
VERSION = {"OpenStack-API-Version": "placement 1.14"}


def units(placement: t.Any, name: str) -> dict[str, dict[str, int]] | None:
    """Return the units of each class of GPUs that a host has in Placement.

    These are the total, used and reserved units. None means that Placement has no such host.
    """
    roots = placement.get("/resource_providers", params={"name": name}, headers=VERSION).json()["resource_providers"]
    if not roots:
        return None
    found: dict[str, dict[str, int]] = {}
    for provider in placement.get("/resource_providers", params={"in_tree": roots[0]["uuid"]}, headers=VERSION).json()[
        "resource_providers"
    ]:
        path = f"/resource_providers/{provider['uuid']}"
        inventories = placement.get(f"{path}/inventories", headers=VERSION).json()["inventories"]
        own = {key: value for key, value in inventories.items() if key.startswith(BEGIN)}
        used = placement.get(f"{path}/usages", headers=VERSION).json()["usages"] if own else {}
        for key, value in own.items():
            count = found.setdefault(key, {"total": 0, "used": 0, "reserved": 0})
            count["total"] += value["total"]
            count["reserved"] += value["reserved"]
            count["used"] += used.get(key, 0)
    return found


def compare(
    expected: t.Sequence[dict[str, t.Any]], services: dict[str, t.Any], there: dict[str, dict[str, dict[str, int]] | None]
) -> tuple[list[str], list[str]]:
    """Return what is offered, and what differs.

    The first is a line for each host and class, the second a sentence for each difference.
    """
    lines, wrong = [], []
    for wanted in expected:
        host, name = wanted["host"], wanted["name"]
        service = services.get(name)
        if service is None:
            wrong.append(f"{host}: Nova has no compute service on {name}: look at /var/log/nova/nova-compute.log there.")
            continue
        if service.state != "up":
            wrong.append(f"{host}: the compute service is {service.state}: look at /var/log/nova/nova-compute.log there.")
        counts = there.get(name)
        if counts is None:
            wrong.append(f"{host}: Placement does not have {name}: look at /var/log/nova/nova-compute.log there.")
            continue
        for one in sorted({*wanted["classes"], *counts}):
            count, promised = counts.get(one, {"total": 0, "used": 0, "reserved": 0}), int(wanted["classes"].get(one, 0))
            lines.append(f"{host}: {count['total']} {one} of {promised}, {count['used']} in use, {count['reserved']} reserved")
            if count["total"] != promised:
                why = (
                    "look at /etc/nova/gpus.json and nova-compute.log there"
                    if count["total"] < promised
                    else "find out what else offers them"
                )
                wrong.append(f"{host} offers {count['total']} {one}, but {promised} {'was' if promised == 1 else 'were'} promised: {why}.")
    return lines, wrong


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "expected": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "host": {"type": "str", "required": True},
                    "name": {"type": "str", "required": True},
                    "classes": {"type": "dict", "default": {}},
                },
            },
            "wait": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    expected = module.params["expected"]
    if module.check_mode or not expected:
        module.exit_json(changed=False, offered=[])
    if openstack_cloud.LIBRARY_ERROR:
        module.fail_json(msg=missing_required_lib("openstacksdk"), exception=openstack_cloud.LIBRARY_ERROR)
    until = time.monotonic() + module.params["wait"]
    lines: list[str] = []
    wrong: list[str] = []
    try:
        cloud = openstack_cloud.connect(module.params["cloud"], "", module.check_mode)
        while True:
            services = {one.host: one for one in cloud.sdk.compute.services(binary="nova-compute")}
            lines, wrong = compare(expected, services, {one["name"]: units(cloud.sdk.placement, one["name"]) for one in expected})
            if not wrong or time.monotonic() >= until:
                break
            time.sleep(POLL)
    except Refused as refused:
        module.fail_json(msg=" ".join(map(str, refused.args)), offered=lines)
    except openstack_cloud.openstack.exceptions.SDKException as error:
        module.fail_json(msg=f"The cloud did not answer: {openstack_cloud.one_line(error)}.", offered=lines)
    if wrong:
        module.fail_json(msg="\n".join(wrong), offered=lines)
    module.exit_json(changed=False, offered=lines)


if __name__ == "__main__":
    main()
