# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which devices can be divided into virtual functions, and what becomes of these, on simulated servers."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._passthrough import plan as passthrough_plan
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.passthrough_examples import (
    A100,
    CARD,
    FLEX,
    KERNEL,
    set_up,
    virtual_function,
)

FLEX_ADDRESS = "0000:4d:00.0"
RULE = 'KERNEL=="{}", ATTR{{vendor}}=="0x{}", ATTR{{device}}=="0x{}", ATTR{{sriov_numvfs}}="{}"\n'
RULES = "etc/udev/rules.d/71-deephdc-virtual-functions.rules"
TWO_MADE = [{**FLEX, "sriov_num_vfs": 2}, virtual_function(1), virtual_function(2, group=32)]


@pytest.fixture
def planned(simulate):
    """planned(devices, wanted, divided) plans a simulated server; change(facts) alters what was read of its IOMMU."""

    def plan(devices, divided, wanted=(), change=lambda facts: None, ours=""):
        root = set_up(simulate(A100, CARD, *devices))
        root.write(RULES, ours)
        facts = iommu.read(str(root), KERNEL)
        change(facts)
        result = passthrough_plan.plan(gather(str(root), pci_ids_paths=()), facts, list(wanted), (), "kvm1", divided)
        return {**result, "facts": facts}

    return plan


@pytest.mark.parametrize("device", ["flex170", FLEX_ADDRESS, "4d:00.0"])
def test_before_they_are_made(planned, device):
    plan = planned([FLEX], [{"device": device, "count": 4}])
    assert plan["errors"] == [] and plan["is_wanted"] and plan["functions"] == []
    assert plan["divided"] == [{"address": FLEX_ADDRESS, "vendor_id": "8086", "device_id": "56c0", "count": 4}]


def test_virtual_machines_get_them_once_they_are_made(planned):
    plan = planned(TWO_MADE, [{"device": "flex170", "count": 2}], ["a100"], ours=RULE.format(FLEX_ADDRESS, "8086", "56c0", 2))
    assert plan["errors"] == []
    assert [device["address"] for device in plan["devices"]] == ["0000:41:00.0", "0000:4d:00.1", "0000:4d:00.2"]
    assert [device["device_file"] for device in plan["devices"][1:]] == ["/dev/vfio/31", "/dev/vfio/32"]
    assert passthrough_plan.faults(plan, plan["facts"], "kvm1")[1:4] == [
        f"{address} of kvm1 has {driver} instead of vfio-pci: see systemctl status 'driverctl@*'."
        for address, driver in (("0000:41:00.0", "nvidia"), ("0000:4d:00.1", "no driver"), ("0000:4d:00.2", "no driver"))
    ]


def test_of_anything_that_is_no_accelerator_too(planned):
    storage = {"type": "nvme", "pci_address": "0000:06:00.0", "vendor_id": "1b36", "device_id": "0010", "class": "010802", "driver": "nvme"}
    made = {**storage, "pci_address": "0000:06:00.1", "physfn": "0000:06:00.0", "driver": "vfio-pci", "iommu_group": 40}
    ours = RULE.format("0000:06:00.0", "1b36", "0010", 1)
    plan = planned([{**storage, "sriov_total_vfs": 4, "sriov_num_vfs": 1}, made], [{"device": "06:00.0", "count": 1}], ours=ours)
    assert plan["errors"] == []
    assert [(device["address"], device["type"]) for device in plan["devices"]] == [("0000:06:00.1", "virtual_function")]


def test_all_means_the_functions_of_what_is_divided(planned):
    plan = planned([FLEX], [{"device": "flex170", "count": 2}], ["all"])
    assert plan["errors"] == [] and [device["address"] for device in plan["devices"]] == ["0000:41:00.0"]


def change_of(**more):
    def change(facts):
        for entry in facts["functions"]:
            if entry["address"] == FLEX_ADDRESS:
                entry.update(more)

    return change


