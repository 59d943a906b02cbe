# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The hosts of slurmdbd, compared with those that slurmctld has: pure functions."""

from __future__ import annotations

import typing as t


def moved_errors(present: t.Sequence[str], wanted: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Refuse slurmdbd on other hosts alone, where it may begin with an empty database.

    One that stays has the configuration with which the role slurm_database compares where the records are.

    :param present: names or addresses that the present slurm.conf has, none before the first run. wanted: name and address of each host.
    """
    known = {str(host[key]) for host in wanted for key in ("name", "address")}
    if not present or known.intersection(present):
        return []
    names = ", ".join(f"{host['name']} ({host['address']})" for host in wanted)
    return [
        f"slurmctld keeps its accounting on {' and '.join(present)}, but slurm_databases means {names}, where it would begin empty, and "
        "slurmctld would refuse to start with its state: put the former host back into slurm_databases. With MariaDB outside, replace one "
        "of two hosts at a time. To move the records, stop slurmdbd, copy its database there, write the new address as "
        "AccountingStorageHost into /etc/slurm/slurm.conf of each controller, then run again. Do the last alone if it is the same host "
        "with another address."
    ]
