"""A host's life with PCI passthrough, in this order: refused, interrupted, finished, used, rebooted, given back.

Then a host without an IOMMU. Each run costs a minute, so one shows as much as it can.
"""

from __future__ import annotations

import os
import signal
import subprocess

from local import ROOT, changed

VM = "virtual-host"
CARD, AUDIO, SINGLE = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0"
BOOT_DISPLAY, BESIDE_BOOT_DISPLAY, BESIDE_NETWORK_CARD = "0000:03:01.0", "0000:03:02.0", "0000:04:02.0"

# All that the role may change, and whether the kernel was started anew.
STATE = r"""
systemctl is-system-running --wait >/dev/null
cat /proc/sys/kernel/random/boot_id
find /boot/grub/grub.cfg /boot/initrd* /etc/default /etc/driverctl.d /etc/udev /etc/initramfs-tools /var/lib/deephdc \
  /var/lib/out-of-service -type f -exec sha256sum {} + 2>/dev/null | sort
grep -H DRIVER= /sys/bus/pci/devices/*/uevent
"""
# A small virtual machine with both functions of a card. Its user has nothing but a group; its memory may be locked, as the kernel asks for.
NESTED = (
    "prlimit --memlock=unlimited setpriv --reuid nobody --regid {group} --clear-groups "
    "qemu-system-x86_64 -machine q35 -accel tcg -m 64 -nodefaults -display none -vga none "
    "-device vfio-pci,host=01:00.0 -device vfio-pci,host=01:00.1 "
    "-monitor unix:/tmp/nested,server,nowait -pidfile /tmp/nested.pid -daemonize 2>&1"
)
ASK_NESTED = """python3 -c '
import socket
monitor = socket.socket(socket.AF_UNIX)
monitor.connect("/tmp/nested")
monitor.sendall(b"info pci\\n")
said = b""
while said.count(b"(qemu) ") < 2:
    said += monitor.recv(65536)
print(said.decode())
'"""


def test_refused_with_the_reasons_before_anything_is_changed(machine, passthrough):
    """Each reason in one run: they are all said at once."""
    machine.out(VM, f"nohup sleep 1000 </dev/dri/by-path/pci-{SINGLE}-card >/dev/null 2>&1 & echo $! >/tmp/user.pid")
    before = machine.out(VM, STATE)
    said = passthrough(
        pci_passthrough_devices=["h100", CARD, SINGLE, BESIDE_BOOT_DISPLAY, BESIDE_NETWORK_CARD, "0000:04:01.0"],
        pci_passthrough_console=[SINGLE, BESIDE_BOOT_DISPLAY, BESIDE_NETWORK_CARD],
        succeeds=False,
    )
    said = " ".join(said.split())
    for words in (
        "asks for h100, which the host does not have",
        f"asks for {CARD}, which is console graphics and stays with the host",
        f"{SINGLE} is in use: sleep (process {machine.out(VM, 'cat /tmp/user.pid')}) has /dev/dri/card",
        f"has {BOOT_DISPLAY} too, the display that the host started with",
        "has 0000:04:01.0 too, the host's only network card",
        "asks for 0000:04:01.0, which is no accelerator but a device of class 020000",
    ):
        assert words in said, words
    assert machine.out(VM, STATE) == before
    machine.out(VM, "kill $(cat /tmp/user.pid)")


