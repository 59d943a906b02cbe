# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""MIG layouts against tables of NVIDIA's MIG User Guide and of drivers 470 to 570."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver.mig import (
    Gpu,
    Layout,
    Mode,
    choose,
    faults,
    instances,
    is_as_wanted,
    modes,
    order,
    profiles,
)

LISTED = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.5gb        19     0/7        4.75       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.5gb+me     20     0/1        4.75       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+
|   0  MIG 2g.10gb       14     0/3        9.62       No     28     1     0   |
|                                                             2     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 3g.20gb        9     0/2        19.50      No     42     2     0   |
|                                                             3     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 4g.20gb        5     0/1        19.50      No     56     2     0   |
|                                                             4     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 7g.40gb        0     0/1        39.25      No     98     5     0   |
|                                                             7     1     1   |
+-----------------------------------------------------------------------------+
"""
PLACES = """\
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 14 Placements: {0,2,4}:2
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  5 Placement : {0}:4
GPU  0 Profile ID  0 Placement : {0}:8
"""
THERE = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.5gb          19       11          0:1     |
+-------------------------------------------------------+
|   0  MIG 1g.5gb          19       12          1:1     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        1          4:4     |
+-------------------------------------------------------+
"""
INSIDE = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0     11       MIG 1g.5gb           0         0          0:1     |
+--------------------------------------------------------------------+
|   0      1       MIG 1c.3g.20gb       0         0          0:1     |
+--------------------------------------------------------------------+
|   0      1       MIG 1c.3g.20gb       0         1          1:1     |
+--------------------------------------------------------------------+
"""
A100 = {
    "pci_address": "0000:41:00.0",
    "vendor": "nvidia",
    "kind": "gpu",
    "type": "a100",
    "driver": "nvidia",
    "vendor_id": "10de",
    "device_id": "20b0",
}
GIVEN_AWAY = {**A100, "pci_address": "0000:81:00.0", "driver": "vfio-pci"}
ON = Mode("00000000:41:00.0", "Enabled", "Enabled")


def gpu(*there, mode=ON):
    return Gpu(mode, profiles(LISTED, PLACES), list(there))


def test_answers_are_read():
    assert profiles(LISTED, PLACES)[1] == ("1g.5gb+me", 1, 4.75, (0, 1, 2, 3, 4, 5, 6), 1)
    assert [profile.name for profile in profiles(LISTED, PLACES)] == ["1g.5gb", "1g.5gb+me", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]
    assert instances(THERE, INSIDE) == ["1g.5gb", "1g.5gb (no compute instance)", "3g.20gb (1c.3g.20gb, 1c.3g.20gb)"]
    assert instances("No GPU instances found: Not Found\n", "No compute instances found: Not Found\n") == []
    assert modes("00000000:41:00.0, Disabled, Enabled\n00000000:08:00.0, [N/A], [N/A]\n") == {
        "0000:41:00.0": ("00000000:41:00.0", "Disabled", "Enabled"),
        "0000:08:00.0": ("00000000:08:00.0", "[N/A]", "[N/A]"),
    }


def test_devices_are_chosen_by_type_address_or_all():
    for item in ("a100", "0000:41:00.0", "41:00.0", "all"):
        assert choose([{"devices": [item], "instances": {"3g.20gb": 2}}], [A100]) == ({"0000:41:00.0": Layout(True, {"3g.20gb": 2})}, [])
    other = {**A100, "pci_address": "0000:42:00.0"}
    assert choose([{"devices": ["42:00.0"], "enabled": False}], [A100, other])[0] == {"0000:42:00.0": Layout(False, {})}


@pytest.mark.parametrize(
    ("layouts", "said"),
    [
        (
            [{"devices": ["h100"]}],
            "which the host does not have; its NVIDIA GPUs: 0000:41:00.0 (a100), 0000:81:00.0 (a100).",
        ),
        ([{"devices": ["81:00.0"]}], "asks for 0000:81:00.0 (a100), which was given to virtual machines (vfio-pci)"),
        ([{"devices": ["41:00.0"]}, {"devices": ["41:00.0"], "enabled": False}], "has two layouts for 0000:41:00.0 (a100): leave one."),
        ([{"devices": ["41:00.0"], "instances": {"1g.5gb": 0}}], "has the instances 1g.5gb: 0; write a profile"),
        ([{"devices": ["41:00.0"], "instances": {"1g.5gb -C": 1}}], "has the instances 1g.5gb -C: 1; write a profile"),
        ([{"devices": ["41:00.0"], "instances": {"1g.5gb": 1}, "enabled": False}], "turns MIG off (enabled: false) and asks for instances"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(layouts, said):
    errors = choose(layouts, [A100, GIVEN_AWAY])[1]
    assert len(errors) == 1 and errors[0].startswith("nvidia_driver_mig ") and said in errors[0]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"1g.5gb": 7}, None),
        ({"3g.20gb": 1, "4g.20gb": 1}, None),
        ({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}, None),
        ({"1g.10gb": 1}, "has no MIG profile 1g.10gb; its profiles: 1g.5gb (up to 7), 1g.5gb+me (up to 1), 2g.10gb (up to 3)"),
        ({"1g.5gb": 8}, "can have 7 of 1g.5gb, nvidia_driver_mig asks for 8."),
        ({"3g.20gb": 2, "1g.5gb": 1}, "has no room for 2 of 3g.20gb, 1 of 1g.5gb together"),
        ({"1g.5gb": 7, "1g.5gb+me": 1}, "has no room for"),
    ],
)
def test_what_does_not_fit_is_refused(wanted, said):
    errors = faults("0000:41:00.0 (a100)", Layout(True, wanted), gpu())
    assert errors == [] if said is None else len(errors) == 1 and f"0000:41:00.0 (a100) {said}" in errors[0]


def test_gpus_that_cannot_are_refused():
    assert "is not served by NVIDIA's driver" in faults("x", Layout(True, {}), None)[0]
    assert faults("x", Layout(False, {}), gpu(mode=Mode("x", "[N/A]", "[N/A]"))) == ["x has no MIG: take it out of nvidia_driver_mig."]
    # A driver that does not report places: only the numbers are compared.
    assert faults("x", Layout(True, {"3g.20gb": 2, "1g.5gb": 1}), Gpu(ON, profiles(LISTED, ""), [])) == []


def test_the_biggest_come_first():
    wanted = Layout(True, {"1g.5gb": 1, "3g.20gb": 1, "1g.5gb+me": 1, "4g.20gb": 1})
    assert [profile.name for profile in order(wanted, profiles(LISTED, PLACES))] == ["4g.20gb", "3g.20gb", "1g.5gb", "1g.5gb+me"]


def test_a_layout_is_a_multiset():
    wanted = Layout(True, {"1g.5gb": 2, "3g.20gb": 1})
    assert is_as_wanted(wanted, gpu("1g.5gb", "3g.20gb", "1g.5gb"))
    assert not is_as_wanted(wanted, gpu("1g.5gb", "3g.20gb"))
    assert not is_as_wanted(wanted, gpu("1g.5gb", "1g.5gb", "3g.20gb (no compute instance)"))
    off = Mode("x", "Disabled", "Disabled")
    assert is_as_wanted(Layout(False, {}), gpu(mode=off)) and not is_as_wanted(Layout(True, {}), gpu(mode=off))
    assert not is_as_wanted(Layout(False, {}), gpu(mode=Mode("x", "Disabled", "Enabled")))
