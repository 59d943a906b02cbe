# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Variables whose name is almost that of one of this collection's.

Ansible ignores a misspelt name without a warning.
"""

from __future__ import annotations

import difflib
import functools
import typing as t

import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers

# Beginnings that no other collection or role uses: an unknown variable with one of them is a mistake.
# The names of other projects in tests/data/other_variables are held against it.
OURS = (
    *("gpu_check_", "gpu_guard_", "gpu_hold_", "gpu_simulator_", "iam_accounts_", "oidc_proxy_", "pci_passthrough_", "tosca_site_"),
    *(prefix for manager in _managers.MANAGERS for prefix in manager.prefixes),
)
# Former names of variables: one that is still set would be ignored without a warning.
RENAMED = {
    "slurm_login_gpus": "gpu_access_users",
    "slurm_login_devices": "gpu_access_devices",
    # What they named for SLURM is done without them.
    "nvidia_driver_drain_tasks": f"gpu_hold_tasks (not needed with {_managers.NAMES})",
    "nvidia_driver_resume_tasks": f"gpu_release_tasks (not needed with {_managers.NAMES})",
    "nvidia_driver_drain_wait": "gpu_hold_wait (minutes instead of seconds)",
    "pci_passthrough_drain_tasks": f"gpu_hold_tasks (not needed with {_managers.NAMES})",
    "pci_passthrough_resume_tasks": f"gpu_release_tasks (not needed with {_managers.NAMES})",
}
# Names that look like ours and are other projects', here NVIDIA's DeepOps.
OTHERS = frozenset(("slurm_cluster_install_cuda", "slurm_cluster_install_nvidia_driver", "slurm_cluster_install_openmpi"))
NO_VARIABLE = "is no variable of deephdc.accelerators"
OWN = "Name it in site_check_own if the site uses it itself."
# How far a name may be from one of ours to be taken for it: shorter names are close to each other by chance.
SURE = ((10, 1), (15, 2))
UNSURE = ((6, 1), (12, 2), (18, 3))


@functools.lru_cache(maxsize=None)
def known() -> frozenset[str]:
    """The public variables: the options of all entry points of all roles."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    names: set[str] = set()
    for path in _managers.ROLES.glob("*/meta/argument_specs.yml"):
        for entry_point in yaml.load(path.read_text(encoding="utf-8"), Loader=loader)["argument_specs"].values():
            names.update(entry_point.get("options") or ())
    return frozenset(names)


@functools.lru_cache(maxsize=None)
def facts() -> dict[str, str]:
    """Return what only a run gives, by name, with the role that has it.

    A variable of that name would be a plan that no run has made.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {
        name: path.parts[-3]
        for path in sorted(_managers.ROLES.glob("*/meta/facts.yml"))
        for name in yaml.load(path.read_text(encoding="utf-8"), Loader=loader)["facts"]
    }


def distance(one: str, other: str, limit: int) -> int:
    """Return how many letters to insert, remove, replace or swap with the next one.

    It is more than the limit where there are more.
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before_that, before, row = before, row, [i] + [0] * len(other)
        for j, wanted in enumerate(other, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], before_that[j - 2] + 1)
        if min(row) > limit:
            return limit + 1
    return row[-1]


def allowed(name: str, steps: t.Sequence[tuple[int, int]]) -> int:
    return max((limit for length, limit in steps if len(name) >= length), default=0)


def nearest(name: str, names: t.Iterable[str], steps: t.Sequence[tuple[int, int]]) -> str:
    """The name of the list that is nearest, empty where none is near.

    The first letter is seldom mistyped: docker_ is not udocker_.
    """
    best, found = allowed(name, steps) + 1, ""
    for one in sorted(one for one in names if one[0] == name[0]):
        # Of three parts, two changes leave one as it is: most names need no closer look.
        third = max(1, len(one) // 4)
        if any(one[start : start + third] in name for start in range(0, len(one) - third + 1, third)):
            far = distance(name, one, best - 1)
            if far < best:
                best, found = far, one
    return found


def similar(name: str, names: t.Iterable[str], prefix: str) -> str:
    """Return the name of the same beginning whose rest is most similar, else empty."""
    rests = [one[len(prefix) :] for one in names if one.startswith(prefix)]
    found = difflib.get_close_matches(name[len(prefix) :], rests, n=1)
    return prefix + found[0] if found else ""


def judge(names: t.Mapping[str, t.Sequence[str]], site: t.Collection[str], facts_set: bool = False) -> dict[str, list[str]]:
    """Errors and warnings about variables that are not ours.

    names: each variable that is set, with the hosts that have it. site: variables that the site says are its own.
    facts_set: whether a playbook of this run came before, so that the facts of its roles are among them.
    """
    found: dict[str, list[str]] = {"errors": [], "warnings": []}
    ours = known()
    for name in sorted(set(names) - ours - OTHERS - set(site)):
        hosts = sorted(names[name])
        where = f"set for {', '.join(hosts[:3])}{f' and {len(hosts) - 3} more' if len(hosts) > 3 else ''}"
        if name in facts():
            if not facts_set:
                found["errors"].append(f"{name} ({where}) is a fact of the role {facts()[name]}, which only a run may set: take it out.")
            continue
        if name in RENAMED:
            found["errors"].append(f"{name} ({where}) is called {RENAMED[name]} now: rename it.")
            continue
        meant = nearest(name, ours, SURE)
        prefix = next((one for one in OURS if name.startswith(one)), "")
        if prefix:
            meant = meant or similar(name, ours, prefix)
            hint = f"did you mean {meant}?" if meant else "take it out."
            found["errors"].append(
                f"{name} ({where}) is no variable of deephdc.accelerators: {hint} Name it in site_check_own if the site uses it itself."
            )
        elif meant:
            found["errors"].append(f"{name} ({where}) {NO_VARIABLE}: did you mean {meant}? {OWN}")
        else:
            perhaps = nearest(name, ours, UNSURE)
            if perhaps:
                found["warnings"].append(f"{name} ({where}) looks like {perhaps}, but has no effect here.")
    return found
