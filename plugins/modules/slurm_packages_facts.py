#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read which SLURM a host has, and which one it would get."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_packages_facts
version_added: 0.1.0
short_description: Read which release of SLURM a host has or would get
author: deephdc.accelerators contributors (@deephdc)
description:
  - Reads the installed packages of SLURM, and with O(candidate) the version that apt would install.
    Works on hosts with dpkg. On other hosts it returns that nothing is installed.
extends_documentation_fragment: deephdc.accelerators.reads
attributes:
  facts:
    description: Returns C(ansible_facts.slurm_packages).
    support: full
options:
  candidate:
    description: Whether to read also the version that apt would install.
    type: bool
    default: false
  suite:
    description:
      - Suite that SLURM comes from, if that is not the host's own release.
      - The module also reads which other packages SLURM's packages need from it.
    type: str
    default: ""
  sources:
    description:
      - Text of an apt sources file. The candidate is then the newest version in its archive. The archive's index is read into a
        separate directory, so that nothing on the host changes.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Read which SLURM this host has, and which one its package sources have
  deephdc.accelerators.slurm_packages_facts:
    candidate: true
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
ansible_facts:
  description: What was read.
  type: dict
  returned: always
  contains:
    slurm_packages:
      description: SLURM's packages on this host.
      type: dict
      contains:
        release:
          description: Major release of the installed packages, empty if none is installed. The oldest, if an installation was interrupted.
          type: str
          sample: "24.11"
        installed:
          description: Installed packages and their versions.
          type: dict
          sample: {"slurmd": "24.11.5-4+deb13u1"}
        broken:
          description: Whether dpkg was interrupted; C(dpkg --configure -a) completes its work.
          type: bool
        stale:
          description: Installed daemons that do not run, or that run a program that was replaced on disk.
          type: list
          elements: str
          sample: [slurmd]
        needs:
          description: Other packages that SLURM's packages need from O(suite), because those of the host's own release are too old.
          type: list
          elements: str
          sample: [libhwloc15=2.15.0-2]
        archive:
          description: Address of the archive that the host gets its distribution from, empty if that is not known.
          type: str
        candidate:
          description: The version that apt would install, empty if there is none or without O(candidate).
          type: str
          sample: "26.05.5-1"
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import apt_source
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import packages as slurm_packages

# What a host may get that has nothing of SLURM yet.
ALL = (*slurm_packages.DAEMONS, "slurm-client", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin", "slurmrestd", "libpam-slurm-adopt")
UNMET = re.compile(r"Depends: (\S+) (?:\([^)]*\) )?but (?:\S+ is (?:to be )?installed|it is not (?:going to be installed|installable))")
# A package that every release has and every host of a cluster can install.
PROBE = "slurm-client"


def candidate(module: AnsibleModule) -> str:
    out = module.run_command(["apt-cache", "policy", PROBE])[1]
    found = re.search(r"Candidate: (\S+)", out)
    return found.group(1) if found and found.group(1) != "(none)" else ""


def needs(module: AnsibleModule, packages: dict[str, str], suite: str) -> list[str]:
    """Return what must come from the suite so that SLURM's packages can.

    apt finds it: it tries without changing anything.
    """
    names, out = list(packages) or list(ALL), ""
    extra: list[str] = []
    for _try in range(20):
        words = ["apt-get", "--simulate", "--no-install-recommends", "install", *names, *(f"{name}/{suite}" for name in extra)]
        code, out, err = module.run_command(words)
        # A library that is replaced must not take the packages away that belong to it.
        missing = UNMET.findall(out + err) if code != 0 else re.findall(r"^Remv (\S+)", out, re.MULTILINE)
        new = [name for name in dict.fromkeys(missing) if name not in extra and name not in names]
        if not new:
            break
        extra += new
    chosen = dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", out, re.MULTILINE))
    others = [name for name in chosen if name not in names]
    policy = module.run_command(["apt-cache", "policy", *others])[1] if extra and others else ""
    usual = dict(re.findall(r"^(\S+):\n.*\n  Candidate: (\S+)", policy, re.MULTILINE))
    # What apt would choose anyway needs no help.
    return [f"{name}={chosen[name]}" for name in others if name in usual and usual[name] != chosen[name]]


def newest_of(module: AnsibleModule, sources: str) -> str:
    """The newest version in the archive of a sources file."""
    try:
        found = apt_source.versions(module, [PROBE], sources)
    except apt_source.Unreadable as told:
        module.fail_json(msg=f"apt can't read the packages of slurm_packages_suite: {told}")
    return next(iter(found.get(PROBE, [])), "")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "candidate": {"type": "bool", "default": False},
            "suite": {"type": "str", "default": ""},
            "sources": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    found = slurm_packages.read(module)
    facts = found["facts"]
    if module.get_bin_path("dpkg-query"):
        if module.params["candidate"]:
            facts["candidate"] = newest_of(module, module.params["sources"]) if module.params["sources"] else candidate(module)
        if module.params["suite"]:
            facts["needs"] = needs(module, facts["installed"], module.params["suite"])
    module.exit_json(changed=False, names=found["names"], chosen=found["chosen"], ansible_facts={"slurm_packages": facts})


if __name__ == "__main__":
    main()
