# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Calls of sacctmgr(1) from a module."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import associations as slurm_associations

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

CONFIGURATION = "/etc/slurm/slurm.conf"


def can_ask(module: AnsibleModule, program: str) -> bool:
    """Return whether SLURM's commands can work on this controller.

    Before its first run it lacks packages, or has them and no configuration.
    """
    return bool(module.get_bin_path(program)) and os.path.exists(CONFIGURATION)


def one_line(out: str, err: str) -> str:
    return " ".join((err or out).split())


def read(module: AnsibleModule, cluster: str) -> slurm_associations.State:
    """Return everything that slurmdbd has for a cluster.

    Where slurmdbd does not answer, the module ends.
    """
    outputs = []
    for words in slurm_associations.reads(cluster):
        code, out, err = module.run_command(["sacctmgr", "--noheader", "--parsable2", "--readonly", *words])
        if code != 0:
            module.fail_json(msg=f"slurmdbd does not answer: {one_line(out, err)}")
        try:
            outputs.append(slurm_associations.rows(words, out))
        except ValueError as error:
            module.fail_json(msg=f"The accounts can't be read: {error}. Correct that entry with sacctmgr, then run again.")
    return slurm_associations.parse(outputs)


def change(module: AnsibleModule, words: t.Sequence[str]) -> str:
    """Run a command that changes something.

    Returns why it was refused, nothing where it was not.
    """
    code, out, err = module.run_command(["sacctmgr", "--immediate", "--quiet", *words])
    return "" if code == 0 else one_line(out, err)
