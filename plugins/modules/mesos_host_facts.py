#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read what decides whether an agent of Mesos starts on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_host_facts
version_added: 0.1.0
short_description: Read what decides whether an agent of Mesos starts on a host
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads the version of control groups, and whether NVIDIA's library NVML is there, which an agent needs to read GPUs.
  - Reads the disk that an agent registered with, as it is another agent with a different one.
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
  facts:
    description: Returns C(ansible_facts.mesos_host).
    support: full
options:
  root:
    description: Directory that stands for the root, for tests.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Read whether the host can have an agent
  deephdc.accelerators.mesos_host_facts:
"""

RETURN = r"""
ansible_facts:
  description: What was read.
  type: dict
  returned: always
  contains:
    mesos_host:
      description:
        - C(cgroup) is the version of control groups, V(0) if they are not mounted. C(controllers) are those of version 1.
        - C(nvml) is whether the system's libraries have libnvidia-ml.so.1.
        - C(agent_disk_mib) is the disk that the agent registered with, in MiB. It is V(0) where there is no agent, or it is not known.
      type: dict
      sample: {"cgroup": 1, "controllers": ["cpu", "devices", "memory"], "nvml": true, "agent_disk_mib": 15360}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos.checkpoint import SLAVE_INFO, disk_mib

WORK_DIR = "var/lib/mesos/agent"
LARGEST = 2**20  # bytes of a record
FOLDER = "sys/fs/cgroup"
NVML = "libnvidia-ml.so.1"
# Where the loader looks without its cache: for hosts without ldconfig.
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib")


def control_groups(root: str) -> tuple[int, list[str]]:
    """Return the version of control groups, and the mounted controllers of version 1.

    A hybrid of both counts as 1.
    """
    folder = os.path.join(root, FOLDER)
    if os.path.exists(os.path.join(folder, "cgroup.controllers")):
        return 2, []
    names: set[str] = set()
    if os.path.isdir(folder):
        for entry in os.listdir(folder):
            # A controller's own file, not an empty folder: links such as cpu stand for cpu,cpuacct.
            if os.path.exists(os.path.join(folder, entry, "cgroup.procs")):
                names.update(entry.split(","))
    names -= {"systemd", "unified"}
    return (1 if names else 0), sorted(names)


def has_nvml(module: AnsibleModule, root: str) -> bool:
    """Whether the loader finds NVIDIA's library."""
    program = module.get_bin_path("ldconfig", opt_dirs=["/sbin", "/usr/sbin"]) if root == "/" else None
    if program and NVML in module.run_command([program, "-p"])[1]:
        return True
    return any(os.path.exists(os.path.join(root, folder, NVML)) for folder in LIBRARIES)


def agent_disk_mib(root: str) -> int:
    """Return the disk of the agent's record, 0 if it is not known.

    Who does not know it leaves the agent's resources as they are.
    """
    try:
        with open(os.path.join(root, WORK_DIR, SLAVE_INFO), "rb") as file:
            return disk_mib(file.read(LARGEST))
    except (OSError, ValueError):
        return 0


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    module.run_command_environ_update = {"LC_ALL": "C"}
    version, controllers = control_groups(module.params["root"])
    root = module.params["root"]
    own = {"cgroup": version, "controllers": controllers, "nvml": has_nvml(module, root), "agent_disk_mib": agent_disk_mib(root)}
    module.exit_json(changed=False, ansible_facts={"mesos_host": own})


if __name__ == "__main__":
    main()
