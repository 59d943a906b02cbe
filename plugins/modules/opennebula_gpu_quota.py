#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Limit how many GPUs the machines of a user or group of OpenNebula may have."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opennebula_gpu_quota
version_added: 0.1.0
short_description: Limit the GPUs of an OpenNebula user or group
author: deephdc.accelerators contributors (@deephdc)
description:
  - Sets one limit of the global quota on virtual machines and keeps all others. The module sends the other limits along, because
    OpenNebula resets every limit that is not sent.
  - Quotas of clusters, and quotas on anything other than virtual machines, are not touched.
attributes:
  check_mode:
    description: Predicts the change.
    support: full
  diff_mode:
    description: Shows the limit.
    support: full
extends_documentation_fragment: deephdc.accelerators.opennebula
options:
  user:
    description: Name of the user to limit. Give this or O(group).
    type: str
  group:
    description: Name of the group to limit. Give this or O(user).
    type: str
  limit:
    description: Number of GPUs, V(-1) for the default quota, V(-2) for no limit.
    type: int
    required: true
  counted_as:
    description:
      - What is limited. V(PCI_DEV) counts all PCI devices of virtual machines other than network cards, and needs OpenNebula 7.2 or newer.
        Any other value must be a C(QUOTA_VM_ATTRIBUTE) in C(oned.conf). It counts the value of that attribute in templates.
    type: str
    default: PCI_DEV
seealso:
  - module: deephdc.accelerators.opennebula_gpu_template
"""

EXAMPLES = r"""
- name: Let the machines of the group research have four GPUs
  deephdc.accelerators.opennebula_gpu_quota:
    group: research
    limit: 4
"""

RETURN = r"""
quota:
  description: The limits on virtual machines that were sent, or would be. Empty where nothing changes.
  type: dict
  returned: success
  sample: {"CPU": "-1", "PCI_DEV": "4", "VMS": "20"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.api import OPTIONS, Api
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.objects import listed, to_xml, version, wanted_quota

COUNTS_DEVICES = (7, 1, 80)  # 7.2 and its development releases


def check_counted(api: Api, counted_as: str) -> None:
    """OpenNebula passes over a limit that it does not know, without a warning."""
    if counted_as == "PCI_DEV":
        server = str(api.call("system.version"))
        if version(server) < COUNTS_DEVICES:
            raise Refused(
                f"OpenNebula {server} has no quota on PCI devices: upgrade the front end to 7.2, or limit an attribute of templates by "
                "QUOTA_VM_ATTRIBUTE in oned.conf and opennebula_pci_counted_as."
            )
        return
    known = listed(api.get("system.config").get("QUOTA_VM_ATTRIBUTE"))
    if counted_as not in known and counted_as.replace("RUNNING_", "", 1) not in known:
        raise Refused(
            f'oned does not count {counted_as}: add QUOTA_VM_ATTRIBUTE = "{counted_as}" to /etc/one/oned.conf and restart opennebula, '
            "or use PCI_DEV with OpenNebula 7.2 or newer."
        )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            "user": {"type": "str"},
            "group": {"type": "str"},
            "limit": {"type": "int", "required": True},
            "counted_as": {"type": "str", "default": "PCI_DEV"},
        },
        mutually_exclusive=[["user", "group"]],
        required_one_of=[["user", "group"]],
        supports_check_mode=True,
    )
    given = module.params
    kind = "user" if given["user"] else "group"
    name, counted_as = given[kind], given["counted_as"]
    try:
        if given["limit"] < -2:
            raise Refused(f"The limit {given['limit']} is wrong: give 0 or more, -1 for the default quota, -2 for no limit.")
        api = Api(module)
        check_counted(api, counted_as)
        entry = api.one(f"{kind}pool.info", kind.upper(), name)
        if entry is None:
            raise Refused(f"OpenNebula has no {kind} {name}: make it with 'one{kind} create', or correct the name.")
        number = api.number(entry, "ID")
        quotas = api.get(f"{kind}.info", number).get("VM_QUOTA")
        if quotas is None:
            raise Refused(f"OpenNebula does not show the quotas of the {kind} {name}. Without them its other limits would be lost.")
        before, quota = wanted_quota(listed(quotas.get("VM")) if isinstance(quotas, dict) else [], counted_as, given["limit"])
        if quota and not module.check_mode:
            api.call(f"{kind}.quota", number, to_xml({"VM": quota}))
    except Refused as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(
        changed=quota is not None,
        quota=quota or {},
        diff={
            "before": f"{counted_as}={before.get(counted_as, '-1')}\n",
            "after": f"{counted_as}={(quota or before).get(counted_as, '-1')}\n",
            "before_header": f"quota of the {kind} {name}",
            "after_header": f"quota of the {kind} {name}",
        },
    )


if __name__ == "__main__":
    main()
