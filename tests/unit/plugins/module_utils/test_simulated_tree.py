# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated device trees look like the kernel's."""

from __future__ import annotations

import posixpath

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.tree import (
    CATALOGUE,
    Link,
    Node,
    device_nodes,
    expand,
    simulated_tree,
)

EVERYTHING = [{"type": type_} for type_ in CATALOGUE]


def test_one_gpu():
    tree = simulated_tree([{"type": "a100", "pci_address": "0000:41:00.0", "numa_node": 3, "local_cpus": "48-63"}])
    home = "sys/devices/pci0000:41/0000:41:00.0"
    assert tree["sys/bus/pci/devices/0000:41:00.0"] == Link("../../../devices/pci0000:41/0000:41:00.0")
    assert [tree[f"{home}/{name}"] for name in ("class", "vendor", "device")] == ["0x030200\n", "0x10de\n", "0x20b2\n"]
    assert tree[f"{home}/numa_node"] == "3\n" and tree[f"{home}/local_cpulist"] == "48-63\n"
    assert tree[f"{home}/uevent"] == (
        "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:20B2\nPCI_SUBSYS_ID=10DE:20B2\nPCI_SLOT_NAME=0000:41:00.0\n"
    )
    assert "Device Minor: \t 0\n" in tree["proc/driver/nvidia/gpus/0000:41:00.0/information"]
    assert f"{home}/boot_vga" not in tree  # a 3D controller has none


def test_every_link_leads_into_the_tree():
    tree = simulated_tree([*EVERYTHING, {"type": "a100", "pci_address": "0000:01:00.4", "physfn": "0000:01:00.0"}])
    directories = {path[:end] for path in tree for end in range(len(path)) if path[end] == "/"} | set(tree)
    for path, content in tree.items():
        if isinstance(content, Link):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), content.target))
            # a link is read where the kernel's directory is, which is below another link
            assert target in directories, f"{path} -> {content.target}"


def test_no_devices_leave_the_directory():
    assert simulated_tree([]) == {"sys/bus/pci/devices": None}


def test_count_zero_is_no_device():
    assert expand([{"type": "a100", "count": 0}]) == []


def test_addresses_are_given_around_those_that_are_set():
    addresses = [device["pci_address"] for device in expand([{"type": "a100", "count": 3}, {"type": "t4", "pci_address": "0000:02:00.0"}])]
    assert addresses == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"]


def test_nodes():
    assert device_nodes([{"type": "a100", "count": 2}, {"type": "mi210"}, {"type": "flex170"}]) == [
        Node("nvidia0", 120, 0),
        Node("nvidia1", 120, 1),
        Node("dri/renderD128", 121, 128),
        Node("dri/renderD129", 121, 129),
    ]
    assert device_nodes([{"type": "a100", "driver": "vfio-pci"}, {"type": "t4", "driver": ""}]) == []


def test_a_type_of_ones_own():
    (device,) = expand([{"type": "x9000", "vendor_id": "10de", "device_id": "2fff"}])
    assert (device["model"], device["driver"], device["class"]) == ("x9000", "nvidia", "030200")


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([{"type": "a101"}], "the type a101 is not known: give vendor_id and device_id with it, or one of p100, v100"),
        ([{"type": "x", "vendor_id": "10de"}], "the type x is not known"),
        ([{"type": "a100", "count": -1}], "the count of a100 is -1"),
        ([{"type": "a100", "count": "2"}], "the count of a100 is '2'"),
        ([{"type": "a100", "count": 256}], "more than 255 devices"),
        ([{"type": "a100", "pci_address": "41:00.0"}], "41:00.0 is not a PCI address"),
        ([{"type": "a100", "count": 2, "pci_address": "0000:41:00.0"}], "2 devices of type a100 cannot all have the PCI address"),
        ([{"type": "a100", "pci_address": "0000:41:00.0"}] * 2, "the PCI address 0000:41:00.0 is given to more than one device"),
        ([{"type": "a100", "vendor_id": "0x10de"}], "the vendor_id of a100 is '0x10de', which is not 4 hexadecimal digits"),
        ([{"type": "a100", "class": "302"}], "the class of a100 is '302', which is not 6 hexadecimal digits"),
        ([{"type": "a100", "subsystem_id": "147f"}], "the subsystem_id of a100 is '147f', which is not of the form 10de:147f"),
        ([{"type": "a100", "driver": "../x"}], "the driver of a100 is '../x', which is not the name of a kernel driver"),
    ],
)
def test_wrong_devices(devices, message):
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(")):
        expand(devices)
