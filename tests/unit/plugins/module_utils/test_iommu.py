# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What is read of a host's IOMMU and PCI functions."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.passthrough_examples import (
    A100,
    ASPEED,
    CARD,
    KERNEL,
    RTX,
    RTX_AUDIO,
    SECOND_CARD,
    set_up,
)


def read(root):
    return iommu.read(str(root), KERNEL)


def by_address(facts):
    return {entry["address"]: entry for entry in facts["functions"]}


def test_a_server(simulate):
    facts = read(set_up(simulate(A100, RTX, RTX_AUDIO, ASPEED, CARD)))
    assert (facts["table"], facts["units"], facts["has_vfio"], facts["overrides"]) == ("DMAR", ["dmar0"], True, {})
    assert facts["kernel_arguments"][-2:] == ["ro", "quiet"]
    functions = by_address(facts)
    assert list(functions) == ["0000:03:00.0", "0000:05:00.0", "0000:0c:00.0", "0000:0c:00.1", "0000:41:00.0"]
    assert functions["0000:0c:00.1"] == {
        "address": "0000:0c:00.1", "class": "040300", "vendor_id": "10de", "device_id": "1aef", "driver": "snd_hda_intel",
        "driver_override": None, "group": 15, "boot_display": False, "framebuffer": None, "interfaces": [], "users": [],
        "sriov": {"total_vfs": None, "num_vfs": None, "physical_function": None},
    }  # fmt: skip
    assert functions["0000:03:00.0"]["boot_display"] is True
    assert functions["0000:05:00.0"]["interfaces"] == [{"name": "eno1", "is_uplink": True}]


def test_a_host_without_anything(simulate):
    facts = read(simulate())
    assert (facts["table"], facts["units"], facts["has_vfio"], facts["functions"]) == (None, [], False, [])


@pytest.mark.parametrize("name", ["modules.dep", "modules.builtin"])
def test_the_driver_is_a_module_or_built_in(simulate, name):
    root = simulate()
    root.write(f"lib/modules/{KERNEL}/{name}", "kernel/drivers/vfio/pci/vfio-pci-core.ko:\n")
    assert not read(root)["has_vfio"]
    root.write(f"lib/modules/{KERNEL}/{name}", "kernel/drivers/vfio/pci/vfio-pci.ko.xz:\n")
    assert read(root)["has_vfio"]


def test_overrides_now_and_at_the_next_boot(simulate):
    root = simulate(A100)
    root.write("etc/driverctl.d/pci-0000:41:00.0", "vfio-pci\n")
    root.write("etc/driverctl.d/vmbus-1", "uio\n")
    root.write(root.device("0000:41:00.0", "driver_override"), "(null)\n")
    assert read(root)["overrides"] == {"0000:41:00.0": "vfio-pci"}
    assert by_address(read(root))["0000:41:00.0"]["driver_override"] is None
    root.write(root.device("0000:41:00.0", "driver_override"), "vfio-pci\n")
    assert by_address(read(root))["0000:41:00.0"]["driver_override"] == "vfio-pci"


def test_the_default_route_goes_through_what_is_below_a_bridge_of_a_bond(simulate):
    root = set_up(simulate(CARD, SECOND_CARD), uplink="br0", cards=("eno1", "eno2"))
    for upper, lower in (("br0", "bond0"), ("bond0", "eno2")):
        root.write(f"sys/class/net/{upper}/lower_{lower}/uevent", "")
    functions = by_address(read(root))
    assert functions["0000:05:00.0"]["interfaces"] == [{"name": "eno1", "is_uplink": False}]
    assert functions["0000:06:00.0"]["interfaces"] == [{"name": "eno2", "is_uplink": True}]


