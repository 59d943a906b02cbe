# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which devices virtual machines can get, and every reason why not, on simulated servers."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.deephdc.accelerators.plugins.filter.pci_passthrough import pci_passthrough_plan
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._passthrough import plan as passthrough_plan
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.passthrough_examples import (
    A100,
    ASPEED,
    BRIDGE,
    CARD,
    KERNEL,
    RTX,
    RTX_AUDIO,
    SECOND_CARD,
    set_up,
)


@pytest.fixture
def plan_of(simulate, tmp_path):
    """plan_of(devices, wanted, change=...) plans a simulated server; change(facts) alters what was read of its IOMMU."""

    def plan(devices, wanted, change=lambda facts: None, console=(), owned=None, **more):
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
        root = set_up(simulate(*devices), **more)
        facts = iommu.read(str(root), KERNEL)
        change(facts)
        return passthrough_plan.plan(gather(str(root), pci_ids_paths=()), facts, wanted, console, "gpu1", None, owned)

    return plan


def function(facts, address):
    return next(entry for entry in facts["functions"] if entry["address"] == address)


SERVER = [A100, RTX, RTX_AUDIO, BRIDGE, ASPEED, CARD]


@pytest.mark.parametrize("wanted", [["rtx3090"], ["0000:0c:00.0"], ["0C:00.0"], ["rtx3090", "0000:0c:00.0"]])
def test_a_card_takes_its_audio_function_along_and_leaves_the_bridge(plan_of, wanted):
    plan = plan_of(SERVER, wanted)
    assert plan["errors"] == []
    assert plan["kernel_arguments"] == ["intel_iommu=on", "iommu=pt"] and plan["is_complete"]
    (device,) = plan["devices"]
    assert (device["address"], device["type"], device["group"], device["device_file"]) == ("0000:0c:00.0", "rtx3090", 15, "/dev/vfio/15")
    assert device["functions"] == ["0000:0c:00.0", "0000:0c:00.1"] and device["stay"] == ["0000:0b:01.0"]
    assert plan["functions"][1] == {"address": "0000:0c:00.1", "vendor_id": "10de", "device_id": "1aef"}


def test_all_are_all_but_the_console(plan_of):
    plan = plan_of(SERVER, ["all"])
    assert plan["errors"] == []
    assert [device["address"] for device in plan["devices"]] == ["0000:0c:00.0", "0000:41:00.0"]


def test_devices_of_another_manager_are_left_out_or_refused(plan_of):
    allotment = {"slurm": {"devices": ["0000:0c:00.0"]}, "opennebula": {"devices": ["0000:41:00.0"]}}
    owned, wrong = _managers.owned_by_machines([], allotment, "gpu1")
    assert (owned, wrong) == (["0000:41:00.0"], []) and _managers.owned_by_machines([], {}, "gpu1") == (None, [])
    assert [device["address"] for device in plan_of(SERVER, ["all"], owned=owned)["devices"]] == ["0000:41:00.0"]
    plan = plan_of(SERVER, ["0c:00.0"], owned=owned)
    assert plan["devices"] == [] and plan["errors"] == [
        "pci_passthrough_devices of gpu1 asks for 0000:0c:00.0, which accelerator_allotment gives to no manager of virtual machines: "
        "correct one of them."
    ]


@pytest.mark.parametrize(
    ("wanted", "owned", "withheld"),
    [
        ("rtx3090", ["0000:41:00.0"], "0000:0c:00.0 (rtx3090)"),
        ("all", [], "0000:0c:00.0 (rtx3090), 0000:41:00.0 (a100)"),
    ],
)
def test_a_type_that_only_another_manager_has_is_not_said_to_be_missing(plan_of, wanted, owned, withheld):
    plan = plan_of(SERVER, [wanted], owned=owned)
    assert plan["devices"] == [] and plan["errors"] == [
        f"pci_passthrough_devices of gpu1 asks for {wanted}, but accelerator_allotment gives {withheld} to no manager of virtual machines: "
        "correct one of them."
    ]


def test_a_wrong_allotment_ends_the_plan_of_the_filter(plan_of):
    found = pci_passthrough_plan([], {"table": "DMAR"}, [], host="gpu1", allotment={"opennebula": 3})
    assert found["devices"] == [] and found["errors"] == [
        "accelerator_allotment of gpu1 has 3 for opennebula: write {devices: [...]} with PCI addresses or MIG UUIDs."
    ]


def test_nothing_wanted_asks_nothing_of_the_host(plan_of):
    assert plan_of([], [], lambda facts: facts.update(table=None, units=[], has_vfio=False))["errors"] == []


