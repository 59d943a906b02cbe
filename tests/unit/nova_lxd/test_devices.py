# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The file of GPUs, and GPUs in Placement."""

from __future__ import annotations

import json
import types
import typing as t
import uuid
from pathlib import Path

import pytest
from nova_lxd import devices, providers
from nova_lxd.devices import Gpu
from nova_lxd.errors import InvalidInventory

A100 = {
    "id": "0000:41:00.0",
    "resource_class": "CUSTOM_GPU_A100",
    "traits": ["CUSTOM_GPU_MEMORY_80GB"],
    "lxd": {"type": "gpu", "gputype": "physical", "pci": "0000:41:00.0"},
}
MIG = {
    "id": "MIG-7",
    "resource_class": "CUSTOM_GPU_A100_1G_10GB",
    "lxd": {"type": "gpu", "gputype": "mig", "pci": "0000:42:00.0", "mig.uuid": "MIG-7"},
    "nvidia_runtime": True,
}


def write(path: Path, *entries: t.Any) -> str:
    file = path / "gpus.json"
    file.write_text(json.dumps({"version": 1, "devices": list(entries)}))
    return str(file)


def test_reads_whole_gpus_and_mig_instances(tmp_path: Path) -> None:
    gpus = devices.read(write(tmp_path, A100, MIG))
    assert list(gpus) == ["0000:41:00.0", "MIG-7"]
    assert devices.instance_devices(gpus.values()) == {"gpu0": A100["lxd"], "gpu1": MIG["lxd"]}


def test_a_host_without_the_file_has_no_gpu(tmp_path: Path) -> None:
    assert devices.read(str(tmp_path / "missing")) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ""}, "it has no id"),
        ({"id": "a,b"}, "without a comma"),
        ({"lxd": None}, "it has no lxd"),
        ({"lxd": {"pci": "0000:41:00.0"}}, "with a type"),
        ({"lxd": {"type": "gpu", "pci": 1}}, "an object of texts"),
        ({"resource_class": "CUSTOM_GPU_a100"}, "capital letters"),
        ({"resource_class": "VGPU"}, "CUSTOM_"),
        ({"traits": ["HW_GPU_API_CUDA"]}, "CUSTOM_"),
        ({"traits": "CUSTOM_A"}, "lists of texts"),
        ({"paths": [1]}, "lists of texts"),
        ({"state": "lost"}, "the key state is unknown"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, change: dict[str, t.Any], said: str) -> None:
    with pytest.raises(InvalidInventory, match=f"Device 1 in .*gpus.json is invalid: .*{said}"):
        devices.read(write(tmp_path, MIG, {**A100, **change}))


def test_a_gpu_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInventory, match="is there twice"):
        devices.read(write(tmp_path, A100, A100))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 2, "devices": []}', '{"version": 1, "devices": {}}'])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "gpus.json").write_text(content)
    with pytest.raises(InvalidInventory):
        devices.read(str(tmp_path / "gpus.json"))


def test_a_gpu_is_lost_by_the_file_or_by_a_missing_path(tmp_path: Path) -> None:
    there = str(tmp_path)
    gpus = devices.read(
        write(
            tmp_path,
            {**A100, "paths": [there]},
            {**A100, "id": "b", "paths": [there, "/nonexistent/nvidia1"]},
            {**A100, "id": "c", "lost": "it has fallen off the bus."},
        )
    )
    assert devices.why_lost(["0000:41:00.0"], gpus) == []
    assert devices.why_lost(["0000:41:00.0", "b", "c", "d"], gpus) == [
        "The GPU b is lost: /nonexistent/nvidia1 does not exist on the host.",
        "The GPU c is lost: it has fallen off the bus.",
        "The GPU d is lost: the host does not have it any more.",
    ]


def test_nvidias_runtime_is_for_those_that_have_it(tmp_path: Path) -> None:
    gpus = devices.read(write(tmp_path, A100, MIG))
    assert devices.instance_configuration([gpus["MIG-7"]])["nvidia.runtime"] == "true"
    assert devices.instance_configuration([gpus["0000:41:00.0"]]) == {}
    assert devices.instance_configuration([]) == {}


