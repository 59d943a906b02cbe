# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module mediated_devices on a simulated device tree, with a driver that makes devices as a real one does."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import mediated_devices
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.passthrough_examples import A100, RTX

PARENT = A100["pci_address"]
FOREIGN = "6f1f4d5e-0c57-4f3a-9a55-2d6f6ab4c0de"


class Host:
    """A GPU whose driver has two types of devices; making one takes of what is free of both, as with the kernel's sample mtty."""

    def __init__(self, root, run):
        self.root, self.run = root, run
        for kind, name in (("nvidia-63", "GRID T4-1Q"), ("nvidia-64", "GRID T4-2Q")):
            root.write(f"sys/bus/pci/devices/{PARENT}/mdev_supported_types/{kind}/name", f"{name}\n")
        (root.path / "sys/class/mdev_bus").mkdir(parents=True)
        (root.path / "sys/class/mdev_bus" / PARENT).symlink_to((root.path / f"sys/bus/pci/devices/{PARENT}").resolve())
        (root.path / "sys/bus/mdev/devices").mkdir(parents=True)
        root.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        root.write("usr/bin/mdevctl", "")
        self.count_free()

    def count_free(self):
        free = 4 - len(self.active())
        for kind, ports in (("nvidia-63", 1), ("nvidia-64", 2)):
            self.root.write(f"sys/bus/pci/devices/{PARENT}/mdev_supported_types/{kind}/available_instances", f"{free // ports}\n")

    def write(self, path, text):
        devices = self.root.path / "sys/bus/mdev/devices"
        if path.endswith("/create"):
            if len(self.active()) == 4:
                raise OSError(28, "No space left on device", path)
            self.activate(text, os.path.basename(os.path.dirname(path)))
        else:
            name = path.split("/")[-2]
            (devices / name).unlink()
        self.count_free()

    def activate(self, name, kind="nvidia-63"):
        parent = (self.root.path / f"sys/bus/pci/devices/{PARENT}").resolve()
        group = 30 + len(self.active())
        (parent / name).mkdir(exist_ok=True)
        for link, target in (("mdev_type", f"../mdev_supported_types/{kind}"), ("iommu_group", f"/sys/kernel/iommu_groups/{group}")):
            (parent / name / link).unlink(missing_ok=True)
            (parent / name / link).symlink_to(target)
        (self.root.path / "sys/bus/mdev/devices" / name).symlink_to(parent / name)

    def active(self):
        return sorted(path.name for path in (self.root.path / "sys/bus/mdev/devices").iterdir())

    def defined(self):
        return {path.name: json.loads(path.read_text()) for path in self.root.path.glob("etc/mdevctl.d/*/*")}

    def record(self):
        file = self.root.path / "var/lib/deephdc/mediated_devices.json"
        return json.loads(file.read_text()) if file.exists() else None

    def __call__(self, *wanted, **options):
        devices = [{"parent": PARENT, "type": kind, "count": count} for kind, count in wanted]
        return self.run(mediated_devices, devices=devices, **options)


@pytest.fixture
def host(run, simulate, monkeypatch):
    found = Host(simulate(A100, RTX), run)
    monkeypatch.setattr(mediated_devices, "ROOT", str(found.root))
    monkeypatch.setattr(mediated_devices, "write", found.write)
    return found


def uuids(result):
    return [device["uuid"] for device in result["devices"]]


def test_now_and_at_each_boot(host):
    predicted = host(("GRID T4-1Q", 2), _ansible_check_mode=True)
    assert predicted["changed"] and host.active() == [] and host.defined() == {} and host.record() is None
    result = host(("GRID T4-1Q", 2))
    assert uuids(result) == uuids(predicted) == result["made"] == host.active()
    assert {device["device_file"] for device in result["devices"]} == {"/dev/vfio/30", "/dev/vfio/31"}
    assert host.defined() == {name: {"mdev_type": "nvidia-63", "start": "auto", "attrs": []} for name in uuids(result)}
    assert result["diff"]["before"] == "" and result["diff"]["after"].count(f" {PARENT} nvidia-63\n") == 2
    again = host(("nvidia-63", 2))
    assert not again["changed"] and uuids(again) == uuids(result)


