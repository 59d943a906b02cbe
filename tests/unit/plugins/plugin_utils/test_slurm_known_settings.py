# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Settings that SLURM does not know are named in the plan."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import known_settings, settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.known_settings import unknown_errors

CONF = {"slurmdtimeout": 60, "SrunPortRange": "1-2"}
PARTITIONS = [{"name": "a"}, {"name": "b", "settings": {"PriorityTier": 2, "OverSubscribe": "NO"}}]
NODES = [{"name": "n", "settings": {"Weight": 1}}, {"name": "m", "settings": {}}]


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_settings_that_slurm_knows(release):
    assert unknown_errors(release, CONF, PARTITIONS, NODES) == []


@pytest.mark.parametrize(
    ("conf", "partition", "node", "sentence"),
    [
        (
            {"SlurmdTimout": 60},
            {},
            {},
            "slurm_cluster_settings has SlurmdTimout, which SLURM 24.11 does not know: did you mean SlurmdTimeout?",
        ),
        (
            {"Weight": 1},
            {},
            {},
            "slurm_cluster_settings has Weight, which SLURM 24.11 does not know: correct the name, or remove it there.",
        ),
        ({}, {"MaxTimes": 1}, {}, "settings of partition p has MaxTimes, which SLURM 24.11 does not know: did you mean MaxTime?"),
        ({}, {}, {"PriorityTier": 1}, "slurm_cluster_node_settings of n has PriorityTier, which SLURM 24.11 does not know"),
    ],
)
def test_settings_that_it_does_not_know(conf, partition, node, sentence):
    (said,) = unknown_errors("24.11", conf, [{"name": "p", "settings": partition}], [{"name": "n", "settings": node}])
    assert sentence in said


@pytest.mark.parametrize("release", ["", "23.11", "25.05"])
def test_of_another_release_nothing_is_said(release):
    assert unknown_errors(release, {"Nonsense": 1}, [], []) == []


def test_what_the_collection_sets_itself_is_known():
    for own, known in ((settings.OURS, known_settings.CONF), (settings.OUR_NODE, known_settings.NODE)):
        assert set(own) - {"nodename"} <= {name.lower() for name in known}