def test_amd_has_its_iommu_on_by_default(plan_of):
    assert plan_of(SERVER, ["a100"], lambda facts: facts.update(table="IVRS"))["kernel_arguments"] == ["iommu=pt"]


def refused(plan):
    """The sentences; a refused device is not in the plan."""
    assert plan["errors"] and all(sentence.endswith(".") and "gpu1" in sentence for sentence in plan["errors"])
    return " ".join(plan["errors"])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("h100", "asks for h100, which the host does not have; its accelerators: 0000:0c:00.0 (rtx3090), 0000:41:00.0 (a100)"),
        ("0000:99:00.0", "asks for 0000:99:00.0, which the host does not have"),
        ("05:00.0", "no accelerator but a device of class 020000"),
        ("0000:0c:00.1", "no accelerator but a device of class 040300"),
        ("0000:03:00.0", "console graphics and stays with the host; if it is no console, name 0000:03:00.0 in pci_passthrough_console"),
        ("1a03_2000", "console graphics and stays with the host"),
    ],
)
def test_an_unknown_device(plan_of, wanted, words):
    plan = plan_of([{**ASPEED, "type": "aspeed", "model": ""}, *SERVER[:4], CARD], [wanted])
    assert words in refused(plan) and plan["devices"] == []


def test_all_of_none(plan_of):
    assert "asks for all, which the host does not have; its accelerators: none." in refused(plan_of([ASPEED, CARD], ["all"]))


def test_console_graphics_that_somebody_vouches_for(plan_of):
    graphics = {**ASPEED, "boot_vga": False}
    plan = plan_of([graphics, CARD], ["0000:03:00.0"], console=["03:00.0"])
    assert plan["errors"] == [] and plan["devices"][0]["address"] == "0000:03:00.0"
    assert "the display that the host started with" in refused(plan_of([ASPEED, CARD], ["0000:03:00.0"], console=["0000:03:00.0"]))


@pytest.mark.parametrize(
    ("wanted", "console", "words"),
    [
        ("a100", [], "pci_passthrough_devices of gpu1 must be a list, such as [a100]; it is a100."),
        ([2460.0], [], "pci_passthrough_devices of gpu1 has 2460.0, which YAML does not take for a text"),
        (["a100"], "0000:03:00.0", "pci_passthrough_console of gpu1 must be a list"),
    ],
)
def test_what_yaml_makes_of_it(plan_of, wanted, console, words):
    plan = plan_of(SERVER, wanted, console=console)
    assert words in plan["errors"][0] and plan["functions"] == []


def test_no_iommu(plan_of):
    def change(facts):
        facts.update(table=None, units=[])
        for entry in facts["functions"]:
            entry["group"] = None

    words = refused(plan_of(SERVER, ["a100"], change))
    assert "gpu1 has no IOMMU" in words and "Turn on VT-d, or AMD-Vi" in words


def test_an_iommu_that_the_kernel_does_not_use_yet(plan_of):
    def change(facts):
        facts.update(units=[])
        for entry in facts["functions"]:
            entry["group"] = None

    plan = plan_of(SERVER, ["rtx3090"], change)
    assert plan["errors"] == [] and not plan["is_complete"]
    assert plan["devices"][0]["functions"] == ["0000:0c:00.0"] and plan["devices"][0]["device_file"] is None


def test_an_iommu_that_somebody_turned_off(plan_of):
    plan = plan_of(SERVER, ["a100"], arguments="intel_iommu=off")
    assert "started with the kernel argument intel_iommu=off" in refused(plan)


def test_a_kernel_without_the_driver(plan_of):
    words = refused(plan_of(SERVER, ["a100"], lambda facts: facts.update(has_vfio=False)))
    assert f"The running kernel {KERNEL} of gpu1 has no driver vfio-pci" in words


def test_a_device_in_no_group(plan_of):
    assert "in no IOMMU group" in refused(plan_of(SERVER, ["a100"], lambda facts: function(facts, "0000:41:00.0").update(group=None)))


def test_a_gpu_that_is_the_boot_display(plan_of):
    plan = plan_of([{**RTX, "boot_vga": True}, RTX_AUDIO, CARD], ["rtx3090"])
    assert "the display that the host started with; choose another primary display" in refused(plan)


def test_a_group_shared_with_the_boot_display(plan_of):
    plan = plan_of([A100, {**ASPEED, "iommu_group": 20}, CARD], ["a100"])
    assert "its IOMMU group 20 has 0000:03:00.0 too, the display that the host started with" in refused(plan)


