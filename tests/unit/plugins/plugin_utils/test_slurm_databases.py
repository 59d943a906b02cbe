# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The hosts of slurmdbd, compared with those that slurmctld has."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules.slurm_record_info import databases_of
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.databases import moved_errors

DB1, DB2 = {"name": "db1", "address": "192.0.2.1"}, {"name": "db2", "address": "192.0.2.2"}


@pytest.mark.parametrize(
    ("present", "wanted"),
    [([], [DB1]), (["192.0.2.1"], [DB1]), (["db1"], [DB1]), (["192.0.2.1", "192.0.2.3"], [DB2, DB1])],
)
def test_records_that_stay(present, wanted):
    assert moved_errors(present, wanted) == []


@pytest.mark.parametrize("present", [["192.0.2.1"], ["192.0.2.11"], ["db1", "db3"]])
def test_a_slurmdbd_that_would_begin_anew_is_refused(present):
    (said,) = moved_errors(present, [DB2])
    assert said.startswith(
        f"slurmctld keeps its accounting on {' and '.join(present)}, but slurm_databases means db2 (192.0.2.2), where it would begin empty"
    )
    assert "put the former host back" in said


def test_the_hosts_of_a_configuration():
    conf = 'accountingstoragehost=a\n# AccountingStorageHost=b\nAccountingStorageBackupHost = "c" # x\nAccountingStorageHost=d\n'
    assert databases_of(conf) == ["d", "c"] and databases_of("") == []
