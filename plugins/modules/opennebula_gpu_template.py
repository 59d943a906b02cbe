#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep a template of OpenNebula whose virtual machines get GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opennebula_gpu_template
version_added: 0.1.0
short_description: Manage an OpenNebula template that asks for GPUs
author: deephdc.accelerators contributors (@deephdc)
description:
  - Makes a template for virtual machines that ask for accelerators by vendor and device, so that OpenNebula gives any free one of any host.
  - Only OpenNebula's administrators can write the attribute C(PCI). So users can start machines from an administrator's template, but
    can't ask for other devices.
  - Attributes that O(attributes) does not have stay, such as those added in Sunstone or by an earlier call. Requests for PCI devices
    that have a C(TYPE), such as network cards, stay too.
  - A template of the same name that was not made by this module is refused.
attributes:
  check_mode:
    description: Predicts the change.
    support: full
  diff_mode:
    description: Shows the attributes that change.
    support: full
extends_documentation_fragment: deephdc.accelerators.opennebula
options:
  name:
    description: Name of the template. It belongs to the user in O(auth_file).
    type: str
    required: true
  state:
    description: Whether the template must exist. Machines that were started from it are not affected.
    type: str
    choices: [present, absent]
    default: present
  pci:
    description: What to ask for, C(VENDOR) and C(DEVICE), and C(CLASS) if it is known. Needed for V(present).
    type: dict
  count:
    description: How many such devices a machine gets.
    type: int
    default: 1
  counted_as:
    description: Name of an attribute that gets O(count), for a quota by C(QUOTA_VM_ATTRIBUTE) in C(oned.conf).
    type: str
  attributes:
    description: >-
      All other attributes, such as C(CPU), C(MEMORY) and C(DISK), as a dictionary. A vector attribute is a dictionary, and several of one
      name are a list.
    type: dict
    default: {}
  mode:
    description: Who may use it, octal, for owner, group and others. V(0640) lets the group use it. Unchanged if not given.
    type: str
  group:
    description: Name of the group that the template belongs to. Unchanged if not given.
    type: str
seealso:
  - module: deephdc.accelerators.opennebula_host_pci
  - plugin: deephdc.accelerators.opennebula_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Let the group research start machines with one A100
  deephdc.accelerators.opennebula_gpu_template:
    name: debian-a100
    pci: {VENDOR: 10de, DEVICE: 20b0, CLASS: "0302"}
    attributes:
      CPU: 8
      VCPU: 8
      MEMORY: 65536
      OS: {MACHINE: q35}
      DISK: {IMAGE: debian}
      NIC: {NETWORK: private}
    group: research
    mode: "0640"
"""

RETURN = r"""
id:
  description: The template's id. Missing if the template is absent or was only predicted.
  type: int
  returned: when there is one
attributes:
  description: The attributes that were sent, or would be.
  type: dict
  returned: success
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.api import OPTIONS, Api
from ansible_collections.deephdc.accelerators.plugins.module_utils._opennebula.objects import (
    MADE_BY,
    different,
    normal,
    permission_bits,
    present_bits,
    to_xml,
    wanted_template,
)

MINE = (-3, -1, -1)  # templatepool.info: of the connected user, from the first to the last


def lines(attributes: t.Mapping[str, t.Any]) -> str:
    return "".join(f"{name}={attributes[name]}\n" for name in sorted(attributes))


class Template:
    """The present template, and the calls that change it into the wanted one."""

    def __init__(self, api: Api, given: dict, check: bool) -> None:
        self.api, self.given, self.check = api, given, check
        self.found = api.one("templatepool.info", "VMTEMPLATE", given["name"], *MINE) or {}
        self.id = api.number(self.found, "ID") if self.found else None
        attributes = self.found.get("TEMPLATE")
        self.present: dict[str, t.Any] = attributes if isinstance(attributes, dict) else {}  # an empty one is text
        if self.found and any(self.present.get(name) != value for name, value in MADE_BY.items()):
            raise Refused(
                f"OpenNebula has a template {given['name']} (id {self.id}) that was not made by this collection: choose another name, or "
                f"add the attribute {' '.join(f'{name}={value}' for name, value in MADE_BY.items())} to have it changed."
            )
        self.before: dict[str, t.Any] = {}
        self.after: dict[str, t.Any] = {}

    def change(self, name: str, before: t.Any, after: t.Any, method: str, *arguments: t.Any) -> None:
        self.before[name], self.after[name] = before, after
        if not self.check:
            self.api.call(method, self.id, *arguments)

    def remove(self) -> None:
        if self.found:
            self.change("template", self.given["name"], "absent", "template.delete", False)
            self.id = None

    def write(self) -> dict[str, t.Any]:
        given = self.given
        wanted = wanted_template(self.present, given["attributes"], given["pci"], given["count"], given["counted_as"])
        changes = different(self.present, wanted)
        self.before.update({name: normal(self.present.get(name)) for name in changes})
        self.after.update(changes)
        if not self.check and self.id is None:
            self.id = int(self.api.call("template.allocate", to_xml({**changes, "NAME": given["name"]})))
        elif not self.check and changes:
            self.api.call("template.update", self.id, to_xml(changes), 1)
        return changes

    def share(self) -> None:
        """Group first: the mode gives rights to whichever group it is."""
        if self.given["group"]:
            group = self.api.one("grouppool.info", "GROUP", self.given["group"])
            if group is None:
                raise Refused(
                    f"OpenNebula has no group {self.given['group']}: make it with 'onegroup create', or correct the template's group."
                )
            if self.found.get("GNAME") != self.given["group"]:
                self.change("group", self.found.get("GNAME"), self.given["group"], "template.chown", -1, self.api.number(group, "ID"))
        if self.given["mode"]:
            bits = permission_bits(self.given["mode"])
            before = present_bits(self.found.get("PERMISSIONS") or {})
            if before != bits:
                self.change("mode", before, bits, "template.chmod", *bits, False)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "pci": {"type": "dict"},
            "count": {"type": "int", "default": 1},
            "counted_as": {"type": "str"},
            "attributes": {"type": "dict", "default": {}},
            "mode": {"type": "str"},
            "group": {"type": "str"},
        },
        required_if=[["state", "present", ["pci"]]],
        supports_check_mode=True,
    )
    given = module.params
    changes: dict[str, t.Any] = {}
    try:
        if given["mode"]:
            permission_bits(given["mode"])  # before anything is made
        template = Template(Api(module), given, module.check_mode)
        if given["state"] == "absent":
            template.remove()
        else:
            changes = template.write()
            template.share()
    except (Refused, ValueError) as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(
        changed=template.before != template.after,
        attributes=changes,
        diff={
            "before": lines(template.before),
            "after": lines(template.after),
            "before_header": f"template {given['name']}",
            "after_header": f"template {given['name']}",
        },
        **({} if template.id is None else {"id": template.id}),
    )


if __name__ == "__main__":
    main()
