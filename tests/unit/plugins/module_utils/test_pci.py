# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Addresses and files of sysfs."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import address, pci


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:41:00.0", "0000:41:00.0"),
        ("00000000:41:00.0", "0000:41:00.0"),
        ("00000000:C1:00.0\n", "0000:c1:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("10000:e1:00.1", "10000:e1:00.1"),
        ("41:00.0", None),
        ("0000:41:00.8", None),
        ("0000:41:00.0 x", None),
        ("", None),
    ],
)
def test_canonical_address(text, expected):
    assert address.canonical_address(text) == expected


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8 GT/s", 3),
        ("16.0 GT/s PCIe", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("Unknown", None),
    ],
)
def test_link(simulate, speed, generation):
    root = simulate({"type": "a100"})
    root.write(root.device("0000:01:00.0", "current_link_speed"), speed + "\n")
    root.write(root.device("0000:01:00.0", "current_link_width"), "0\n")
    assert pci.read_placement(str(root), "0000:01:00.0")["pcie"] == {"gen": generation, "width": None}


def test_names_of_many_devices(tmp_path):
    file = tmp_path / "pci.ids"
    file.write_bytes(
        b"0001  First\n\t0001  One [caf\xe9]\n10de  NVIDIA\n\t20b0  GA100 [A100]\n\t\t10de 1450  X\nC 03  Display\n\t00  VGA\n"
    )
    wanted = [("0001", "0001"), ("10de", "20b0"), ("10de", "0001"), ("ffff", "20b0"), ("", "")]
    assert pci.pci_ids_names(wanted, (str(file),)) == {("0001", "0001"): "One [caf�]", ("10de", "20b0"): "GA100 [A100]"}
    assert pci.pci_ids_names(wanted, (str(tmp_path / "none"),)) == {}


def test_entries_that_are_no_devices_are_passed_over(simulate):
    root = simulate({"type": "a100"})
    (root.path / "sys/bus/pci/devices/README").write_text("not a device")
    (root.path / "sys/bus/pci/devices/0000:09:00.0").mkdir()
    assert [ids["pci_address"] for ids in pci.read_ids(str(root))] == ["0000:01:00.0"]


def test_group_of_a_device_without_iommu(simulate):
    root = simulate({"type": "a100"})
    root.remove(root.device("0000:01:00.0", "iommu_group"))
    placement = pci.read_placement(str(root), "0000:01:00.0")
    assert placement["iommu_group"] is None and placement["iommu_group_peers"] is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GA100 [A100 SXM4 80GB]", "A100 SXM4 80GB"),
        ("GH100[H100 SXM5 80GB]", "H100 SXM5 80GB"),
        ("Raphael", "Raphael"),
    ],
)
def test_marketing_name(name, expected):
    assert pci.marketing_name(name) == expected
