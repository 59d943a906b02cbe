"""Devices with virtual machines: after the first run, a second one and one more reboot, and given back. In this order."""

from __future__ import annotations

import time

from local import changed

VM = "virtual-host"
CARD, AUDIO, SINGLE = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0"
# QEMU with the devices, as a user who has nothing but the group of emulators; its memory is small and locked, as the kernel asks for.
NESTED = (
    "(sleep 15; echo info pci; sleep 3; echo quit) | timeout 120 setpriv --reuid 65534 --regid {group} --clear-groups "
    "prlimit --memlock=unlimited qemu-system-x86_64 -machine q35 -accel tcg -m 64 -nodefaults -display none -vga none -monitor stdio "
    "-device vfio-pci,host=01:00.0 -device vfio-pci,host=01:00.1 2>&1"
)


def group_of(machine, address):
    return machine.out(VM, f"basename $(readlink /sys/bus/pci/devices/{address}/iommu_group)")


def test_all_functions_are_reserved(machine):
    assert {machine.driver(address) for address in (CARD, AUDIO, SINGLE)} == {"vfio-pci"}
    assert group_of(machine, CARD) == group_of(machine, AUDIO) != group_of(machine, SINGLE)


def test_the_kernel_was_started_with_the_arguments_and_all_others(machine):
    arguments = machine.out(VM, "cat /proc/cmdline").split()
    assert {"intel_iommu=on", "iommu=pt", "console=ttyS0"} <= set(arguments)
    assert "DMAR: IOMMU enabled" in machine.out(VM, "dmesg")


def test_the_emulators_group_may_open_them(machine):
    for address in (CARD, SINGLE):
        assert machine.out(VM, f"stat -c '%U %G %a' /dev/vfio/{group_of(machine, address)}") == "root kvm 660"


def test_a_virtual_machine_gets_both_functions(machine):
    said = machine.run(VM, NESTED.format(group="kvm")).stdout
    assert "PCI device 1234:1111" in said and "PCI device 8086:2668" in said, said
    refused = machine.run(VM, NESTED.format(group="nogroup")).stdout
    assert "Permission denied" in refused, refused


def test_a_second_run_changes_nothing(machine, passthrough):
    before = machine.boot()
    assert changed(passthrough()) == []
    assert machine.boot() == before


def test_after_one_more_reboot_all_is_as_before(machine):
    before = machine.boot()
    machine.run(VM, "systemctl reboot")
    deadline = time.monotonic() + 600
    while machine.run(VM, "true").returncode != 0 or machine.boot() == before:
        assert time.monotonic() < deadline, "the machine does not come back"
        time.sleep(3)
    test_all_functions_are_reserved(machine)
    test_the_emulators_group_may_open_them(machine)


def test_given_back_without_a_reboot(machine, passthrough):
    before = machine.boot()
    passthrough(pci_passthrough_state="absent")
    assert (machine.driver(CARD), machine.driver(AUDIO)) == ("bochs-drm", "snd_hda_intel")
    assert machine.out(VM, "ls /etc/driverctl.d") == ""
    assert "intel_iommu" not in machine.out(VM, "cat /boot/grub/grub.cfg /etc/default/grub.d/*.cfg 2>/dev/null || true")
    assert changed(passthrough(pci_passthrough_state="absent")) == []
    assert machine.boot() == before
