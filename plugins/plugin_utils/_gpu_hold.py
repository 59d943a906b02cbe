# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Checks of the variables of gpu_hold, and the file that says who holds a host."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers

HOLDER = re.compile(r"[a-z][a-z0-9_]*\Z")
# Former variables: a site that still sets one would be disturbed without its tasks.
FORMER = ("nvidia_driver_drain_tasks", "nvidia_driver_resume_tasks", "pci_passthrough_drain_tasks", "pci_passthrough_resume_tasks")


def errors(
    host: str, holder: t.Any, excepted: t.Any, wait: t.Any, groups: t.Mapping[str, t.Sequence[str]], is_set: t.Sequence[str]
) -> list[str]:
    """List what is wrong with the variables of the role gpu_hold.

    holder, excepted, wait: gpu_hold_holder, gpu_hold_not, gpu_hold_wait. is_set: the host's former variables that have a value.
    """
    found = []
    if not (isinstance(holder, str) and HOLDER.match(holder)):
        found.append(f"gpu_hold_holder of {host} must be the name of the role that disturbs the host, such as nvidia_driver.")
    if isinstance(wait, bool) or not isinstance(wait, (int, float, str)) or not re.match(r"\d+(\.\d+)?\Z", str(wait)):
        found.append(f"gpu_hold_wait of {host} must be a number of minutes, such as 60.")
    if not isinstance(excepted, t.Mapping):
        found.append(
            f"gpu_hold_not of {host} must name each host with the reason, such as {{gpu3: no user has it yet}}; "
            """on the command line: -e '{"gpu_hold_not": {"gpu3": "no user has it yet"}}'."""
        )
        excepted = {}
    known = set(groups.get("all") or [])
    for name, reason in sorted(excepted.items()):
        if not isinstance(reason, str) or not reason.strip():
            found.append(f"gpu_hold_not gives no reason for {name}: write one line that says why its users are not waited for.")
        if known and name not in known:
            found.append(f"gpu_hold_not names {name}, which is not in the inventory: use the names of the inventory.")
    for name in is_set:
        later = "gpu_hold_tasks" if "drain" in name else "gpu_release_tasks"
        found.append(
            f"{name} is set for {host} and has no effect any more: remove it where {_managers.NAMES} manages the host, "
            f"else give the file in {later}."
        )
    return found


def record(holder: str, managers: t.Mapping[str, str]) -> str:
    """Write the text of a holder's file.

    managers: pending, held, kept or none by name of manager.
    """
    about = (
        "Made by deephdc.accelerators: the host is taken from its users, and not given back yet. The next run of the holder gives it back."
    )
    return json.dumps({"about": about, "holder": holder, "managers": dict(managers)}, indent=1, sort_keys=True) + "\n"
