# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module pci_driver_override on a simulated device tree, with a kernel that binds as the real one does."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import pci_driver_override
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.passthrough_examples import A100, CARD, RTX, RTX_AUDIO, set_up

CARD_FUNCTIONS = [
    {"address": "0000:0c:00.0", "vendor_id": "10de", "device_id": "2204"},
    {"address": "0000:0c:00.1", "vendor_id": "10de", "device_id": "1aef"},
]
OWN_DRIVERS = {"0000:0c:00.0": "nvidia", "0000:0c:00.1": "snd_hda_intel", "0000:41:00.0": "nvidia"}


class Host:
    """The module on a server.

    What it writes to sysfs is acted on as the kernel does (drivers/base/bus.c).
    """

    def __init__(self, root, run):
        self.root, self.run, self.events, self.refuses = root, run, [], ()

    def write(self, path, text):
        self.events.append(f"{path[len(str(self.root)) :].replace('/sys/bus/pci', '')} {text.strip()}")
        if path.endswith("/unbind"):
            (self.root.path / self.root.device(text, "driver")).unlink()
        elif path.endswith("/driver_override"):
            self.root.write(path[len(str(self.root)) + 1 :], text)
        elif path.endswith("/drivers_probe"):
            override = (self.root.path / self.root.device(text, "driver_override")).read_text().strip()
            driver = override or OWN_DRIVERS[text]
            link = self.root.path / self.root.device(text, "driver")
            if driver not in self.refuses and not link.is_symlink():
                link.symlink_to(f"../../../bus/pci/drivers/{driver}")

    def driver(self, address):
        link = self.root.path / self.root.device(address, "driver")
        return link.readlink().name if link.is_symlink() else None

    def saved(self):
        directory = self.root.path / "etc/driverctl.d"
        return {file.name: file.read_text() for file in directory.iterdir()} if directory.is_dir() else {}

    def record(self):
        file = self.root.path / "var/lib/deephdc/pci_driver_override.json"
        return json.loads(file.read_text()) if file.exists() else None

    def __call__(self, functions=None, **options):
        self.events.clear()
        return self.run(pci_driver_override, functions=list(CARD_FUNCTIONS if functions is None else functions), **options)


@pytest.fixture
def host(run, simulate, fake, monkeypatch):
    root = set_up(simulate(A100, RTX, RTX_AUDIO, CARD))
    root.write("usr/lib/udev/rules.d/05-driverctl.rules", "")
    found = Host(root, run)
    monkeypatch.setattr(pci_driver_override, "ROOT", str(root))
    monkeypatch.setattr(pci_driver_override, "write", found.write)
    fake("modprobe")
    return found


def opens(host, address, path="/dev/null"):
    """Let a process have the function open."""
    host.root.write(host.root.device(address, "drm/card0/dev"), "1:3\n")
    host.root.write("proc/77/comm", "Xorg\n")
    (host.root.path / "proc/77/fd").mkdir()
    (host.root.path / "proc/77/fd/3").symlink_to(path)


SAVED = {"pci-0000:0c:00.0": "vfio-pci\n", "pci-0000:0c:00.1": "vfio-pci\n"}


def test_now_and_at_each_boot(host):
    result = host()
    assert (result["changed"], result["reboot_needed"], result["pending"]) == (True, False, [])
    assert result["bound"] == {"0000:0c:00.0": "vfio-pci", "0000:0c:00.1": "vfio-pci"}
    assert host.saved() == SAVED and set(host.record()) == set(result["bound"])
    assert host.events[:3] == [
        "/devices/0000:0c:00.0/driver_override vfio-pci",
        "/devices/0000:0c:00.0/driver/unbind 0000:0c:00.0",
        "/drivers_probe 0000:0c:00.0",
    ]
    assert host.driver("0000:41:00.0") == "nvidia"
    assert host()["changed"] is False and host.events == []


def test_check_mode_and_diff(host):
    result = host(_ansible_check_mode=True, _ansible_diff=True)
    assert result["changed"] and host.events == [] and host.saved() == {} and host.record() is None
    assert result["diff"] == {"before": "", "after": "0000:0c:00.0 vfio-pci\n0000:0c:00.1 vfio-pci\n"}


def test_only_at_the_next_boot(host):
    result = host(live=False)
    assert result["changed"] and result["reboot_needed"] and host.events == [] and host.saved() == SAVED
    assert result["pending"][0] == "0000:0c:00.0 is bound to nvidia until the next boot: it was not asked to be bound now."
    assert host(live=False)["changed"] is False
    assert host()["changed"] and host.driver("0000:0c:00.0") == "vfio-pci"


@pytest.mark.parametrize("danger", ["process", "console"])
def test_what_is_not_safe_now_waits_for_the_next_boot(host, danger):
    if danger == "process":
        opens(host, "0000:0c:00.0")
    else:
        host.root.write(host.root.device("0000:0c:00.0", "graphics/fb0/dev"), "29:0\n")
    result = host()
    words = {"process": "Xorg (process 77) has /dev/null open", "console": "the console is shown on it (fb0)"}[danger]
    assert words in result["pending"][0] and len(result["pending"]) == 1 and result["reboot_needed"]
    assert (host.driver("0000:0c:00.0"), host.driver("0000:0c:00.1")) == ("nvidia", "vfio-pci")
    assert host.saved() == SAVED


