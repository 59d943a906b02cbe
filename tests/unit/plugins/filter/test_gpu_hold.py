# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who manages a host, and what is wrong with the variables of the role gpu_hold."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.filter.gpu_hold import FilterModule, gpu_hold_errors
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _gpu_hold, _managers

GROUPS = {"all": ["gpu1", "gpu2", "kvm1"], "slurm_nodes": ["gpu1", "gpu2"], "opennebula_hosts": ["kvm1", "gpu2"]}


@pytest.mark.parametrize(
    ("host", "names"), [("gpu1", ["slurm"]), ("gpu2", ["slurm", "opennebula"]), ("kvm1", ["opennebula"]), ("gpu3", [])]
)
def test_the_groups_say_who_manages_a_host(host, names):
    assert [manager["name"] for manager in _managers.managers_of(host, GROUPS)] == names
    json.dumps(FilterModule().filters()["managers_of"](host, GROUPS))


def test_a_new_manager_is_known_by_a_file_of_its_host_role_and_holds_in_its_place(tmp_path):
    for role, name, holds in (("b_host", "b", 20), ("a_host", "a", 30)):
        (tmp_path / role / "meta").mkdir(parents=True)
        text = f"name: {name}\nhost_group: {name}_hosts\nsite_role: {name}_site\ntakes: driver\nholds: {holds}\nprefixes: [{name}_site_]\n"
        (tmp_path / role / "meta/manager.yml").write_text(text)
    (tmp_path / "other/meta").mkdir(parents=True)
    found = _managers.registered(tmp_path)
    assert [(one.name, one.host_role, one.prefixes) for one in found] == [("b", "b_host", ("b_site_",)), ("a", "a_host", ("a_site_",))]


def test_the_managers_of_the_collection_hold_a_host_in_this_order():
    assert [one.name for one in _managers.MANAGERS][:4] == ["slurm", "opennebula", "kubernetes", "openstack"]


def wrong(holder="nvidia_driver", excepted=None, wait=60, variables=None):
    return gpu_hold_errors("gpu1", holder, excepted or {}, wait, GROUPS, variables or {})


def test_an_exception_names_a_host_of_the_inventory_and_has_a_reason():
    assert wrong(excepted={"gpu1": "its users know"}) == []
    (sentence,) = wrong(excepted={"gpu1": True})
    assert sentence.startswith("gpu_hold_not gives no reason for gpu1")
    assert wrong(excepted={"gpu1": " "}) == [sentence]
    (sentence,) = wrong(excepted={"gpu9": "its users know"})
    assert sentence.startswith("gpu_hold_not names gpu9, which is not in the inventory")
    for bare in (True, "yes", "gpu1", ["gpu1"]):
        (sentence,) = wrong(excepted=bare)
        assert sentence.startswith("gpu_hold_not of gpu1 must name each host with the reason")


def test_the_wait_is_a_number_of_minutes():
    assert wrong(wait="0.5") == wrong(wait=0) == wrong(wait=60.0) == []
    for wait in (-1, "1h", True, None):
        assert [sentence.split(" of ")[0] for sentence in wrong(wait=wait)] == ["gpu_hold_wait"]


def test_the_holder_is_the_name_of_a_role():
    for holder in ("", "../nvidia_driver", None, "Driver"):
        assert [sentence.split(" of ")[0] for sentence in wrong(holder=holder)] == ["gpu_hold_holder"]


def test_a_former_variable_with_a_value_is_refused():
    assert wrong(variables={"nvidia_driver_drain_tasks": ""}) == []
    (sentence,) = wrong(variables={"pci_passthrough_resume_tasks": "/srv/resume.yml"})
    assert sentence.startswith("pci_passthrough_resume_tasks is set for gpu1") and "gpu_release_tasks" in sentence


def test_the_record_can_be_read_again():
    assert json.loads(_gpu_hold.record("nvidia_driver", {"slurm": "held"}))["managers"] == {"slurm": "held"}
    # By these words file_set knows its own file.
    assert "Made by deephdc.accelerators" in _gpu_hold.record("nvidia_driver", {})
