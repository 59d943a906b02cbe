"""A host's life with PCI passthrough, in this order: refused, interrupted, finished, used, rebooted, given back.

Then a host without an IOMMU. Each run costs a minute, so one shows as much as it can.
"""

from __future__ import annotations

import os
import signal
import subprocess

from local import ROOT, changed

OWNS = (
    "playbooks/pci_passthrough.yml",
    "roles/pci_passthrough",
    "plugins/filter/pci_passthrough.py",
    "plugins/filter/vfio.py",
    "plugins/module_utils/_host/kernel_cmdline.py",
    "plugins/module_utils/_passthrough",
    "plugins/modules/iommu_facts.py",
    "plugins/modules/kernel_cmdline.py",
    "plugins/modules/mediated_devices.py",
    "plugins/modules/pci_*.py",
    "plugins/plugin_utils/_passthrough",
    "molecule/pci_passthrough",
    "images/mediated_sample.sh",
    "tests/verify/pci_passthrough/conftest.py",
)

VM = "virtual-host"
CARD, AUDIO, SINGLE = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0"
DIVIDED, VIRTUAL = "0000:05:00.0", ("0000:05:00.1", "0000:05:00.2")
BOOT_DISPLAY, BESIDE_BOOT_DISPLAY, BESIDE_NETWORK_CARD = "0000:03:01.0", "0000:03:02.0", "0000:04:02.0"

# All that the role may change, and whether the kernel was started again.
STATE = r"""
systemctl is-system-running --wait >/dev/null
cat /proc/sys/kernel/random/boot_id
find /boot/grub/grub.cfg /boot/initrd* /etc/default /etc/driverctl.d /etc/udev /etc/initramfs-tools /var/lib/deephdc \
  /var/lib/out-of-service -type f -exec sha256sum {} + 2>/dev/null | sort
grep -H DRIVER= /sys/bus/pci/devices/*/uevent
ls /sys/bus/mdev/devices
find /etc/mdevctl.d 2>/dev/null || true
"""
# A mediated device that the collection did not make.
FOREIGN = "6f1f4d5e-0c57-4f3a-9a55-2d6f6ab4c0de"
MEDIATED = f"ls /sys/bus/mdev/devices | grep -v {FOREIGN}"
# A small virtual machine with both functions of a card, a virtual function, and a mediated device. Its user has nothing but a group;
# its memory may be locked, as the kernel asks for.
NESTED = (
    "prlimit --memlock=unlimited setpriv --reuid nobody --regid {group} --clear-groups "
    "qemu-system-x86_64 -machine q35 -accel tcg -m 64 -nodefaults -display none -vga none "
    "-device vfio-pci,host=01:00.0 -device vfio-pci,host=01:00.1 -device vfio-pci,host=05:00.1 "
    "-device vfio-pci,sysfsdev=/sys/bus/mdev/devices/{mediated} "
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
        pci_passthrough_virtual_functions=[{"device": DIVIDED, "count": 5}, {"device": "0000:04:01.0", "count": 1}],
        pci_passthrough_mediated_devices=[
            {"parent": "mtty", "type": "nvidia-63"},
            {"parent": "mtty", "type": "mtty-2", "count": 13},
            {"parent": SINGLE, "type": "mtty-1"},
        ],
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
        f"{DIVIDED} of {VM} can't have 5 virtual functions: it can have 4.",
        f"0000:04:01.0 of {VM} can't have 1 virtual functions: it has no SR-IOV",
        "no mediated devices of type nvidia-63; it has mtty-1 (Single port serial, 24 free), mtty-2 (Dual port serial, 12 free).",
        "can't have 13 mediated devices of type mtty-2: 12 are free and 0 of them are there",
        f"{SINGLE} of this host has no mediated devices: its driver is bochs-drm, which offers none",
    ):
        assert words in said, words
    assert machine.out(VM, STATE) == before
    machine.out(VM, "kill $(cat /tmp/user.pid)")


