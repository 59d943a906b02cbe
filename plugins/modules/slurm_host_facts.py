#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read what the plan of a SLURM cluster needs to know of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_host_facts
version_added: 0.1.0
short_description: Read what the plan of a SLURM cluster needs to know of a host
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads CPUs, memory, network and distribution as M(ansible.builtin.setup) does, SLURM's packages as
    M(deephdc.accelerators.slurm_packages_facts) does, and accelerators as M(deephdc.accelerators.gpu_facts) does.
  - It is one module execution instead of three, because starting a module takes longer than reading the facts.
extends_documentation_fragment: deephdc.accelerators.reads
attributes:
  facts:
    description: Returns the facts of the three modules, and which devices are closed to jobs.
    support: full
options:
  accelerators:
    description: Whether to read the accelerators.
    type: bool
    default: true
  root:
    description: Prefix of C(/sys), C(/proc) and C(/dev) for the accelerators, for a simulated host.
    type: path
    default: /
seealso:
  - module: ansible.builtin.setup
  - module: deephdc.accelerators.gpu_facts
  - module: deephdc.accelerators.slurm_packages_facts
"""

EXAMPLES = r"""
- name: Read the host
  deephdc.accelerators.slurm_host_facts:
    accelerators: "{{ inventory_hostname in groups.slurm_nodes }}"
"""

RETURN = r"""
names:
  description: Every package that is completely installed on this host, from any source. Not a fact, as a cached one could be out of date.
  type: list
  elements: str
  returned: always
  sample: [munge, slurmd]
chosen:
  description:
    - Whether this host has the files by which the role slurm_packages lets apt take SLURM from another suite.
    - Not a fact, for the same reason.
  type: bool
  returned: always
distribution_python:
  description:
    - Whether Ansible's Python interpreter on the host sees the Python packages of the distribution.
    - An interpreter in a virtual environment does not.
  type: bool
  returned: always
operator:
  description: Number of the user that Ansible logs in as, if it became root by sudo. Otherwise that of the user that runs the module.
  type: str
  returned: always
  sample: "1000"
ansible_facts:
  description: What was read.
  type: dict
  returned: always
  contains:
    slurm_packages:
      description: SLURM's packages on this host.
      type: dict
      returned: always
    accelerators:
      description: Its accelerators.
      type: list
      elements: dict
      returned: if O(accelerators=true)
    closed_to_jobs:
      description:
        - Device files of another manager that were seen to be closed to jobs here, where the role gpu_guard closes some.
      type: list
      elements: str
      returned: if O(accelerators=true)
"""

import json
import os
import sys

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.facts import ansible_collector, default_collectors
from ansible.module_utils.facts.namespace import PrefixFactNamespace
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import packages as slurm_packages

SUBSET = ["!all", "!min", "distribution", "hardware", "network"]
SECONDS = 10.0
GUARD = "/usr/local/libexec/deephdc/gpu_guard"
# Where Debian's packages put Python modules, such as PyMySQL.
DISTRIBUTION = "/usr/lib/python3/dist-packages"


def of_ansible(module: AnsibleModule) -> dict:
    """Return the same facts under the same names as the module setup.

    That module does it in the same way.
    """
    collector = ansible_collector.get_ansible_collector(
        all_collector_classes=default_collectors.collectors,
        namespace=PrefixFactNamespace(namespace_name="ansible", prefix="ansible_"),
        gather_subset=SUBSET,
        gather_timeout=int(SECONDS),
        minimal_gather_subset=frozenset(),
    )
    return collector.collect(module=module)


def closed_to_jobs(module: AnsibleModule) -> list:
    """What the program of the role gpu_guard tried; nothing where it is not, or fails."""
    if not os.path.exists(GUARD):
        return []
    code, out, _err = module.run_command([GUARD, "--show"])
    return json.loads(out) if code == 0 else []


def main() -> None:
    module = AnsibleModule(
        argument_spec={"accelerators": {"type": "bool", "default": True}, "root": {"type": "path", "default": "/"}},
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    packages = slurm_packages.read(module)
    facts = {**of_ansible(module), "slurm_packages": packages["facts"]}
    if module.params["accelerators"]:
        facts["accelerators"] = gather(module.params["root"], timeout=SECONDS)
        facts["closed_to_jobs"] = closed_to_jobs(module)
    operator = os.environ.get("SUDO_UID") or str(os.getuid())
    module.exit_json(
        changed=False,
        names=packages["names"],
        chosen=packages["chosen"],
        operator=operator,
        distribution_python=DISTRIBUTION in sys.path,
        ansible_facts=facts,
    )


if __name__ == "__main__":
    main()
