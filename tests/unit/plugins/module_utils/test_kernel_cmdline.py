# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of the kernel's command line."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import kernel_cmdline as cmdline


@pytest.mark.parametrize("argument", ["intel_iommu=on", "quiet", "vfio-pci.ids=10de:20b0,10de:1aef", "rd.driver.pre=vfio-pci", "x="])
def test_arguments(argument):
    assert cmdline.invalid([argument]) == []


@pytest.mark.parametrize("argument", ["a b", "a=$(reboot)", "a=`x`", 'a="b"', "a=\\", "", "=on", "a=b\n"])
def test_what_a_shell_or_grub_would_take_apart_is_no_argument(argument):
    assert cmdline.invalid([argument]) == [argument]


@pytest.mark.parametrize(
    ("foreign", "wanted", "expected"),
    [
        (["quiet", "intel_iommu=off"], ["intel_iommu=on"], [("intel_iommu=off", "intel_iommu=on")]),
        (["intel-iommu=off"], ["intel_iommu=on"], [("intel-iommu=off", "intel_iommu=on")]),
        (["intel_iommu=on"], ["intel_iommu=on"], []),
        (["console=tty0"], ["console=ttyS0"], []),
        (["iommu.strict=1"], ["iommu=pt"], []),
    ],
)
def test_conflicts(foreign, wanted, expected):
    assert cmdline.conflicts(foreign, wanted) == expected


def test_only_usual_entries_that_grub_made_are_compared():
    menu = """
linux /boot/other root=/dev/sda
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian' {
\tlinux\t/boot/vmlinuz-6.1 root=UUID=1 ro  intel_iommu=on quiet
\tinitrd\t/boot/initrd.img-6.1
}
    linux\t/boot/vmlinuz-6.1 root=UUID=1 ro single
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/40_custom ###
linux /boot/hand-made
### END /etc/grub.d/40_custom ###
"""
    assert cmdline.grub_lines(menu) == [["root=UUID=1", "ro", "intel_iommu=on", "quiet"]]
    assert cmdline.grub_lines("") == []


def test_an_entry_of_systemd_boot():
    entry = "# Boot Loader Specification type#1 entry\ntitle Debian\noptions    root=UUID=1 ro \nlinux /x/linux\noptions quiet\n"
    assert cmdline.entry_arguments(entry) == ["root=UUID=1", "ro", "quiet"]
