# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""PCI entries of Nova and gpu devices of LXD."""

from __future__ import annotations

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


@pytest.mark.parametrize("function", [openstack_devices.pci_entries, openstack_devices.gpu_devices])
def test_wrong_input(function):
    with pytest.raises(ValueError, match="list of dictionaries"):
        function("a100")