def test_the_default_route_of_ipv6(simulate):
    root = set_up(simulate(CARD), uplink="none")
    zeros = "0" * 32
    gateway = "fe80" + "0" * 27 + "1"
    lines = f"{zeros} 00 {zeros} 00 {gateway} 00000400 1 0 00000003 eno1\n{zeros} 00 {zeros} 00 {zeros} ffffffff 1 0 00200200 lo\n"
    root.write("proc/net/ipv6_route", lines)
    assert iommu.default_interfaces(str(root)) == {"none", "eno1"}


def test_who_has_a_device_open(simulate, tmp_path):
    root = simulate(A100, RTX, RTX_AUDIO)
    null = os.stat("/dev/null").st_rdev
    root.write(root.device("0000:0c:00.1", "sound/card0/controlC0/dev"), f"{os.major(null)}:{os.minor(null)}\n")
    root.write("proc/77/comm", "pipewire\n")
    (root.path / "proc/77/fd").mkdir()
    (root.path / "proc/77/fd/3").symlink_to("/dev/null")
    (root.path / "proc/77/fd/4").symlink_to("/dev/null")
    (root.path / "proc/77/fd/5").symlink_to(tmp_path)
    (root.path / "proc/77/fd/6").symlink_to("/gone")
    users = {address: entry["users"] for address, entry in by_address(read(root)).items()}
    assert users == {"0000:0c:00.0": [], "0000:0c:00.1": ["pipewire (process 77) has /dev/null open"], "0000:41:00.0": []}


def test_files_that_sysfs_does_not_tell_of(simulate):
    root = simulate(A100)
    opened = [iommu.Opened("python3 (process 1)", "/dev/nvidia0", "195:0"), iommu.Opened("qemu (process 2)", "/dev/vfio/20", "240:0")]
    assert iommu.users(str(root), "0000:41:00.0", opened) == ["python3 (process 1) has /dev/nvidia0 open"]
    root.remove(root.device("0000:41:00.0", "driver"))
    (root.path / root.device("0000:41:00.0", "driver")).symlink_to("../../../bus/pci/drivers/vfio-pci")
    assert "qemu (process 2) has /dev/vfio/20 open" in iommu.users(str(root), "0000:41:00.0", opened)


def test_devices_behind_a_bridge_are_not_its_own(simulate):
    root = simulate(A100)
    root.write(root.device("0000:41:00.0", "0000:42:00.0/drm/card1/dev"), "226:1\n")
    root.write(root.device("0000:41:00.0", "drm/card0/dev"), "226:0\n")
    assert iommu.device_numbers(str(root), "0000:41:00.0") == {"226:0"}


def test_open_files_of_a_file_system_that_may_hang_are_not_looked_at(monkeypatch):
    """stat of a file whose NFS or FUSE server is gone never ends; no device is there."""
    with open("/dev/null", "rb") as held, open(__file__, "rb") as other:
        pid = str(os.getpid())
        mount = re.search(r"mnt_id:\s*(\d+)", Path(f"/proc/{pid}/fdinfo/{other.fileno()}").read_text())[1]
        real = os.stat

        def stat(path, **options):
            assert path != f"/proc/{pid}/fd/{other.fileno()}", "this would hang"
            return real(path, **options)

        monkeypatch.setattr(iommu, "remote_mounts", lambda _root, _pid: {mount})
        monkeypatch.setattr(iommu, "list_directory", lambda path: [pid] if path == "/proc" else os.listdir(path))
        monkeypatch.setattr(iommu.os, "stat", stat)
        opened = [entry.path for entry in iommu.opened_devices()]
        assert "/dev/null" in opened and held


def test_mounts_that_may_hang(tmp_path):
    (tmp_path / "proc/7").mkdir(parents=True)
    lines = [
        "21 1 0:5 / /dev rw shared:2 - devtmpfs udev rw",
        "30 1 0:50 / /home rw - nfs4 server:/home rw",
        "31 1 0:51 / /x rw - fuse.sshfs u@h rw",
    ]
    (tmp_path / "proc/7/mountinfo").write_text("\n".join(lines) + "\n")
    assert iommu.remote_mounts(str(tmp_path), "7") == {"30", "31"}
