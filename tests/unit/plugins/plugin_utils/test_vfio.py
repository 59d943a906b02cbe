# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Device ids for vfio-pci."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._passthrough import vfio_ids
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu


def test_ids_are_named_once():
    assert vfio_ids.ids([gpu(0), gpu(1), gpu(2, device_id="1eb8")]) == "10de:20b0,10de:1eb8"


def test_the_group_goes_with_the_card():
    card = gpu(0, iommu_group=7, iommu_group_peers=["0000:01:00.1", "0000:00:01.0"])
    assert vfio_ids.ids([card], {"0000:01:00.1": "10de:1aef", "0000:00:01.0": ""}) == "10de:20b0,10de:1aef"


def test_two_cards_in_one_group():
    first, second = gpu(0, iommu_group_peers=["0000:02:00.0"]), gpu(1, device_id="1eb8", iommu_group_peers=["0000:01:00.0"])
    assert vfio_ids.ids([first, second]) == "10de:20b0,10de:1eb8"


def test_a_device_of_unknown_ids_in_the_group_is_named():
    with pytest.raises(ValueError, match=r"accelerator at 0000:01:00\.0 has another device at 0000:01:00\.1"):
        vfio_ids.ids([gpu(0, iommu_group_peers=["0000:01:00.1"])])


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "console"},
        {"sriov": {"total_vfs": None, "num_vfs": None, "is_vf": True}},
        {"sriov": {"total_vfs": 16, "num_vfs": 4, "is_vf": False}},
    ],
)
def test_what_is_never_taken(changes):
    assert vfio_ids.ids([gpu(0, **changes)]) == ""


def test_a_card_without_ids_is_named():
    with pytest.raises(ValueError, match=r"accelerator at 0000:01:00\.0 has no device_id"):
        vfio_ids.ids([gpu(0, device_id=None)])


def test_wrong_input():
    with pytest.raises(ValueError, match="list of dictionaries"):
        vfio_ids.ids("a100")
    with pytest.raises(ValueError, match="peer_ids must be a dictionary"):
        vfio_ids.ids([], "10de:1aef")