def test_a_run_that_is_killed_before_the_reboot_is_finished_by_the_next(machine, passthrough):
    def kill(line: str, process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [") and "It is out of service" in line:
            os.killpg(process.pid, signal.SIGKILL)

    before = machine.boot()
    code, output = machine.watched_playbook("playbooks/pci_passthrough.yml", kill)
    assert code == -signal.SIGKILL, output[-3000:]
    assert machine.boot() == before
    assert "intel_iommu=on iommu=pt" in machine.out(VM, "cat /boot/grub/grub.cfg")
    assert "intel_iommu=on" not in machine.out(VM, "cat /proc/cmdline")
    assert machine.drivers(CARD, AUDIO, SINGLE) == ["bochs-drm", "snd_hda_intel", "bochs-drm"]
    assert machine.run(VM, "test -e /var/lib/out-of-service").returncode == 0

    passthrough()
    assert machine.boot() != before
    assert machine.run(VM, "test -e /var/lib/out-of-service").returncode != 0


def ready(machine):
    assert machine.drivers(CARD, AUDIO, SINGLE) == ["vfio-pci"] * 3
    arguments = machine.out(VM, "cat /proc/cmdline").split()
    assert {"intel_iommu=on", "iommu=pt", "console=ttyS0"} <= set(arguments)
    assert "DMAR: IOMMU enabled" in machine.out(VM, "dmesg")
    card, audio, single = machine.groups(CARD, AUDIO, SINGLE)
    assert card == audio != single
    for group in (card, single):
        assert machine.out(VM, f"stat -c '%U %G %a' /dev/vfio/{group}") == "root kvm 660"


def test_the_devices_are_ready(machine):
    ready(machine)
    assert machine.drivers(BOOT_DISPLAY, BESIDE_BOOT_DISPLAY, BESIDE_NETWORK_CARD) == ["bochs-drm"] * 3


def test_a_virtual_machine_gets_both_functions_and_keeps_them(machine):
    assert "Permission denied" in machine.run(VM, NESTED.format(group="nogroup")).stdout
    machine.out(VM, NESTED.format(group="kvm"))
    # Its firmware has seen the display controller and given its memory a place.
    said = machine.until(VM, ASK_NESTED, "BAR0: 32 bit prefetchable memory at 0x", seconds=240)
    assert "PCI device 1234:1111" in said and "PCI device 8086:2668" in said, said
    refused = machine.module("pci_driver_override", "driver=vfio-pci", check=True)
    assert f"{CARD} can't be given back: qemu-system-x86 (process" in refused, refused
    machine.out(VM, "pid=$(cat /tmp/nested.pid); kill $pid; while [ -e /proc/$pid ]; do sleep 0.1; done")


def test_a_second_run_changes_nothing(machine, passthrough):
    before = machine.out(VM, STATE)
    assert changed(passthrough()) == []
    assert machine.out(VM, STATE) == before


def test_after_one_more_reboot_all_is_as_before(machine):
    machine.reboot()
    ready(machine)


def test_given_back_without_a_reboot(machine, passthrough):
    before = machine.boot()
    said = passthrough(pci_passthrough_state="absent")
    assert f"-{CARD} vfio-pci" in said
    assert any(line.startswith("-") and line.endswith("intel_iommu=on iommu=pt quiet") for line in said.splitlines()), said
    assert machine.drivers(CARD, AUDIO, SINGLE) == ["bochs-drm", "snd_hda_intel", "bochs-drm"]
    left = machine.out(VM, "find /etc /var/lib/deephdc -name 'pci-*' -o -name '*pci*passthrough*' -o -path '*/deephdc/*'")
    assert left == ""
    assert "intel_iommu" not in machine.out(VM, "cat /boot/grub/grub.cfg")
    assert changed(passthrough(pci_passthrough_state="absent")) == []
    assert machine.boot() == before


def test_refused_where_there_is_no_iommu(machine, passthrough):
    directory = f"{machine.directory}-without-iommu"
    host = [str(ROOT / "scripts/virtual-host")]
    subprocess.run([*host, "start", directory, machine.release, "--no-iommu"], check=True)
    try:
        # Another name, or Ansible would take the connection that it has already.
        said = passthrough(local_machine=directory, ansible_host=f"{VM}-without-iommu", succeeds=False)
    finally:
        subprocess.run([*host, "stop", directory], check=True)
    assert f"{VM} has no IOMMU: its firmware has neither a DMAR table (Intel) nor an IVRS table (AMD)" in " ".join(said.split())
    assert changed(said) == []
