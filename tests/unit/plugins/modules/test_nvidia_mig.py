# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module nvidia_mig on two simulated A100, with the stand-in for nvidia-smi that keeps their instances."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.plugins.modules import nvidia_mig

# What names alone would not show: scripts/narrow.py.
READS = ("tests/stand_ins/nvidia-smi-mig",)

STAND_IN = pathlib.Path(__file__).parents[3] / "stand_ins/nvidia-smi-mig"
FIRST, SECOND = "00000000:01:00.0", "00000000:02:00.0"
IDLE = {"current": "Disabled", "pending": "Disabled", "persistence": "Disabled", "instances": [], "processes": [], "resets": True}
SEVEN = [{"devices": ["a100"], "instances": {"1g.10gb": 7}}]


class Host:
    """The module on the host; gpus() is what nvidia-smi has."""

    def __init__(self, root, run, directory):
        self.root, self.run, self.program = root, run, directory / "nvidia-smi"
        shutil.copy(STAND_IN, self.program)
        self.put()

    def put(self, **changes):
        pathlib.Path(f"{self.program}.json").write_text(json.dumps({FIRST: {**IDLE, **changes}, SECOND: dict(IDLE)}))

    def gpus(self):
        return json.loads(pathlib.Path(f"{self.program}.json").read_text())

    def there(self, address=FIRST):
        return sorted(entry[1] for entry in self.gpus()[address]["instances"])

    def told(self):
        """Calls that change something."""
        log = pathlib.Path(f"{self.program}.calls")
        calls = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [call for call in calls if any(f" {word}" in call for word in ("-mig ", "-cgi", "-dci", "-dgi", "-pm", "--gpu-reset"))]

    def __call__(self, layouts, **options):
        return self.run(nvidia_mig, layouts=layouts, root=str(self.root), **options)


@pytest.fixture
def resets(monkeypatch):
    """GPUs whose reset was noted; the machine's own log of the kernel has none of it."""
    noted = []
    monkeypatch.setattr(nvidia_mig.kernel_log, "note_reset", noted.append)
    return noted


@pytest.fixture
def host(run, simulate, fake, tmp_path, monkeypatch, resets):
    monkeypatch.setattr(iommu, "opened_devices", lambda root="/": [])
    monkeypatch.setattr(nvidia_mig, "NOTE", str(tmp_path / "noted/mig_changed"))
    return Host(simulate({"type": "a100", "count": 2}), run, tmp_path / "fake_commands")


def test_all_get_the_layout_once(host):
    predicted = host(SEVEN, _ansible_check_mode=True)
    assert predicted["changed"] and host.told() == []
    assert predicted["diff"]["after"] == "0000:01:00.0 (a100): 7 of 1g.10gb\n0000:02:00.0 (a100): 7 of 1g.10gb\n"
    done = host(SEVEN)
    assert done["changed"] and not done["reboot_needed"] and done["diff"] == predicted["diff"]
    assert host.there() == host.there(SECOND) == ["1g.10gb"] * 7
    assert done["gpus"][1] == {"pci_address": "0000:02:00.0", "bus_id": SECOND, "enabled": True, "instances": ["1g.10gb"] * 7}
    host.told()
    assert not host(SEVEN)["changed"] and host.told() == []


def test_another_layout_and_off(host):
    host(SEVEN)
    host.told()
    mixed = [{"devices": ["0000:01:00.0"], "instances": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}]
    assert host(mixed)["changed"]
    assert host.told() == [f"mig -i {FIRST} -dci", f"mig -i {FIRST} -dgi", f"mig -i {FIRST} -cgi 3g.40gb,2g.20gb,1g.10gb,1g.10gb -C"]
    assert host.there(SECOND) == ["1g.10gb"] * 7
    off = [{"devices": ["01:00.0"], "enabled": False}]
    assert host(off)["changed"] and host.gpus()[FIRST] == IDLE
    assert not host(off)["changed"]


def test_a_gpu_in_use_keeps_all_as_they_are(host, monkeypatch):
    opened = [
        iommu.Opened("nvidia-persiste (process 7)", "/dev/nvidia0", "195:0"),
        iommu.Opened("python3 (process 9)", "/dev/nvidia1", "195:1"),
    ]
    monkeypatch.setattr(iommu, "opened_devices", lambda root="/": opened)
    said = host(SEVEN)
    assert said["failed"] and host.told() == []
    assert said["msg"] == (
        "0000:02:00.0 (a100) keeps its MIG layout, as it is in use: python3 (process 9) has /dev/nvidia1 open. End that first."
    )
    # It does not matter where nothing must be changed.
    opened.pop()
    host(SEVEN)
    opened.append(iommu.Opened("python3 (process 9)", "/dev/nvidia1", "195:1"))
    assert not host(SEVEN)["changed"]


def test_a_process_that_only_nvidia_smi_sees(host):
    host.put(processes=[[4711, "/usr/bin/python3"]])
    assert "0000:01:00.0 (a100) keeps its MIG layout, as it is in use: python3 (process 4711) computes on it." in host(SEVEN)["msg"]


def test_everything_is_checked_before_anything_is_changed(host):
    layouts = [{"devices": ["01:00.0"], "instances": {"1g.10gb": 7}}, {"devices": ["02:00.0"], "instances": {"1g.10gb": 8, "9g.90gb": 1}}]
    assert "0000:02:00.0 (a100) has no MIG profile 9g.90gb" in host(layouts)["msg"]
    host.put(current="[N/A]", pending="[N/A]")
    assert host(SEVEN)["msg"] == "0000:01:00.0 (a100) has no MIG: take it out of nvidia_driver_mig."
    assert host.told() == []