@pytest.mark.parametrize(
    ("device", "count", "change", "words"),
    [
        ("mi300x", 1, {}, f"asks for mi300x, which the host does not have; what can be divided: {FLEX_ADDRESS}."),
        ("0000:41:00.0", 1, {}, "can't have 1 virtual functions: it has no SR-IOV, or the firmware does not show it"),
        ("flex170", 32, {}, "can't have 32 virtual functions: it can have 31."),
        ("flex170", 0, {}, "the number must be 1 or more"),
        ("flex170", 1, {"vendor_id": "10de"}, "NVIDIA's are made by the host driver of its vGPU software"),
        ("flex170", 1, {"driver": None}, "only its own driver can make them, and it has none."),
        ("flex170", 1, {"interfaces": [{"name": "eno1", "is_uplink": True}]}, "the host's default route goes through it"),
    ],
)
def test_refused(planned, device, count, change, words):
    plan = planned([FLEX], [{"device": device, "count": count}], change=change_of(**change))
    (error,) = plan["errors"]
    assert words in error and plan["divided"] == []


def test_two_numbers_for_one_device(planned):
    (error,) = planned([FLEX], [{"device": "flex170", "count": 1}, {"device": "4d:00.0", "count": 2}])["errors"]
    assert f"asks for 1 virtual functions of {FLEX_ADDRESS} and for 2." in error


def test_a_device_is_given_as_a_whole_or_in_parts(planned):
    (error,) = planned([FLEX], [{"device": "flex170", "count": 1}], [FLEX_ADDRESS])["errors"]
    assert "is divided into virtual functions: virtual machines get these" in error


def test_those_that_somebody_else_made_stay(planned):
    (error,) = planned(TWO_MADE, [{"device": "flex170", "count": 2}])["errors"]
    assert "2 are there already, made by other means; remove them first" in error


@pytest.mark.parametrize(
    ("driver", "users", "words"),
    [
        ("vfio-pci", ["qemu (process 7) has /dev/vfio/32 open"], "and qemu (process 7) has /dev/vfio/32 open; end that process first."),
        ("i915", [], "0000:4d:00.2 is one of those that it has, and the host uses it with the driver i915."),
        ("vfio-pci", [], None),
    ],
)
def test_another_number_while_they_are_used(planned, driver, users, words):
    def change(facts):
        for entry in facts["functions"]:
            if entry["address"] == "0000:4d:00.2":
                entry.update(driver=driver, users=users)

    ours = RULE.format(FLEX_ADDRESS, "8086", "56c0", 2)
    errors = planned(TWO_MADE, [{"device": "flex170", "count": 4}], change=change, ours=ours)["errors"]
    assert [words in error for error in errors] == ([True] if words else []), errors


def test_a_fault_where_they_did_not_come_back(planned):
    plan = planned([FLEX], [{"device": "flex170", "count": 4}])
    assert f"{FLEX_ADDRESS} of kvm1 has 0 virtual functions instead of 4" in " ".join(passthrough_plan.faults(plan, plan["facts"], "kvm1"))


def test_another_device_that_has_the_address_now_is_none_of_ours(planned):
    """A card was put in, and the addresses behind it moved."""
    plan = planned(TWO_MADE, [{"device": "flex170", "count": 2}], ours=RULE.format(FLEX_ADDRESS, "8086", "56c1", 2))
    assert plan["facts"]["divided"] == {}
    assert ["2 are there already, made by other means" in error for error in plan["errors"]] == [True]


@pytest.mark.parametrize(("count", "errors"), [("4", []), ("four", ["has the count four for flex170; it must be a number, 1 or more."])])
def test_counts_that_templates_give_as_text(planned, count, errors):
    plan = planned([FLEX], [{"device": "flex170", "count": count}])
    assert [error.split("kvm1 ")[1] for error in plan["errors"]] == errors
    assert [entry["count"] for entry in plan["divided"]] == ([] if errors else [4])