def test_a_group_shared_with_the_only_network_card(plan_of):
    plan = plan_of([A100, {**CARD, "iommu_group": 20}], ["a100"])
    assert "0000:05:00.0 too, the host's only network card (eno1)" in refused(plan)


def test_a_group_shared_with_the_network_card_of_the_default_route(plan_of):
    plan = plan_of([A100, {**CARD, "iommu_group": 20}, SECOND_CARD], ["a100"], cards=("eno1", "eno2"))
    assert "0000:05:00.0 too, the network card (eno1) that the host's default route goes through" in refused(plan)


def test_a_group_shared_with_something_that_the_host_uses(plan_of):
    plan = plan_of([A100, CARD, {**SECOND_CARD, "iommu_group": 20}], ["a100"], cards=("eno1", "eno2"))
    assert "0000:06:00.0 too, class 020000, which the host uses with the driver igb. Choose both" in refused(plan)
    plan = plan_of([A100, CARD, {**SECOND_CARD, "iommu_group": 20, "driver": ""}], ["a100"])
    assert plan["errors"] == [] and plan["devices"][0]["functions"] == ["0000:41:00.0"]


def test_two_gpus_in_one_group_go_together_or_not_at_all(plan_of):
    pair = [A100, {**A100, "pci_address": "0000:42:00.0"}, CARD]
    assert "0000:42:00.0 too, class 030200" in refused(plan_of(pair, ["0000:41:00.0"]))
    assert [device["address"] for device in plan_of(pair, ["a100"])["devices"]] == ["0000:41:00.0", "0000:42:00.0"]


@pytest.mark.parametrize("address", ["0000:0c:00.0", "0000:0c:00.1"])
def test_a_device_in_use(plan_of, address):
    def used(facts):
        function(facts, address).update(users=["python3 (process 7) has /dev/x open"])

    assert f"{address} is in use: python3 (process 7) has /dev/x open; end that process first." in refused(
        plan_of(SERVER, ["rtx3090"], used)
    )

    def used_by_a_machine(facts):
        used(facts)
        function(facts, address).update(driver="vfio-pci")

    assert plan_of(SERVER, ["rtx3090"], used_by_a_machine)["errors"] == []


def test_an_override_that_somebody_made(plan_of):
    def change(facts):
        function(facts, "0000:0c:00.1").update(driver_override="pci-stub")

    assert "an administrator gave 0000:0c:00.1 the driver pci-stub" in refused(plan_of(SERVER, ["rtx3090"], change))


def test_a_gpu_that_is_divided(plan_of):
    divided = {**A100, "sriov_total_vfs": 16, "sriov_num_vfs": 4}
    assert "divided into virtual functions" in refused(plan_of([divided, CARD], ["0000:41:00.0"]))


def test_one_refused_device_does_not_hide_another(plan_of):
    plan = plan_of([A100, {**ASPEED, "iommu_group": 20}, RTX, RTX_AUDIO, CARD], ["all", "h100"])
    assert len(plan["errors"]) == 2 and [device["type"] for device in plan["devices"]] == ["rtx3090"]


@pytest.fixture
def ready(simulate):
    """The plan and the facts of a host whose card is with virtual machines."""
    root = set_up(simulate(RTX, RTX_AUDIO, CARD), arguments="intel_iommu=on iommu=pt")
    facts = iommu.read(str(root), KERNEL)
    plan = passthrough_plan.plan(gather(str(root), pci_ids_paths=()), facts, ["rtx3090"])
    for address in ("0000:0c:00.0", "0000:0c:00.1"):
        function(facts, address).update(driver="vfio-pci")
        facts["overrides"][address] = "vfio-pci"
    return plan, facts


def test_no_fault(ready):
    plan, facts = ready
    assert passthrough_plan.faults(plan, facts, "gpu1") == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts: facts["kernel_arguments"].remove("iommu=pt"), "was started without iommu=pt"),
        (lambda facts: facts["functions"].remove(function(facts, "0000:0c:00.0")), "0000:0c:00.0 of gpu1 is gone"),
        (lambda facts: function(facts, "0000:0c:00.0").update(device_id="ffff"), "is another device now than 10de:2204"),
        (lambda facts: function(facts, "0000:0c:00.1").update(driver="snd_hda_intel"), "has snd_hda_intel instead of vfio-pci"),
        (lambda facts: function(facts, "0000:0c:00.1").update(group=None), "is in no IOMMU group"),
        (lambda facts: facts["overrides"].clear(), "nothing gives it that at the next boot"),
    ],
)
def test_faults(ready, change, words):
    plan, facts = ready
    change(facts)
    assert words in " ".join(passthrough_plan.faults(plan, facts, "gpu1"))
