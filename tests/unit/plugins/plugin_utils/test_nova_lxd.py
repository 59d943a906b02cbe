# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""PCI entries of Nova and gpu devices of LXD."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import devices as openstack_devices
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu

VIRTUAL = {"total_vfs": None, "num_vfs": None, "is_vf": True}
CAPABLE = {"total_vfs": 16, "num_vfs": 0, "is_vf": False}


def test_pci_entries():
    assert openstack_devices.pci_entries(
        [gpu(1, sriov=CAPABLE), gpu(0, sriov=CAPABLE), gpu(2, type="t4", device_id="1eb8"), gpu(3, sriov=VIRTUAL)]
    ) == {
        "device_spec": [
            {"vendor_id": "10de", "product_id": "20b0", "address": "0000:01:00.0"},
            {"vendor_id": "10de", "product_id": "20b0", "address": "0000:02:00.0"},
            {"vendor_id": "10de", "product_id": "1eb8", "address": "0000:03:00.0"},
            {"vendor_id": "10de", "product_id": "20b0", "address": "0000:04:00.0"},
        ],
        "alias": [
            {"name": "a100", "vendor_id": "10de", "product_id": "20b0", "device_type": "type-PF"},
            {"name": "a100-vf", "vendor_id": "10de", "product_id": "20b0", "device_type": "type-VF"},
            {"name": "t4", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"},
        ],
    }


def test_no_pci_entries():
    assert openstack_devices.pci_entries([gpu(0, kind="console")]) == {"device_spec": [], "alias": []}


def test_two_products_of_one_type_share_the_name_of_the_alias():
    aliases = openstack_devices.pci_entries([gpu(0), gpu(1, device_id="20f1")])["alias"]
    assert [(alias["name"], alias["product_id"]) for alias in aliases] == [("a100", "20b0"), ("a100", "20f1")]


def test_one_alias_can_not_have_two_device_types():
    with pytest.raises(ValueError, match="type a100"):
        openstack_devices.pci_entries([gpu(0), gpu(1, sriov=CAPABLE)])


def test_a_domain_nova_ignores_is_refused():
    with pytest.raises(ValueError, match=r"10000:01:00\.0"):
        openstack_devices.pci_entries([gpu(0, pci_address="10000:01:00.0")])


def test_lxd_devices():
    assert openstack_devices.gpu_devices([mig_gpu(1, ["1g.10gb", "3g.40gb"]), gpu(0), gpu(2, driver="vfio-pci")]) == {
        "gpu0": {"type": "gpu", "gputype": "physical", "pci": "0000:01:00.0"},
        "gpu1": {"type": "gpu", "gputype": "mig", "pci": "0000:02:00.0", "mig.uuid": "MIG-1-0"},
        "gpu2": {"type": "gpu", "gputype": "mig", "pci": "0000:02:00.0", "mig.uuid": "MIG-1-1"},
    }


def test_lxd_names_an_instance_without_uuid_by_its_numbers():
    old = mig_gpu(0, ["1g.10gb"])
    old["mig"]["devices"][0].update(uuid="MIG-GPU-0/7/0", gpu_instance_id=7)
    assert openstack_devices.gpu_devices([old]) == {
        "gpu0": {"type": "gpu", "gputype": "mig", "pci": "0000:01:00.0", "mig.gi": "7", "mig.ci": "0"}
    }


def test_the_inventory_of_a_compute_host():
    inventory = openstack_devices.gpu_inventory([mig_gpu(1, ["1g.10gb"]), gpu(0, memory_mib=81559), gpu(2, driver="vfio-pci")], True)
    assert inventory["version"] == 1
    card, part = inventory["devices"]
    assert card == {
        "id": "0000:01:00.0",
        "resource_class": "CUSTOM_GPU_A100",
        "traits": ["CUSTOM_GPU_MEMORY_80GB"],
        "lxd": {"type": "gpu", "gputype": "physical", "pci": "0000:01:00.0"},
        "paths": ["/dev/nvidia0"],
        "nvidia_runtime": True,
    }
    assert (part["id"], part["resource_class"]) == ("MIG-1-0", "CUSTOM_GPU_A100_1G_10GB")
    assert part["lxd"] == {"type": "gpu", "gputype": "mig", "pci": "0000:02:00.0", "mig.uuid": "MIG-1-0"}
    assert part["paths"][0] == "/dev/nvidia1"


def test_nvidias_libraries_are_for_nvidias_devices_where_they_are():
    amd = gpu(0, vendor="amd", type="mi250", driver="amdgpu", device_files=["/dev/dri/renderD128"])
    assert [entry["nvidia_runtime"] for entry in openstack_devices.gpu_inventory([amd, gpu(1)], True)["devices"]] == [False, True]
    assert [entry["nvidia_runtime"] for entry in openstack_devices.gpu_inventory([amd, gpu(1)])["devices"]] == [False, False]


def test_the_driver_reads_the_inventory(tmp_path, monkeypatch):
    """The driver's own reader, which the role puts on the host."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "roles/nova_lxd/files"))
    from nova_lxd import devices as driver

    written = openstack_devices.gpu_inventory([mig_gpu(1, ["1g.10gb", "3g.40gb"]), gpu(0, memory_mib=81559)])
    (tmp_path / "gpus.json").write_text(json.dumps(written))
    gpus = driver.read(str(tmp_path / "gpus.json"))
    assert list(gpus) == ["0000:01:00.0", "MIG-1-0", "MIG-1-1"]
    assert driver.instance_devices(gpus.values()) == openstack_devices.gpu_devices([mig_gpu(1, ["1g.10gb", "3g.40gb"]), gpu(0)])


@pytest.mark.parametrize("function", [openstack_devices.pci_entries, openstack_devices.gpu_devices, openstack_devices.gpu_inventory])
def test_wrong_input(function):
    with pytest.raises(ValueError, match="list of dictionaries"):
        function("a100")