def test_a_run_that_is_killed_before_the_reboot_is_finished_by_the_next(machine, passthrough):
    def kill(line: str, process: subprocess.Popen[str]) -> None:
        if line.startswith("TASK [") and "pci_passthrough : Reboot the host" in line:
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
    assert machine.drivers(CARD, AUDIO, SINGLE, *VIRTUAL) == ["vfio-pci"] * 5
    assert machine.drivers(DIVIDED) == ["nvme"]
    arguments = machine.out(VM, "cat /proc/cmdline").split()
    assert {"intel_iommu=on", "iommu=pt", "console=ttyS0"} <= set(arguments)
    assert "DMAR: IOMMU enabled" in machine.out(VM, "dmesg")
    card, audio, *others = machine.groups(CARD, AUDIO, SINGLE, *VIRTUAL)
    assert card == audio and len({card, *others}) == 4
    for group in (card, *others):
        assert machine.out(VM, f"stat -c '%U %G %a' /dev/vfio/{group}") == "root kvm 660"
    for device in mediated(machine):
        path = f"/sys/bus/mdev/devices/{device}"
        assert machine.out(VM, f"cat {path}/mdev_type/name") == "Dual port serial"
        assert machine.out(VM, f"stat -c '%U %G %a' /dev/vfio/$(basename $(readlink {path}/iommu_group))") == "root kvm 660"


def mediated(machine):
    """What the role made; udev may still be at it after a reboot."""
    machine.until(VM, f"{MEDIATED} | wc -l", "2", seconds=240)
    return machine.out(VM, f"udevadm settle; {MEDIATED}").split()


def test_the_devices_are_ready(machine):
    ready(machine)
    assert machine.drivers(BOOT_DISPLAY, BESIDE_BOOT_DISPLAY, BESIDE_NETWORK_CARD) == ["bochs-drm"] * 3
    # mdevctl knows them, and one more that is not the role's.
    machine.out(VM, f"mdevctl define --auto -u {FOREIGN} -p mtty -t mtty-1 && mdevctl start -u {FOREIGN} -p mtty")
    assert sorted(line.split()[0] for line in machine.out(VM, "mdevctl list -d").splitlines()) == sorted([FOREIGN, *mediated(machine)])


def test_a_virtual_machine_gets_its_devices_and_keeps_them(machine, passthrough):
    device, _other = mediated(machine)
    assert "Permission denied" in machine.run(VM, NESTED.format(group="nogroup", mediated=device)).stdout
    machine.out(VM, NESTED.format(group="kvm", mediated=device))
    # Its firmware has seen the display controller and given its memory a place.
    said = machine.until(VM, ASK_NESTED, "BAR0: 32 bit prefetchable memory at 0x", seconds=240)
    assert "PCI device 1234:1111" in said and "PCI device 8086:2668" in said and "PCI device 1b36:0010" in said, said
    assert "PCI device 4348:3253" in said, said
    refused = machine.module("pci_virtual_functions", "", check=True)
    assert f"the virtual functions of {DIVIDED} can't change: {VIRTUAL[0]} is one of those" in refused, refused
    refused = machine.module("pci_driver_override", "driver=vfio-pci", check=True)
    assert f"{CARD} can't be given back: qemu-system-x86 (process" in refused, refused
    # All that leaves is looked at before anything is changed, the kernel's arguments included.
    before = machine.out(VM, STATE)
    said = passthrough(pci_passthrough_state="absent", succeeds=False)
    assert f"Mediated device {device} of mtty can't be removed: qemu-system-x86 (process" in " ".join(said.split())
    assert changed(said) == [] and machine.out(VM, STATE) == before
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
    assert machine.out(VM, f"cat /sys/bus/pci/devices/{DIVIDED}/sriov_numvfs") == "0"
    # The device that the collection did not make is there, also after the reboot; nothing else.
    assert {line.split()[0] for line in machine.out(VM, "mdevctl list; mdevctl list -d").splitlines() if line} == {FOREIGN}
    machine.out(VM, f"mdevctl stop -u {FOREIGN}; mdevctl undefine -u {FOREIGN}")
    left = machine.out(
        VM,
        "find /etc /var/lib/deephdc -name 'pci-*' -o -name '*pci*passthrough*' -o -name '71-deephdc*' -o ! -type d -path '*/deephdc/*'",
    )
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
