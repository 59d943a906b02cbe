"""What is refused, with the reason, before anything is changed."""

from __future__ import annotations

import pytest

VM = "virtual-host"
STATE = "cat /proc/sys/kernel/random/boot_id; find /etc/driverctl.d /etc/default /boot/grub/grub.cfg -type f -exec sha256sum {} +"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"pci_passthrough_devices": ["h100"]}, "asks for h100, which the host does not have"),
        ({"pci_passthrough_devices": ["0000:02:00.0"], "pci_passthrough_console": []}, "console graphics and stays with the host"),
        ({"pci_passthrough_devices": ["0000:03:02.0"]}, "the display that the host started with"),
        ({"pci_passthrough_devices": ["0000:04:02.0"]}, "the host's only network card"),
    ],
)
def test_refused(machine, passthrough, variables, words):
    before = machine.out(VM, STATE)
    assert words in " ".join(passthrough(succeeds=False, **variables).split())
    assert machine.out(VM, STATE) == before
