# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""SLURM's packages on a host."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._host import dpkg
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.releases import release_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

DAEMONS = ("slurmdbd", "slurmctld", "slurmd")
# The library of the former release may stay beside the new one: it says nothing about what runs.
LIBRARY = re.compile(r"libslurm\d")
# Written by the role slurm_packages where SLURM comes from another suite.
CHOICE = ("/etc/apt/sources.list.d/deephdc-slurm.sources", "/etc/apt/preferences.d/deephdc-slurm")


def known_to_dpkg(module: AnsibleModule) -> list[list[str]]:
    """Name, source, version and state of each package."""
    form = "${Package} ${source:Package} ${Version} ${db:Status-Status}\n"
    out = module.run_command(["dpkg-query", "--show", f"--showformat={form}"])[1]
    return [line.split() for line in out.splitlines() if len(line.split()) == 4]


def of_slurm(rows: list[list[str]]) -> dict[str, str]:
    """Return the installed packages that were built from SLURM's source.

    Broken installations are included, shared libraries are not.
    """
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
            replaced = False  # no process, as its state shows; or one that root in a container may not look into
        if state.get("ActiveState") != "active" or replaced:
            found.append(unit)
    return found


def archive(module: AnsibleModule) -> str:
    """Return where the distribution itself comes from.

    The archives of its security updates are left out.
    """
    with open("/etc/os-release", encoding="utf-8") as file:
        codename = re.search(r'^VERSION_CODENAME="?(\w+)', file.read(), re.MULTILINE)
    out = module.run_command(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)"])[1]
    for row in (line.split() for line in out.splitlines()):
        if codename and row[1:] == [codename.group(1), "main", "Packages"]:
            return row[0]
    return ""


def read(module: AnsibleModule) -> dict[str, t.Any]:
    """What is known of a host's packages.

    names: every package that is completely installed; chosen: whether SLURM's come from another suite; facts: what is known of SLURM's.
    """
    # Two of them are only read where they are asked for.
    facts: dict[str, t.Any] = {"release": "", "installed": {}, "broken": False, "stale": [], "needs": [], "archive": "", "candidate": ""}
    rows: list[list[str]] = []
    if module.get_bin_path("dpkg-query"):
        rows = known_to_dpkg(module)
        packages = of_slurm(rows)
        facts.update(
            release=min((release_of(version) for version in packages.values()), default=""),
            installed=packages,
            broken=dpkg.interrupted(module),
            stale=stale(module, packages),
            archive=archive(module),
        )
    return {
        "names": sorted(row[0] for row in rows if row[3] == "installed"),
        "chosen": any(os.path.lexists(path) for path in CHOICE),
        "facts": facts,
    }
