# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The script that takes devices in the initramfs, on a directory in the place of sysfs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jinja2
import pytest

TEMPLATES = Path(__file__).resolve().parents[4] / "roles/pci_passthrough/templates"
FUNCTIONS = [
    {"address": "0000:0c:00.0", "vendor_id": "10de", "device_id": "2204"},
    {"address": "0000:0c:00.1", "vendor_id": "10de", "device_id": "1aef"},
    {"address": "0000:41:00.0", "vendor_id": "10de", "device_id": "20b2"},
]


@pytest.fixture
def take(tmp_path):
    """take(prereqs=...) runs the script.

    The second card has become another device, the third is gone.
    """
    sysfs = tmp_path / "sys/bus/pci"
    for address, ids in (("0000:0c:00.0", "2204"), ("0000:0c:00.1", "ffff")):
        device = sysfs / "devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "device").write_text(f"0x{ids}\n")
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    text = environment.from_string((TEMPLATES / "early.sh.j2").read_text()).render(__pci_passthrough_plan={"functions": FUNCTIONS})
    script = tmp_path / "early"
    script.write_text(text.replace("/sys/bus/pci", str(sysfs)))
    modprobe = tmp_path / "bin/modprobe"
    modprobe.parent.mkdir()
    modprobe.write_text(f"#!/bin/sh\necho $* >>{tmp_path}/loaded\n")
    modprobe.chmod(0o755)

    def run(*arguments):
        subprocess.run(["/bin/sh", str(script), *arguments], check=False, env={"PATH": str(modprobe.parent)}, capture_output=True)
        return {str(file.relative_to(sysfs)): file.read_text() for file in sysfs.rglob("dri*") if file.is_file()}

    return run


def test_only_what_is_still_the_same_device_is_taken(take, tmp_path):
    assert take() == {"devices/0000:0c:00.0/driver_override": "vfio-pci\n", "drivers_probe": "0000:0c:00.0\n"}
    assert (tmp_path / "loaded").read_text() == "-q vfio-pci\n"


def test_another_driver_lets_go_first(take, tmp_path):
    (tmp_path / "sys/bus/pci/devices/0000:0c:00.0/driver").mkdir()
    take()
    assert (tmp_path / "sys/bus/pci/devices/0000:0c:00.0/driver/unbind").read_text() == "0000:0c:00.0\n"


@pytest.mark.parametrize("name", ["early.sh.j2", "early_hook.sh.j2"])
def test_asked_for_what_must_run_before_it_does_nothing(take, tmp_path, name):
    """initramfs-tools runs each script with this argument on the host that makes the initramfs."""
    assert take("prereqs") == {} and not (tmp_path / "loaded").exists()
    text = (TEMPLATES / name).read_text().split("{%")[0]
    done = subprocess.run(["sh", "-c", text.replace("exit 0", "exit 7"), "script", "prereqs"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "")
