# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The file of a compute host's GPUs: what it offers, and what becomes of a lost GPU."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.compute_gpus import inventory
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu

ROLE = Path(__file__).resolve().parents[4] / "roles/nova_lxd"
CARDS = [{"pci_address": "0000:01:00.0", "nvidia": {"card_name": "nvidia0"}}, {"pci_address": "0000:02:00.0", "drm": {"id": 1}}]


def text(result: dict[str, t.Any]) -> str:
    """The file as the role writes it."""
    return json.dumps(result["inventory"], sort_keys=True, indent=4) + "\n"


def entries(result: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {entry["id"]: entry for entry in result["inventory"]["devices"]}


def test_lxd_gives_a_card_as_a_gpu_and_other_devices_as_their_files() -> None:
    amd = gpu(2, vendor="amd", type="mi250", driver="amdgpu", device_files=["/dev/dri/renderD128", "/dev/kfd"])
    found = entries(inventory([gpu(0), gpu(1), gpu(3), amd], cards=CARDS, nvidia_runtime=True))
    assert found["0000:01:00.0"]["lxd"] == {"type": "gpu", "gputype": "physical", "pci": "0000:01:00.0"}
    assert found["0000:02:00.0"]["lxd"]["type"] == "gpu"
    assert found["0000:04:00.0"]["lxd"] == {"type": "unix-char", "source": "/dev/nvidia3", "path": "/dev/nvidia3", "mode": "0666"}
    assert [part["path"] for part in found["0000:03:00.0"]["lxd"]] == ["/dev/dri/renderD128", "/dev/kfd"]
    assert [found[key]["nvidia_runtime"] for key in sorted(found)] == [True, True, False, False]


def test_a_card_without_files_is_none_that_lxd_gives() -> None:
    found = entries(inventory([gpu(0)], cards=[{"pci_address": "0000:01:00.0", "nvidia": None, "drm": None}]))
    assert found["0000:01:00.0"]["lxd"]["type"] == "unix-char"


def test_the_kernels_folder_of_a_device_is_among_its_paths() -> None:
    assert entries(inventory([gpu(0)]))["0000:01:00.0"]["paths"] == ["/dev/nvidia0", "/sys/bus/pci/devices/0000:01:00.0"]
    assert entries(inventory([gpu(0)], root="/srv/sim"))["0000:01:00.0"]["paths"][1] == "/srv/sim/sys/bus/pci/devices/0000:01:00.0"


def test_a_second_run_changes_nothing() -> None:
    first = inventory([gpu(0), mig_gpu(1, ["1g.10gb"])], cards=CARDS)
    assert first["lost"] == []
    assert inventory([gpu(0), mig_gpu(1, ["1g.10gb"])], recorded=text(first), cards=CARDS) == first


def test_a_lost_gpu_stays_with_its_reason_until_it_is_back_or_accepted() -> None:
    first = inventory([gpu(0), gpu(1)])
    after = inventory([gpu(0)], recorded=text(first), host="lxd1")
    lost = entries(after)["0000:02:00.0"]
    assert lost == {**entries(first)["0000:02:00.0"], "lost": "the host does not have it any more."}
    assert after["lost"] == [
        "lxd1: the GPU 0000:02:00.0 (CUSTOM_GPU_A100) was offered to users and is lost: the host does not have it any more. "
        "Repair it, or name lxd1 in nova_lxd_accept_hardware, then run again."
    ]
    assert inventory([gpu(0)], recorded=text(after), host="lxd1") == after
    assert inventory([gpu(0), gpu(1)], recorded=text(after)) == first
    assert list(entries(inventory([gpu(0)], recorded=text(after), accepted=True))) == ["0000:01:00.0"]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"driver": "vfio-pci"}, "it is bound to vfio-pci, that is reserved for virtual machines."),
        ({"driver": None}, "no kernel driver is bound to it."),
        ({"device_files": []}, "the driver nvidia is bound but there is no device file in /dev."),
        ({"health": [{"problem": "fallen_off_bus", "message": "x"}]}, "it has fallen off the bus, the device does not answer any more."),
    ],
)
def test_a_device_that_users_cant_have_is_lost(now: dict[str, t.Any], said: str) -> None:
    first = inventory([gpu(0)])
    assert entries(inventory([gpu(0, **now)], recorded=text(first)))["0000:01:00.0"]["lost"] == said


def test_a_sick_device_is_lost_but_not_for_its_tool() -> None:
    sick = gpu(0, health=[{"problem": "retired_pages", "message": "its memory has errors"}])
    assert entries(inventory([sick]))["0000:01:00.0"]["lost"] == "its memory has errors."
    slow = gpu(0, health=[{"problem": "nvidia_smi_timeout", "message": "nvidia-smi hangs"}])
    assert "lost" not in entries(inventory([slow]))["0000:01:00.0"]


def test_a_divided_device_loses_what_it_was() -> None:
    after = inventory([mig_gpu(0, ["1g.10gb"])], recorded=text(inventory([gpu(0)])))
    assert entries(after)["0000:01:00.0"]["lost"] == "the device is divided into MIG instances now."
    gone = inventory([mig_gpu(0, ["1g.10gb"])], recorded=text(inventory([mig_gpu(0, ["1g.10gb", "3g.40gb"])])))
    assert [entry.get("lost") for entry in gone["inventory"]["devices"]] == [None, "its MIG instance does not exist any more."]


def test_parts_stay_where_nothing_says_whether_a_device_is_divided() -> None:
    """As when nvidia-smi hangs: the whole GPU must not be offered beside its parts."""
    first = inventory([mig_gpu(0, ["1g.10gb", "3g.40gb"])])
    unknown = gpu(0, mig={"enabled": None, "devices": []})
    assert inventory([unknown], recorded=text(first)) == first