class Tree:
    """What the driver uses of Nova's ProviderTree."""

    def __init__(self) -> None:
        self.providers: dict[str, t.Any] = {}
        self.new_child("host", "")

    def new_child(self, name: str, parent: str) -> None:
        self.providers[name] = types.SimpleNamespace(name=name, uuid=str(uuid.uuid4()), parent=parent, inventory={}, traits=set())

    def exists(self, name: str) -> bool:
        return name in self.providers

    def data(self, key: str) -> t.Any:
        return next(entry for entry in self.providers.values() if key in (entry.name, entry.uuid))

    def get_provider_uuids(self, name: str) -> list[str]:
        return [entry.uuid for entry in self.providers.values() if name in (entry.name, entry.parent)]

    def update_inventory(self, name: str, inventory: t.Any) -> None:
        self.providers[name].inventory = inventory

    def update_traits(self, name: str, traits: t.Any) -> None:
        self.providers[name].traits = set(traits)

    def remove(self, name: str) -> None:
        del self.providers[name]

    def inventory_of(self, key: str) -> tuple[str, int, int]:
        ((resource_class, entry),) = self.providers[f"host_gpu_{key}"].inventory.items()
        return resource_class, entry["total"], entry["reserved"]


def gpu(key: str, lost: str = "", resource_class: str = "CUSTOM_GPU_A100") -> Gpu:
    return Gpu(key, resource_class, {"type": "gpu"}, traits=("CUSTOM_GPU_MEMORY_80GB",), lost=lost)


def never(provider: str) -> bool:
    raise AssertionError(f"Placement was asked about {provider}")


def test_each_gpu_is_a_child_with_one_of_its_class() -> None:
    tree = Tree()
    known = providers.update(tree, "host", {"a": gpu("a"), "b": gpu("b", resource_class="CUSTOM_GPU_V100")}, never)
    assert tree.inventory_of("a") == ("CUSTOM_GPU_A100", 1, 0)
    assert tree.inventory_of("b") == ("CUSTOM_GPU_V100", 1, 0)
    assert tree.data("host_gpu_a").traits == {"CUSTOM_GPU_MEMORY_80GB"}
    assert known == {tree.data("host_gpu_a").uuid: "a", tree.data("host_gpu_b").uuid: "b"}
    assert providers.update(tree, "host", {"a": gpu("a"), "b": gpu("b")}, never) == known, "a second time makes no other providers"


def test_a_lost_gpu_is_reserved_and_its_return_frees_it() -> None:
    tree = Tree()
    providers.update(tree, "host", {"a": gpu("a", lost="gone.")}, never)
    assert tree.inventory_of("a") == ("CUSTOM_GPU_A100", 1, 1)
    providers.update(tree, "host", {"a": gpu("a")}, never)
    assert tree.inventory_of("a") == ("CUSTOM_GPU_A100", 1, 0)


def test_a_removed_gpu_stays_promised_to_its_server() -> None:
    tree = Tree()
    known = providers.update(tree, "host", {"a": gpu("a"), "b": gpu("b")}, never)
    used = tree.data("host_gpu_a").uuid
    after = providers.update(tree, "host", {}, lambda provider: provider == used)
    assert after == {used: "a"}
    assert tree.inventory_of("a") == ("CUSTOM_GPU_A100", 1, 1)
    assert not tree.exists("host_gpu_b")
    assert len(known) == 2


def test_providers_of_others_are_left_alone() -> None:
    tree = Tree()
    tree.new_child("host_numa_0", "host")
    assert providers.update(tree, "host", {}, never) == {}
    assert tree.exists("host_numa_0")


def test_a_server_has_the_gpus_of_its_allocations() -> None:
    given = {"root": "VCPU", "p1": "CUSTOM_GPU_A100", "other": "SRIOV_NET_VF"}
    allocations = {provider: {"resources": {resource: 1}} for provider, resource in given.items()}
    assert providers.allocated(allocations, {"p1": "a", "p2": "b"}) == ["a"]
    assert providers.allocated(None, {"p1": "a"}) == []
    assert providers.unknown_classes(allocations, {"p1": "a"}, "root") == []
    assert providers.unknown_classes(allocations, {}, "root") == ["CUSTOM_GPU_A100"]
