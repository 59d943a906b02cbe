# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""SLURM's major releases and which of them can follow which: pure functions.

SchedMD's upgrade guide: a release takes over the database, the state and the messages of the two major releases before it,
from 24.11 on of the three before it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding

# Until 24.05 a release came every nine months; then every six, in May and November.
IRREGULAR = ("20.02", "20.11", "21.08", "22.05", "23.02", "23.11")
VERSION = re.compile(r"(?:\d+:)?(\d\d\.\d\d)\.")

# Packages whose version shows which SLURM a host has. All of a host are built from the same source.
PROGRAMS = ("slurmdbd", "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")


def release_of(version: str) -> str:
    """Major release of a package's version, "24.11" of "24.11.5-4+deb13u1".

    Empty where it has none.
    """
    found = VERSION.match(version)
    return found.group(1) if found else ""


def major_releases(until: str) -> list[str]:
    """All major releases up to one, oldest first.

    Without that one if there never was such a release.
    """
    regular = [f"{year}.{month}" for year in range(24, 100) for month in ("05", "11")]
    return [release for release in (*IRREGULAR, *regular) if release <= until]


def takes_over(new: str, old: str) -> bool:
    """Whether SLURM new goes on with the state and database of SLURM old."""
    releases = major_releases(new)
    if new not in releases or old not in releases:
        return False
    return releases.index(new) - releases.index(old) <= (3 if new >= "24.11" else 2)


def way(old: str, new: str) -> list[str]:
    """Return the fewest releases from old to new; each takes over the one before.

    The last one is new.
    """
    steps = []
    while old != new:
        reachable = [release for release in major_releases(new) if release > old and takes_over(release, old)]
        if not reachable:
            return []
        old = reachable[-1]
        steps.append(old)
    return steps


def step_error(old: str, new: str, who: str) -> str:
    """One sentence why who can't go from SLURM old to new, empty where it can."""
    if old == new or takes_over(new, old):
        return ""
    if new < old:
        return (
            f"{who}: SLURM {old} is installed and would become {new}. SLURM can't go back to an older release; "
            "set slurm_packages_suite to the suite that the installed one came from."
        )
    steps = way(old, new)
    through = f"Upgrade the whole cluster to SLURM {' and then to '.join(steps)}" if steps else "Go there by releases that SchedMD names"
    return (
        f"{who}: SLURM {old} is installed, whose state and database {new} does not take over: "
        "running jobs and accounting would be lost. "
        f"{through}, or, without packages of those, build a new cluster and bring the accounting there "
        "(docs/slurm_upgrade.md, 'Outside of the window')."
    )


def installed_errors(releases: t.Mapping[str, str], controller: str) -> list[str]:
    """Refuse hosts whose SLURM is newer than the controller's, or too old for it.

    releases: host to release, empty where none is installed.
    """
    ours = releases.get(controller, "")
    found = []
    for host, release in releases.items():
        if ours and release and release != ours and (release > ours or not takes_over(ours, release)):
            relation = "newer than" if release > ours else "too old for"
            found.append(f"{host} has SLURM {release}, {relation} {ours} of the controller {controller}: run the playbook slurm_upgrade.")
    return found


def installed_warnings(releases: t.Mapping[str, str], controller: str) -> list[Finding]:
    """Hosts that work with the controller but were left behind by an upgrade."""
    ours = releases.get(controller, "")
    remedy = "run the playbook slurm_upgrade"
    return [
        Finding("manager", f"{host} still has SLURM {release}, the controller {controller} has {ours}: {remedy}.", host, None, remedy)
        for host, release in releases.items()
        if ours and release and release < ours and takes_over(ours, release)
    ]


def upgrade_plan(members: t.Mapping[str, t.Mapping[str, t.Any]], servers: t.Collection[str], target: str) -> dict[str, t.Any]:
    """What an upgrade to the version target has to do.

    members: host to its slurm_packages, empty where it did not answer. servers: controllers and database hosts.
    Returns errors (sentences, nothing must be changed), to_do (hosts), left (sentences about hosts that do not answer).
    """
    new = release_of(target)
    errors, to_do, left = [], [], []
    if not new:
        return {"errors": ["apt has no SLURM for the hosts: look at slurm_packages_suite and slurm_packages_uri."], "to_do": [], "left": []}
    by_release: dict[str, list[str]] = {}
    for host, own in members.items():
        if not own and host in servers:
            errors.append(f"{host} does not answer: bring it up first, controllers and database hosts are upgraded together.")
        elif not own:
            left.append(f"{host} did not answer: run slurm_upgrade again when it does")
        elif not own["release"] and host in servers:
            errors.append(f"{host} has no SLURM yet: run the playbook slurm.")
        elif own["release"]:
            by_release.setdefault(own["release"], []).append(host)
            if own["broken"] or own["stale"] or any(own["installed"].get(name, target) != target for name in PROGRAMS):
                to_do.append(host)
    errors += [error for old, hosts in sorted(by_release.items()) for error in [step_error(old, new, " and ".join(hosts))] if error]
    return {"errors": errors, "to_do": [] if errors else to_do, "left": left}