def test_persistence_gives_way_to_a_reset(host):
    host.put(persistence="Enabled")
    assert host(SEVEN)["reboot_needed"] is False
    assert host.told()[:4] == [f"-i {FIRST} -mig 1", f"-i {FIRST} -pm 0", f"-i {FIRST} --gpu-reset", f"-i {FIRST} -pm 1"]
    assert host.there() == ["1g.10gb"] * 7 and host.gpus()[FIRST]["persistence"] == "Enabled"


def test_where_no_reset_helps_a_reboot_is_needed(host):
    host.put(resets=False)
    only = [{"devices": ["01:00.0"], "instances": {"1g.10gb": 7}}]
    said = host(only)
    assert said["changed"] and said["reboot_needed"] and host.there() == []
    assert said["pending"] == [
        f"0000:01:00.0 (a100): MIG is on from the next boot on; nvidia-smi says: Resetting GPU {FIRST} is not supported."
    ]
    assert said["gpus"][0]["instances"] == ["1g.10gb"] * 7
    again = host(only)
    assert not again["changed"] and again["reboot_needed"]
    assert not host(only, _ansible_check_mode=True)["changed"]


def test_gpus_behind_nvswitches_are_not_reset(host):
    host.root.write("sys/bus/pci/devices/0000:c1:00.0/vendor", "0x10de\n")
    host.root.write("sys/bus/pci/devices/0000:c1:00.0/class", "0x068000\n")
    host.put(persistence="Enabled")
    assert host(SEVEN)["reboot_needed"] and not any("reset" in call for call in host.told())


def test_gpus_on_boards_without_bridges_are_not_reset(host, resets):
    host.root.write("sys/bus/pci/devices/0000:c1:00.0/vendor", "0x15b3\n")
    host.root.write("sys/bus/pci/devices/0000:c1:00.0/class", "0x020700\n")
    host.root.write("sys/bus/pci/devices/0000:c1:00.0/vpd", "SMDL=SW_MNG")
    host.put(persistence="Enabled")
    assert host(SEVEN)["reboot_needed"] and not any("reset" in call for call in host.told()) and resets == []


def test_a_reset_is_noted(host, resets):
    host.put(persistence="Enabled")
    assert not host(SEVEN)["reboot_needed"] and resets[0] == "0000:01:00.0"


def test_a_layout_that_the_driver_refuses_gives_way_to_the_former(host):
    only = [{"devices": ["01:00.0"], "instances": {"3g.40gb": 2}}]
    host(only)
    state = host.gpus()[FIRST]
    host.put(**{**state, "refuses": "1g.10gb"})
    said = host(SEVEN)["msg"]
    assert (
        "0000:01:00.0 (a100) did not get its MIG layout: nvidia-smi mig -i 00000000:01:00.0 -cgi 1g.10gb" in said
        and "Insufficient Resources" in said
    )
    assert "It has its former instances: 2 of 3g.40gb." in said and host.there() == ["3g.40gb", "3g.40gb"]


def test_mig_is_off_again_where_it_was_off_before_a_layout_that_the_driver_refuses(host):
    host.put(refuses="1g.10gb")
    assert "MIG is off there again." in host(SEVEN)["msg"]
    assert {**host.gpus()[FIRST], "refuses": None} == {**IDLE, "refuses": None}


def test_what_was_inside_of_former_instances_is_told_as_lost(host):
    host([{"devices": ["01:00.0"], "instances": {"3g.40gb": 2}}])
    state = host.gpus()[FIRST]
    state["instances"][0][3] = False
    host.put(**{**state, "refuses": "1g.10gb"})
    assert "It has its former instances: 2 of 3g.40gb. Not so what was inside of them: 3g.40gb (no compute instance)." in host(SEVEN)["msg"]


def test_what_the_next_boot_would_take_away_is_kept_without_disturbing_anybody(host):
    """MIG was turned off by hand, which waits for a reset or a boot."""
    only = [{"devices": ["01:00.0"], "instances": {"1g.10gb": 7}}]
    host(only)
    host.put(**{**host.gpus()[FIRST], "pending": "Disabled", "processes": [[4711, "python3"]]})
    host.told()
    assert host(only)["changed"]
    assert host.told() == [f"-i {FIRST} -mig 1"] and host.there() == ["1g.10gb"] * 7
    assert not host(only)["changed"]


def test_a_change_is_noted_before_it_is_made(host):
    assert not os.path.exists(nvidia_mig.NOTE)
    host(SEVEN, _ansible_check_mode=True)
    assert not os.path.exists(nvidia_mig.NOTE)
    host.put(refuses="1g.10gb")
    assert host(SEVEN)["failed"] and os.path.exists(nvidia_mig.NOTE)


def test_an_instance_without_compute_instance_is_not_taken_for_whole(host):
    host(SEVEN)
    state = host.gpus()[FIRST]
    state["instances"][0][3] = False
    host.put(**state)
    assert host([{"devices": ["01:00.0"], "instances": {"1g.10gb": 7}}])["changed"]
    assert all(entry[3] for entry in host.gpus()[FIRST]["instances"])


def test_without_the_driver_the_check_predicts(host):
    host.program.unlink()
    assert host(SEVEN, _ansible_check_mode=True)["changed"]
    assert host(SEVEN)["msg"] == "nvidia-smi is not there: NVIDIA's driver has to be installed first."


def test_a_driver_that_hangs_is_named(host, monkeypatch):
    monkeypatch.setattr(nvidia_mig, "PATIENCE", 0.2)
    host.program.write_text("#!/bin/sh\nsleep 60\n")
    said = host(SEVEN)["msg"]
    assert said.startswith(
        "nvidia-smi --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending --format=csv,noheader did not end within 0.2 s"
    )