def test_what_is_not_allotted_is_not_offered_and_lost_if_it_was() -> None:
    allotment = {"openstack": {"devices": ["0000:01:00.0"]}, "slurm": {"devices": ["0000:02:00.0"]}}
    first = inventory([gpu(0), gpu(1)])
    assert list(entries(inventory([gpu(0), gpu(1)], allotment=allotment))) == ["0000:01:00.0"]
    after = inventory([gpu(0), gpu(1)], recorded=text(first), allotment=allotment)
    assert "accelerator_allotment" in entries(after)["0000:02:00.0"]["lost"]


@pytest.mark.parametrize("damaged", ["{", "[]", '{"version": 2, "devices": []}', '{"version": 1, "devices": [{"id": "x"}]}'])
def test_a_damaged_file_is_no_empty_one(damaged: str) -> None:
    with pytest.raises(ValueError, match=r"gpus\.json of lxd1 is damaged"):
        inventory([gpu(0)], recorded=damaged, host="lxd1")
    assert inventory([gpu(0)], recorded=damaged, accepted=True)["lost"] == []


def test_the_driver_reads_what_the_role_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROLE / "files"))
    from nova_lxd import devices as driver

    amd = gpu(2, vendor="amd", type="mi250", driver="amdgpu", device_files=["/dev/dri/renderD128", "/dev/kfd"])
    first = inventory([gpu(0), amd, gpu(1)], cards=CARDS[:1])
    (tmp_path / "gpus.json").write_text(text(inventory([gpu(0), amd], recorded=text(first), cards=CARDS[:1])))
    gpus = driver.read(str(tmp_path / "gpus.json"))
    assert list(gpus) == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    assert "does not have it any more" in gpus["0000:02:00.0"].why_lost()
    assert [(name, device["type"]) for name, device in driver.instance_devices(gpus.values()).items()] == [
        ("gpu0", "gpu"),
        ("gpu1", "unix-char"),
        ("gpu2", "unix-char"),
        ("gpu2-1", "unix-char"),
    ]


@pytest.fixture
def program() -> t.Any:
    spec = importlib.util.spec_from_file_location("nova_gpus", ROLE / "files/nova_gpus.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Path, Path]:
    """A device's folder in the kernel's files, and the file of GPUs with two whose files are there."""
    folder = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "config").write_bytes(b"\xde\x10\xb2\x20")
    for name in ("nvidia0", "nvidia1"):
        (tmp_path / name).touch()
    result = inventory([gpu(0, device_files=[str(tmp_path / "nvidia0")])], root=str(tmp_path))
    other = copy.deepcopy(result["inventory"]["devices"][0])
    other.update(id="MIG-7", paths=[str(tmp_path / "nvidia1")])
    result["inventory"]["devices"].append(other)
    path = tmp_path / "gpus.json"
    path.write_text(text(result))
    path.chmod(0o640)
    return folder, path


def test_the_program_notices_a_loss_and_takes_it_back(watched: tuple[Path, Path], program: t.Any) -> None:
    folder, path = watched
    before = path.read_text()
    assert program.main(str(path)) == 0 and path.read_text() == before
    (folder.parents[4] / "nvidia1").unlink()
    program.main(str(path))
    one, two = json.loads(path.read_text())["devices"]
    assert "lost" not in one
    assert (two["lost"], two["noticed"]) == (f"{folder.parents[4] / 'nvidia1'} does not exist on the host.", True)
    assert path.stat().st_mode & 0o777 == 0o640
    (folder.parents[4] / "nvidia1").touch()
    program.main(str(path))
    assert path.read_text() == before
    assert sorted(entry.name for entry in path.parent.glob("gpus.json*")) == ["gpus.json"]


def test_the_program_notices_a_device_that_does_not_answer(watched: tuple[Path, Path], program: t.Any) -> None:
    folder, path = watched
    (folder / "config").write_bytes(b"\xff" * 64)
    program.main(str(path))
    assert "fallen off the bus" in json.loads(path.read_text())["devices"][0]["lost"]


def test_the_program_leaves_the_roles_losses_alone(watched: tuple[Path, Path], program: t.Any) -> None:
    _folder, path = watched
    content = json.loads(path.read_text())
    content["devices"][0]["lost"] = "the host does not have it any more."
    path.write_text(json.dumps(content))
    program.main(str(path))
    assert json.loads(path.read_text()) == content


def test_the_role_takes_a_noticed_loss_over(watched: tuple[Path, Path], program: t.Any) -> None:
    """With a reason of its own, which only the role takes back."""
    folder, path = watched
    (folder / "config").write_bytes(b"\xff" * 64)
    program.main(str(path))
    lost = entries(inventory([], recorded=path.read_text(), root=str(folder.parents[4])))["0000:01:00.0"]
    assert lost["lost"] == "the host does not have it any more." and "noticed" not in lost


def test_the_program_leaves_a_file_that_was_just_replaced(
    watched: tuple[Path, Path], program: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = watched
    (folder.parents[4] / "nvidia1").unlink()
    sync = os.fsync

    def replaced(handle: int) -> None:
        sync(handle)
        path.unlink()
        path.write_text("another")

    monkeypatch.setattr(program.os, "fsync", replaced)
    assert program.main(str(path)) == 0
    assert path.read_text() == "another"
    assert sorted(entry.name for entry in path.parent.glob("gpus.json*")) == ["gpus.json"]


def test_the_program_says_that_a_file_is_damaged(tmp_path: Path, program: t.Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(str(tmp_path / "missing")) == 0
    (tmp_path / "gpus.json").write_text("{")
    assert program.main(str(tmp_path / "gpus.json")) == 1
    assert "can't be read" in capsys.readouterr().err
