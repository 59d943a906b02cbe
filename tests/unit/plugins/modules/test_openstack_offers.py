# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What differs between promised GPUs and those in Placement."""

from __future__ import annotations

import types

from ansible_collections.deephdc.accelerators.plugins.modules import openstack_offers

EXPECTED = [{"host": "gpu1", "name": "gpu1.site", "classes": {"CUSTOM_GPU_A100": 2}}]
UP = {"gpu1.site": types.SimpleNamespace(state="up")}


def units(total: int, used: int = 0, reserved: int = 0, name: str = "CUSTOM_GPU_A100"):
    return {"gpu1.site": {name: {"total": total, "used": used, "reserved": reserved}}}


def test_what_is_as_promised_has_no_sentence():
    lines, wrong = openstack_offers.compare(EXPECTED, UP, units(2, 1, 1))
    assert (lines, wrong) == (["gpu1: 2 CUSTOM_GPU_A100 of 2, 1 in use, 1 reserved"], [])


def test_fewer_more_and_others_are_named():
    assert "gpu1 offers 1 CUSTOM_GPU_A100, but 2 were promised" in openstack_offers.compare(EXPECTED, UP, units(1))[1][0]
    assert "find out what else offers them" in openstack_offers.compare(EXPECTED, UP, units(3))[1][0]
    assert len(openstack_offers.compare(EXPECTED, UP, units(1, name="CUSTOM_GPU_T4"))[1]) == 2


def test_a_host_that_is_not_there_or_down_is_named():
    assert "Nova has no compute service on gpu1.site" in openstack_offers.compare(EXPECTED, {}, units(2))[1][0]
    down = {"gpu1.site": types.SimpleNamespace(state="down")}
    assert "the compute service is down" in openstack_offers.compare(EXPECTED, down, units(2))[1][0]
    assert "Placement does not have gpu1.site" in openstack_offers.compare(EXPECTED, UP, {"gpu1.site": None})[1][0]