def test_given_back(host):
    host()
    result = host([])
    assert result["changed"] and result["given_back"] == ["0000:0c:00.0", "0000:0c:00.1"]
    assert result["bound"] == {"0000:0c:00.0": "nvidia", "0000:0c:00.1": "snd_hda_intel"}
    assert host.saved() == {} and host.record() is None
    assert host([])["changed"] is False


def test_given_back_to_no_driver(host):
    host()
    host.refuses = ("nvidia",)
    assert host([])["bound"] == {"0000:0c:00.0": None, "0000:0c:00.1": "snd_hda_intel"}


def test_given_back_though_it_could_not_be_bound_at_boot(host):
    """As where the IOMMU was off: it would wait for vfio-pci until the next boot."""
    host()
    for function in CARD_FUNCTIONS:
        (host.root.path / host.root.device(function["address"], "driver")).unlink()
    assert host([])["bound"] == {"0000:0c:00.0": "nvidia", "0000:0c:00.1": "snd_hda_intel"}


def test_what_the_kernel_refuses_is_told_with_its_place(host, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(pci_driver_override.Refused, match=r"the kernel refused 1 for /dev/full \(No space left on device\): see dmesg"):
        pci_driver_override.write("/dev/full", "1")


def test_given_back_at_the_next_boot(host):
    host()
    result = host([], live=False)
    assert result["changed"] and result["reboot_needed"] and host.saved() == {}
    again = host([], live=False)
    assert not again["changed"] and again["reboot_needed"]
    assert host([])["changed"] and host.record() is None


def test_a_device_that_a_virtual_machine_has_is_not_given_back(host):
    host()
    opens(host, "0000:0c:00.0")
    result = host([])
    assert result["failed"] and "0000:0c:00.0 can't be given back: Xorg (process 77) has /dev/null open" in result["msg"]
    assert host.saved() == SAVED and host.driver("0000:0c:00.1") == "vfio-pci"


def test_a_card_that_was_taken_out_of_the_host(host):
    host()
    host.root.remove("sys/bus/pci/devices/0000:0c:00.1")
    result = host(CARD_FUNCTIONS[:1])
    assert result["given_back"] == ["0000:0c:00.1"] and list(host.saved()) == ["pci-0000:0c:00.0"]


def test_what_somebody_else_chose_stays(host):
    host.root.write("etc/driverctl.d/pci-0000:41:00.0", "vfio-pci\n")
    host()
    host([])
    assert host.saved() == {"pci-0000:41:00.0": "vfio-pci\n"}
    host.root.write("etc/driverctl.d/pci-0000:0c:00.1", "uio_pci_generic\n")
    result = host()
    assert result["failed"] and "an administrator chose the driver uio_pci_generic for 0000:0c:00.1" in result["msg"]
    assert host.driver("0000:0c:00.0") == "nvidia"


def test_a_run_that_was_killed_after_the_note(host):
    host.root.write("var/lib/deephdc/pci_driver_override.json", json.dumps({"0000:0c:00.0": "vfio-pci", "0000:0c:00.1": "vfio-pci"}))
    assert host()["changed"] and host.saved() == SAVED
    host([])
    assert host.saved() == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address": "0000:99:00.0"}, "has no PCI function 0000:99:00.0"),
        ({"address": "0c:00.0"}, "not a PCI address"),
        ({"device_id": "ffff"}, "0000:0c:00.0 is 10de:2204, not 10de:ffff: the addresses have changed"),
    ],
)
def test_a_wrong_address_is_refused(host, change, words):
    result = host([{**CARD_FUNCTIONS[0], **change}])
    assert result["failed"] and words in result["msg"] and host.events == []


def test_without_driverctl_nothing_would_last(host):
    host.root.remove("usr/lib/udev/rules.d/05-driverctl.rules")
    assert "the package driverctl is not installed" in host()["msg"] and host.saved() == {}
    assert host(_ansible_check_mode=True)["changed"]


def test_a_driver_that_does_not_take_it_leaves_the_former(host):
    host.refuses = ("vfio-pci",)
    assert "0000:0c:00.0 was not taken by vfio-pci, it has nvidia again: see dmesg" in host()["msg"]
    assert host.driver("0000:0c:00.0") == "nvidia" and "pci-0000:0c:00.0" not in host.saved() and "0000:0c:00.0" not in host.record()
    host.refuses = ()
    assert host()["changed"] and host.saved() == SAVED


def test_a_driver_that_does_not_load_changes_nothing(host, fake):
    fake("modprobe", "echo 'modprobe: FATAL: Module vfio-pci not found.' >&2; exit 1")
    assert "the driver vfio-pci can't be loaded: modprobe: FATAL: Module vfio-pci not found" in host()["msg"]
    assert host.events == [] and host.saved() == {} and host.record() is None
