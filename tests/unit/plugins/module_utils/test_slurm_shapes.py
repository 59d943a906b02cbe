# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Cores of nodes, which must not change under jobs."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import shapes

CONF = """ClusterName=x
NodeName=DEFAULT CPUs=1
NodeName=gpu[1-2] NodeAddr=10.0.0.[1-2] CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=900 Gres=gpu:2
  nodename=gpu3 cpus=4
NodeName=broken[ CPUs=4
PartitionName=all Nodes=gpu1
"""
EIGHT = {"boards": "1", "socketsperboard": "2", "corespersocket": "4"}


def test_shapes_are_read():
    assert shapes.of_conf(CONF) == {"gpu1": EIGHT, "gpu2": EIGHT, "gpu3": {}}


@pytest.mark.parametrize(
    ("after", "busy", "allowed", "words"),
    [
        (EIGHT, {"gpu1": "job 1 of ada"}, (), None),
        ({**EIGHT, "corespersocket": "2"}, {}, (), None),
        ({**EIGHT, "corespersocket": "2"}, {"gpu1": "job 1 of ada"}, ("gpu1",), None),
        (
            {**EIGHT, "corespersocket": "2"},
            {"gpu1": "job 1 of ada"},
            (),
            "The cores of gpu1 change (corespersocket 4 to 2), which ends its jobs",
        ),
        ({**EIGHT, "sockets": "1"}, {"gpu1": "job 1 of ada"}, ("gpu2",), "(sockets unset to 1)"),
        ({**EIGHT, "boards": "2"}, None, (), "slurmctld does not answer, so it is not known what runs there: start slurmctld"),
    ],
)
def test_cores_change_under_no_job(after, busy, allowed, words):
    found = shapes.errors({"gpu1": EIGHT}, {"gpu1": after}, busy, allowed)
    assert (not found) if words is None else (len(found) == 1 and words in found[0])


def test_a_node_that_goes_is_said_elsewhere():
    assert shapes.errors({"gpu1": EIGHT}, {}, {"gpu1": "job 1 of ada"}, ()) == []
