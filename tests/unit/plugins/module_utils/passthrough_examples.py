# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated server with an IOMMU, for the tests of PCI passthrough: what it has beside its GPUs is written into the tree by hand."""

from __future__ import annotations

KERNEL = "6.1.0-37-amd64"

A100 = {"type": "a100", "pci_address": "0000:41:00.0", "iommu_group": 20}
RTX = {"type": "rtx3090", "pci_address": "0000:0c:00.0", "iommu_group": 15}
RTX_AUDIO = {
    "type": "audio", "pci_address": "0000:0c:00.1", "vendor_id": "10de", "device_id": "1aef", "class": "040300",
    "iommu_group": 15, "driver": "snd_hda_intel",
}  # fmt: skip
BRIDGE = {
    "type": "bridge", "pci_address": "0000:0b:01.0", "vendor_id": "8086", "device_id": "2030", "class": "060400",
    "iommu_group": 15, "driver": "pcieport",
}  # fmt: skip
ASPEED = {
    "type": "aspeed", "pci_address": "0000:03:00.0", "vendor_id": "1a03", "device_id": "2000", "class": "030000", "boot_vga": True,
    "driver": "ast", "iommu_group": 5,
}  # fmt: skip
CARD = {
    "type": "card", "pci_address": "0000:05:00.0", "vendor_id": "8086", "device_id": "1521", "class": "020000", "iommu_group": 6,
    "driver": "igb",
}  # fmt: skip
SECOND_CARD = {**CARD, "pci_address": "0000:06:00.0", "iommu_group": 7}


def set_up(root, uplink="eno1", arguments="ro quiet", cards=("eno1",)):
    """What a server with Intel's IOMMU has: firmware table, kernel with vfio-pci, network interfaces with a default route."""
    root.write("sys/firmware/acpi/tables/DMAR", "")
    root.write("sys/class/iommu/dmar0/uevent", "")
    root.write("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz root=UUID=1 {arguments}\n")
    root.write(f"lib/modules/{KERNEL}/modules.dep", "kernel/drivers/vfio/pci/vfio-pci.ko: kernel/drivers/vfio/vfio.ko\n")
    route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    root.write("proc/net/route", f"{route}{uplink}\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    for address, name in zip(("0000:05:00.0", "0000:06:00.0"), cards):
        device = root.path / f"sys/bus/pci/devices/{address}"
        (device / "net" / name).mkdir(parents=True)
        (device / "net" / name / "device").symlink_to("../..")
        (root.path / "sys/class/net").mkdir(parents=True, exist_ok=True)
        (root.path / "sys/class/net" / name).symlink_to((device / "net" / name).resolve())
    return root


FLEX = {"type": "flex170", "pci_address": "0000:4d:00.0", "iommu_group": 30, "sriov_total_vfs": 31}


def virtual_function(number, group=31, driver=""):
    """A virtual function of FLEX, as the kernel makes it without a driver."""
    return {
        "type": "flex170", "pci_address": f"0000:4d:00.{number}", "iommu_group": group, "physfn": "0000:4d:00.0", "driver": driver,
    }  # fmt: skip