def test_fewer_other_and_none(host):
    host.activate(FOREIGN)
    three = host(("nvidia-63", 3))
    two = host(("nvidia-63", 2))
    assert two["removed"] == [name for name in uuids(three) if name not in uuids(two)]
    # How many are free is known only after the others are gone.
    other = host(("nvidia-64", 1))
    assert other["removed"] == uuids(two) and list(host.defined()) == uuids(other)
    assert host()["removed"] == uuids(other)
    assert host.active() == [FOREIGN] and host.defined() == {} and host.record() is None
    assert not (host.root.path / "etc/mdevctl.d" / PARENT).exists()
    assert not host()["changed"]


def test_what_is_lacking_is_made_up_for(host):
    first, second = uuids(host(("nvidia-63", 2)))
    (host.root.path / "sys/bus/mdev/devices" / first).unlink()
    host.root.write(f"etc/mdevctl.d/{PARENT}/{second}", '{"mdev_type": "nvidia-63", "start": "manual", "attrs": []}')
    result = host(("nvidia-63", 2))
    assert (result["changed"], result["made"]) == (True, [first])
    assert host.defined()[second]["start"] == "auto"


def test_what_is_in_use_stays(host, monkeypatch):
    result = host(("nvidia-63", 2))
    used = result["devices"][1]
    opened = [mediated_devices.iommu.Opened("qemu-system-x86 (process 77)", used["device_file"], "245:0")]
    monkeypatch.setattr(mediated_devices.iommu, "opened_devices", lambda root: opened)
    refused = host()
    assert refused["errors"] == [
        f"Mediated device {used['uuid']} of {PARENT} can't be removed: qemu-system-x86 (process 77) has {used['device_file']} open; "
        "end the virtual machine that has it first."
    ]
    assert len(host.active()) == len(host.defined()) == 2
    assert uuids(host(("nvidia-63", 1))) == [used["uuid"]]


def test_refused_before_anything_is_changed(host):
    def said(parent, kind="nvidia-63", count=1, **options):
        result = host.run(mediated_devices, devices=[{"parent": parent, "type": kind, "count": count}], **options)
        assert result["failed"] and host.active() == [] and host.record() is None
        return result["msg"]

    offer = "it has nvidia-63 (GRID T4-1Q, 4 free), nvidia-64 (GRID T4-2Q, 2 free)."
    assert said(PARENT, "nvidia-65") == f"{PARENT} of this host has no mediated devices of type nvidia-65; {offer}"
    assert said("41:00.0", "nvidia-64", 3) == (
        f"{PARENT} of this host can't have 3 mediated devices of type nvidia-64: 2 are free and 0 of them are there; {offer}"
    )
    assert said("0c:00.0") == (
        "0000:0c:00.0 of this host has no mediated devices: its driver is nvidia, which offers none, "
        f"a vendor's vGPU host driver is needed; the host has {PARENT}."
    )
    assert said("147600").startswith("This host has no device 147600 for mediated devices (an address must stand in quotes)")
    assert "it must be 1 or more" in said(PARENT, count=0)
    assert "is given to virtual machines as a whole" in said(PARENT, assigned=[PARENT])
    assert "asked for twice" in host(("nvidia-63", 1), ("GRID T4-1Q", 1))["msg"]


def test_what_the_kernel_does_not_make_is_not_left_for_the_next_boot(host):
    # Each would fit, both do not.
    result = host(("nvidia-63", 4), ("nvidia-64", 2))
    assert result["msg"] == f"{PARENT} made no mediated device of type nvidia-64: No space left on device; see dmesg."
    assert [entry["mdev_type"] for entry in host.defined().values()] == ["nvidia-63"] * 4
    assert len(host()["removed"]) == 6 and host.active() == []


def test_nothing_without_what_makes_them_at_boot(host):
    (host.root.path / "usr/bin/mdevctl").unlink()
    assert "mdevctl is not installed" in host(("nvidia-63", 1))["msg"]
    assert host.record() is None
