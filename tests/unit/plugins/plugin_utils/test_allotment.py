# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which manager owns which device of a host that serves two."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment, _managers
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu

SLURM, OPENNEBULA = _managers.MANAGERS
GROUPS = {"slurm_nodes": ["gpu1", "both"], "opennebula_hosts": ["kvm1", "both"]}
FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def sentences(allotment, host="both"):
    return [str(found) for found in _allotment.errors({host: allotment}, (SLURM, OPENNEBULA), GROUPS)]


def shared(slurm, opennebula):
    return {"slurm": {"devices": slurm}, "opennebula": {"devices": opennebula}}


def test_a_host_of_one_manager_needs_no_allotment():
    groups = {"slurm_nodes": ["gpu1"], "opennebula_hosts": ["kvm1"]}
    assert _allotment.errors({}, (SLURM, OPENNEBULA), groups) == []
    accelerators = [gpu(0), gpu(1)]
    assert _allotment.owned(accelerators, None, "slurm") == accelerators


def test_a_host_of_two_managers_without_one_is_refused_with_what_to_write():
    (found,) = _allotment.errors({}, (SLURM, OPENNEBULA), GROUPS)
    assert found.layer == "inventory" and found.host == "both"
    assert str(found).startswith("both is in slurm_nodes and opennebula_hosts, but nothing says which of them owns which device: set ")
    assert found.remedy in str(found)


def test_a_right_allotment_is_taken():
    assert sentences(shared([FIRST], ["02:00.0"])) == []
    assert sentences(shared(["MIG-5c2f"], [])) == []
    both = {"both": shared([FIRST], [SECOND]), "gpu1": {"slurm": {"devices": [FIRST]}}}
    assert _allotment.errors(both, (SLURM, OPENNEBULA), GROUPS) == []


@pytest.mark.parametrize(
    ("allotment", "said"),
    [
        (["slurm"], "write a dictionary of managers"),
        ({"slurm": {"devices": []}}, "has nothing for opennebula"),
        (shared([FIRST], []) | {"slrum": {"devices": []}}, "names slrum, but the host's managers are slurm, opennebula"),
        (shared([FIRST], []) | {"slurm": {"device": [FIRST]}}, "write {devices: [...]}"),
        (shared([FIRST], []) | {"slurm": [FIRST]}, "write {devices: [...]}"),
        (shared(FIRST, []), "write {devices: [...]}"),
        (shared([2460], []), "write it as text, in quotes"),
        (shared(["a100"], []), "write a PCI address"),
        (shared([], ["MIG-5c2f"]), "opennebula, which takes whole devices"),
        (shared([FIRST], ["01:00.0"]), "lists 0000:01:00.0 twice, for slurm and opennebula"),
        (shared([FIRST, FIRST], []), "lists 0000:01:00.0 twice, for slurm:"),
    ],
)
def test_a_wrong_allotment_is_refused_in_one_sentence(allotment, said):
    (found,) = sentences(allotment)
    assert said in found and "both" in found and found.endswith(".")


def test_each_manager_hears_of_its_own_devices_alone():
    accelerators = [gpu(0), gpu(1, driver="vfio-pci"), gpu(2)]
    allotment = shared([FIRST], [SECOND])
    assert _allotment.owned(accelerators, allotment, "slurm") == [accelerators[0]]
    assert _allotment.owned(accelerators, allotment, "opennebula") == [accelerators[1]]


def test_mig_instances_of_one_gpu_can_belong_to_two_managers():
    whole = mig_gpu(0, ["1g.10gb", "2g.20gb"])
    first, second = (instance["uuid"] for instance in whole["mig"]["devices"])
    allotment = {"slurm": {"devices": [first]}, "kubernetes": {"devices": [second]}}
    (mine,) = _allotment.owned([whole], allotment, "slurm")
    assert [instance["uuid"] for instance in mine["mig"]["devices"]] == [first]
    (others,) = _allotment.owned([whole], allotment, "kubernetes")
    assert [instance["uuid"] for instance in others["mig"]["devices"]] == [second]
    assert len(whole["mig"]["devices"]) == 2


def test_a_device_that_the_host_lacks_is_an_error_that_shows_what_it_has():
    (error,) = _allotment.missing_errors("both", [gpu(0)], shared([FIRST, "0000:77:00.0"], []), "slurm")
    assert error == (
        "accelerator_allotment of both gives 0000:77:00.0 to slurm, but the host has no such device: correct it; it has 0000:01:00.0."
    )
