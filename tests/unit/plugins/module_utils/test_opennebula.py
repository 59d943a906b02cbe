# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""OpenNebula's filters of PCI devices."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils import _opennebula
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu


def test_devices_are_named_by_ids_and_by_address():
    assert _opennebula.pci_filters([gpu(0), gpu(1), gpu(2, device_id="1eb8"), gpu(3, kind="console")]) == {
        ":filter": ["10de:1eb8", "10de:20b0"],
        ":short_address": ["01:00.0", "02:00.0", "03:00.0"],
    }


def test_without_accelerators_no_device_is_listed():
    assert _opennebula.pci_filters([]) == {":filter": ["0:0"], ":short_address": []}


def test_virtual_functions_are_listed_and_their_physical_function_is_not():
    physical = gpu(0, sriov={"total_vfs": 16, "num_vfs": 1, "is_vf": False})
    virtual = gpu(1, sriov={"total_vfs": None, "num_vfs": None, "is_vf": True})
    assert _opennebula.pci_filters([physical, virtual])[":short_address"] == ["02:00.0"]


def test_the_keys_are_plain_in_yaml_because_ruby_reads_only_those_as_symbols():
    lines = yaml.safe_dump(_opennebula.pci_filters([gpu(0)])).splitlines()
    assert ":filter:" in lines
    assert ":short_address:" in lines


def test_another_pci_domain_is_refused():
    with pytest.raises(ValueError, match=r"10000:01:00\.0"):
        _opennebula.pci_filters([gpu(0, pci_address="10000:01:00.0")])


def test_wrong_input():
    with pytest.raises(ValueError, match="list of dictionaries"):
        _opennebula.pci_filters("a100")
