# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module gpu_simulator and what its role says of it."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml
from ansible.module_utils import basic
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.host import SimulatedHost
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.tree import CATALOGUE
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_simulator

ROLE = pathlib.Path(__file__).parents[4] / "roles" / "gpu_simulator"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the module on a host below tmp_path, whose device nodes are files."""

    class Host(SimulatedHost):
        def __init__(self, root):
            super().__init__(root, str(tmp_path / "system"))

        def node_numbers(self, path):
            return tuple(int(number) for number in pathlib.Path(path).read_text().split(":"))

        def make_node(self, path, major, minor):
            pathlib.Path(path).write_text(f"{major}:{minor}")

    def run_module(*devices, **options):
        arguments = {"devices": list(devices), "root": str(tmp_path / "simulated"), **options}
        monkeypatch.setattr(gpu_simulator, "SimulatedHost", Host)
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        with pytest.raises(SystemExit):
            gpu_simulator.main()
        return json.loads(capsys.readouterr().out)

    return run_module


def test_made_once_and_removed_once(run, tmp_path):
    a100 = {"type": "a100", "count": 2}
    assert run(a100, _ansible_check_mode=True)["changed"] is True
    assert not (tmp_path / "simulated").exists()
    made = run(a100, _ansible_diff=True)
    assert made["changed"] is True and made["device_files"] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert "/dev/nvidia1: character device 120:1" in made["diff"]["after"]
    assert run(a100)["changed"] is False
    assert run(state="absent")["changed"] is True
    assert run(state="absent")["changed"] is False
    assert not (tmp_path / "simulated").exists()


def test_a_host_with_a_real_gpu_is_refused(run, simulate, tmp_path):
    (tmp_path / "system").symlink_to(simulate({"type": "h100", "pci_address": "0000:41:00.0"}).path)
    failed = run({"type": "a100"})
    assert failed["failed"] and failed["msg"] == "gpu_simulator_devices cannot be simulated on this host, it has a real GPU at 0000:41:00.0"
    assert not (tmp_path / "simulated").exists()
    assert run(state="absent")["changed"] is False


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ({"type": "a101"}, "gpu_simulator_devices is wrong: the type a101 is not known"),
        ({"type": "a100", "device_id": "20"}, "gpu_simulator_devices is wrong: the device_id of a100 is '20'"),
        ({"count": 2}, "missing required arguments: type"),
        ({"type": "a100", "colour": "green"}, "Unsupported parameters"),
    ],
)
def test_wrong_devices(run, device, message):
    failed = run(device)
    assert failed["failed"] and message in failed["msg"]


def test_node_that_cannot_be_made(run, monkeypatch, tmp_path):
    (tmp_path / "system").write_text("not a directory")
    failed = run({"type": "a100"})
    assert failed["failed"] and failed["msg"].startswith("gpu_simulator_devices cannot be simulated on this host: ")


def test_devices_are_required_if_present(run):
    assert "devices is empty" in run(devices=None)["msg"]


def test_module_documentation_and_role_agree():
    options = yaml.safe_load(gpu_simulator.DOCUMENTATION)["options"]["devices"]["suboptions"]
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert list(options) == list(gpu_simulator.DEVICE_OPTIONS) == list(specs["gpu_simulator_devices"]["options"])
    for name, option in gpu_simulator.DEVICE_OPTIONS.items():
        assert options[name]["type"] == specs["gpu_simulator_devices"]["options"][name]["type"] == option["type"]
    assert all(f"V({type_})" in " ".join(options["type"]["description"]) for type_ in CATALOGUE)
