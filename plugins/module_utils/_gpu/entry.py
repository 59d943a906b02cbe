# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""Helpers of those that fill an entry of the accelerator model."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os

from .pci import under

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7


def add_problem(entry, problem, reason):
    # type: (dict[str, Any], str, str) -> None
    """One entry per problem of a device: the first that is found says it best."""
    if problem not in [known["problem"] for known in entry["health"]]:
        entry["health"].append({"problem": problem, "message": "%s: %s." % (entry["pci_address"], reason)})


def fill(entry, facts, keys):
    # type: (dict[str, Any], dict[str, Any], tuple[str, ...]) -> None
    """Take over those of the *keys* that *facts* has a value for."""
    for key in keys:
        if facts.get(key) is not None:
            entry[key] = facts[key]


def existing_files(root, entry, files):
    # type: (str, dict[str, Any], list[str]) -> list[str]
    """Those of the *files* that are there; the others are a problem of the device."""
    missing = [path for path in files if not os.path.exists(under(root, path))]
    if missing and entry["kind"] != "console":
        verb = "is missing" if len(missing) == 1 else "are missing"
        add_problem(entry, "device_file_missing", "%s %s though its driver names it" % (" and ".join(missing), verb))
    return [path for path in files if path not in missing]
