# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module pci_virtual_functions on a simulated device tree, with a kernel that divides as the real one does."""

from __future__ import annotations

import errno
import shutil

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import pci_virtual_functions
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.passthrough_examples import A100, FLEX, set_up

ADDRESS = "0000:4d:00.0"
WANTED = {"address": ADDRESS, "vendor_id": "8086", "device_id": "56c0", "count": 2}
RULES = "etc/udev/rules.d/71-deephdc-virtual-functions.rules"


class Host:
    """The module on a server.

    What it writes to sysfs is acted on as drivers/pci/iov.c does.
    """

    def __init__(self, root, run):
        self.root, self.run, self.events, self.refuses = root, run, [], False

    def write(self, address, name, text):
        self.events.append(f"{name} {text}")
        if name != "sriov_numvfs":
            return
        file = self.root.path / self.root.device(address, name)
        if self.refuses or (text != "0" and file.read_text().strip() != "0"):
            raise OSError(errno.EBUSY, "Device or resource busy")
        file.write_text(f"{text}\n")
        for number in range(1, 8):
            shutil.rmtree(self.root.path / self.root.device(f"{address[:-1]}{number}", ""), ignore_errors=True)
        for number in range(1, int(text) + 1):
            function = f"{address[:-1]}{number}"
            for key, value in (("vendor", "0x8086"), ("device", "0x56c0"), ("class", "0x038000")):
                self.root.write(self.root.device(function, key), value)
            (self.root.path / self.root.device(function, "physfn")).symlink_to(f"../{address}")

    def use(self, function, driver):
        (self.root.path / self.root.device(function, "driver")).symlink_to(f"../../../bus/pci/drivers/{driver}")

    def rules(self):
        file = self.root.path / RULES
        return file.read_text() if file.exists() else ""

    def __call__(self, *functions, **options):
        self.events.clear()
        return self.run(pci_virtual_functions, functions=[dict(function) for function in functions], **options)


@pytest.fixture
def host(run, simulate, monkeypatch):
    root = set_up(simulate(A100, FLEX))
    found = Host(root, run)
    monkeypatch.setattr(pci_virtual_functions, "ROOT", str(root))
    monkeypatch.setattr(pci_virtual_functions, "write", found.write)
    return found


def test_now_and_at_each_boot(host):
    result = host(WANTED)
    assert result["changed"] and result["virtual_functions"] == {ADDRESS: ["0000:4d:00.1", "0000:4d:00.2"]}
    assert host.events == ["sriov_drivers_autoprobe 0", "sriov_numvfs 2"]
    assert host.rules().splitlines()[1:] == [
        'ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="0000:4d:00.0", ATTR{vendor}=="0x8086", ATTR{device}=="0x56c0", DRIVER=="?*", '
        'ATTR{sriov_drivers_autoprobe}="0", ATTR{sriov_numvfs}="2"'
    ]
    assert host(WANTED)["changed"] is False and host.events == []


def test_check_mode_and_diff(host):
    result = host(WANTED, _ansible_check_mode=True, _ansible_diff=True)
    assert result["changed"] and host.events == [] and host.rules() == "" and 'KERNEL=="0000:4d:00.0"' in result["diff"]["after"]


def test_another_number_goes_by_way_of_none(host):
    host(WANTED)
    assert host({**WANTED, "count": 4})["changed"]
    assert host.events == ["sriov_numvfs 0", "sriov_drivers_autoprobe 0", "sriov_numvfs 4"]


def test_made_whole_again(host):
    host(WANTED)
    assert host()["changed"] and host.rules() == ""
    assert host.events == ["sriov_numvfs 0", "sriov_drivers_autoprobe 1"]
    assert host()["changed"] is False


def test_those_that_were_lost_are_made_again(host):
    host(WANTED)
    host.write(ADDRESS, "sriov_numvfs", "0")
    assert host(WANTED)["changed"] and host.events == ["sriov_drivers_autoprobe 0", "sriov_numvfs 2"]


def test_those_that_the_host_uses_stay(host):
    host(WANTED)
    host.use("0000:4d:00.2", "i915")
    assert "the host uses it with the driver i915" in host()["msg"]
    assert host.events == [] and 'numvfs}="2"' in host.rules()


def test_those_that_somebody_else_made_stay(host):
    host.write(ADDRESS, "sriov_numvfs", "1")
    assert host(WANTED)["msg"] == f"{ADDRESS} has 1 virtual functions already, made by other means."
    assert host()["changed"] is False and host.events == [] and host.rules() == ""


def test_a_driver_that_makes_none_is_known_as_ours_and_tried_again(host):
    host.refuses = True
    assert host(WANTED)["msg"] == f"the driver of {ADDRESS} does not make 2 virtual functions (Device or resource busy): see dmesg."
    host.refuses = False
    assert host(WANTED)["changed"] and host.events[-1] == "sriov_numvfs 2"


def test_a_card_that_was_taken_out(host):
    host(WANTED)
    (host.root.path / f"sys/bus/pci/devices/{ADDRESS}").unlink()
    assert host()["changed"] and host.rules() == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address": "4d:00.0"}, "4d:00.0 is not a PCI address such as 0000:41:00.0."),
        ({"address": "0000:99:00.0"}, "this host has no PCI function 0000:99:00.0."),
        ({"device_id": "1111"}, "0000:4d:00.0 is 8086:56c0, not 8086:1111: the addresses have changed."),
        ({"count": 32}, "0000:4d:00.0 can have 1 to 31 virtual functions, not 32."),
        ({"address": "0000:41:00.0", "vendor_id": "10de", "device_id": "20b2"}, "0000:41:00.0 has no SR-IOV."),
    ],
)
def test_refused(host, change, words):
    assert host({**WANTED, **change})["msg"] == words and host.rules() == ""
