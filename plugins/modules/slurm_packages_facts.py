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
  - Reads the installed packages of SLURM, and on demand the version that apt would install.
    Works on hosts whose packages are dpkg's; on others nothing is installed.
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
  facts:
    description: Returns C(ansible_facts.slurm_packages).
    support: full
options:
  candidate:
    description: Whether to read the version that apt would install too.
    type: bool
    default: false
  suite:
    description:
      - Suite that SLURM comes from where that is not the host's own release.
      - What SLURM's packages need of it beside themselves is read too.
    type: str
    default: ""
  sources:
    description:
      - Text of an apt sources file. The candidate is then the newest version that its archive has, which is read into a
        directory of its own, so that nothing on the host changes.
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
  description: Every package that is whole on this host, of whatever source. No fact, because a cached one could be out of date.
  type: list
  elements: str
  returned: always
  sample: [munge, slurmd]
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
          description: Major release of the installed packages, empty where none is installed. The oldest, where an installation broke off.
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
          description: Daemons among them that do not run, or run a program that was replaced on disk.
          type: list
          elements: str
          sample: [slurmd]
        needs:
          description: Other packages that SLURM's need from O(suite), as the host's own release has older ones, with their versions.
          type: list
          elements: str
          sample: [libhwloc15=2.15.0-2]
        archive:
          description: Address of the archive that the host has its distribution from, empty where that is not known.
          type: str
        candidate:
          description: The version that apt would install, empty where there is none or none was asked for.
          type: str
          sample: "26.05.5-1"
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils import _apt_source, _dpkg
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm_releases import release_of

DAEMONS = ("slurmdbd", "slurmctld", "slurmd")
# What a host may get that has nothing of SLURM yet.
ALL = (*DAEMONS, "slurm-client", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin", "slurmrestd", "libpam-slurm-adopt")
# The library of the former release may stay beside the new one: it says nothing about what runs.
LIBRARY = re.compile(r"libslurm\d")
UNMET = re.compile(r"Depends: (\S+) (?:\([^)]*\) )?but (?:\S+ is (?:to be )?installed|it is not (?:going to be installed|installable))")
# A package that every release has and every host of a cluster can install.
PROBE = "slurm-client"


def known_to_dpkg(module: AnsibleModule) -> list[list[str]]:
    """Name, source, version and state of each package."""
    form = "${Package} ${source:Package} ${Version} ${db:Status-Status}\n"
    out = module.run_command(["dpkg-query", "--show", f"--showformat={form}"])[1]
    return [line.split() for line in out.splitlines() if len(line.split()) == 4]


def of_slurm(rows: list[list[str]]) -> dict[str, str]:
    """Packages built from SLURM's source that are installed, broken installations included, shared libraries not."""
    gone = ("not-installed", "config-files")
    return {row[0]: row[2] for row in rows if row[1] == "slurm-wlm" and row[3] not in gone and not LIBRARY.match(row[0])}


def stale(module: AnsibleModule, packages: dict[str, str]) -> list[str]:
    """Installed daemons that do not run what is installed."""
    found = []
    for unit in (name for name in DAEMONS if name in packages):
        out = module.run_command(["systemctl", "show", "--property=ActiveState,MainPID", unit])[1]
        state = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        try:
            replaced = os.readlink(f"/proc/{state.get('MainPID', '0')}/exe").endswith(" (deleted)")
        except OSError:
            replaced = False  # no process, which its state tells; or one that root in a container may not look into
        if state.get("ActiveState") != "active" or replaced:
            found.append(unit)
    return found


def archive(module: AnsibleModule) -> str:
    """Where the distribution itself comes from, without the archives of its security updates."""
    with open("/etc/os-release", encoding="utf-8") as file:
        codename = re.search(r'^VERSION_CODENAME="?(\w+)', file.read(), re.MULTILINE)
    out = module.run_command(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)"])[1]
    for row in (line.split() for line in out.splitlines()):
        if codename and row[1:] == [codename.group(1), "main", "Packages"]:
            return row[0]
    return ""


def candidate(module: AnsibleModule) -> str:
    out = module.run_command(["apt-cache", "policy", PROBE])[1]
    found = re.search(r"Candidate: (\S+)", out)
    return found.group(1) if found and found.group(1) != "(none)" else ""


def needs(module: AnsibleModule, packages: dict[str, str], suite: str) -> list[str]:
    """What must come from the suite so that SLURM's packages can, found by letting apt try without changing anything."""
    names, out = list(packages) or list(ALL), ""
    extra: list[str] = []
    for _try in range(20):
        words = ["apt-get", "--simulate", "--no-install-recommends", "install", *names, *(f"{name}/{suite}" for name in extra)]
        code, out, err = module.run_command(words, environ_update={"LC_ALL": "C"})
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
        found = _apt_source.versions(module, [PROBE], sources)
    except _apt_source.Unreadable as told:
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
    facts = {"release": "", "installed": {}, "broken": False, "stale": [], "needs": [], "archive": "", "candidate": ""}
    rows: list[list[str]] = []
    if module.get_bin_path("dpkg-query"):
        rows = known_to_dpkg(module)
        packages = of_slurm(rows)
        facts.update(
            release=min((release_of(version) for version in packages.values()), default=""),
            installed=packages,
            broken=_dpkg.interrupted(module),
            stale=stale(module, packages),
            archive=archive(module),
        )
        if module.params["candidate"]:
            facts["candidate"] = newest_of(module, module.params["sources"]) if module.params["sources"] else candidate(module)
        if module.params["suite"]:
            facts["needs"] = needs(module, packages, module.params["suite"])
    names = sorted(row[0] for row in rows if row[3] == "installed")
    module.exit_json(changed=False, names=names, ansible_facts={"slurm_packages": facts})


if __name__ == "__main__":
    main()
