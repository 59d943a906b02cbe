# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which manager owns which device of a host that serves two."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.filter.site_check import site_check_allotments
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment, _managers
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu

SLURM, OPENNEBULA = (_managers.BY_NAME[name] for name in ("slurm", "opennebula"))
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
        (shared([FIRST], []) | {"slrum": {"devices": []}}, "names 'slrum', but the host's managers are slurm, opennebula"),
        (shared([FIRST], []) | {"slurm": {"device": [FIRST]}}, "write {devices: [...]}"),
        (shared([FIRST], []) | {"slurm": [FIRST]}, "write {devices: [...]}"),
        (shared(FIRST, []), "write {devices: [...]}"),
        (shared([2460], []), "write it as text, in quotes"),
        (shared(["a100"], []), "write a PCI address"),
        (shared([], ["MIG-5c2f"]), "opennebula, which takes whole devices"),
        (shared([FIRST], ["01:00.0"]), "lists 0000:01:00.0 twice, for slurm and opennebula"),
        (shared([FIRST, FIRST], []), "lists 0000:01:00.0 twice, for slurm, but a device has one owner"),
    ],
)
def test_a_wrong_allotment_is_refused_in_one_sentence(allotment, said):
    (found,) = _allotment.errors({"both": allotment}, (SLURM, OPENNEBULA), GROUPS)
    assert said in found.sentence
    assert found.host == "both" and found.sentence.startswith("accelerator_allotment of both ")
    assert found.remedy and found.sentence.endswith(f": {found.remedy}.")


def test_a_finding_names_the_device_that_it_is_about():
    found = _allotment.errors({"both": shared([FIRST], ["01:00.0", "MIG-5c2f"])}, (SLURM, OPENNEBULA), GROUPS)
    assert [(one.device, one.remedy) for one in found] == [
        (FIRST, "keep one entry"),
        ("MIG-5c2f", "list the PCI address of a whole device"),
    ]


NONSENSE = [
    *([], "", "slurm", 3, 0, False, True, 1.5, ["slurm"], {"slurm": 3}, {"slurm": None}, {"slurm": {}}, {3: {"devices": []}}, {None: None}),
    *({"slurm": {"devices": value}} for value in (None, 3, "0000:01:00.0", {"a": 1}, [3], [None], [["0000:01:00.0"]], [{"a": {"b": 1}}])),
    *({"slurm": {"devices": [], "cores": 4}}, {"slurm": {"slurm": {"devices": []}}}, {"slurm": {"devices": ["\n", ""]}}),
]


@pytest.mark.parametrize("host", ["both", "gpu1", "stranger"])
@pytest.mark.parametrize("allotment", NONSENSE, ids=repr)
def test_nonsense_is_refused_in_sentences_wherever_it_is_set(allotment, host):
    hostvars = type("HostVars", (dict,), {"raw_get": dict.get})({name: {} for name in ("both", "gpu1", "kvm1", "stranger")})
    hostvars[host] = {"accelerator_allotment": allotment}
    groups = (
        {**GROUPS, "all": list(hostvars)} if host == "both" else {"slurm_nodes": ["gpu1"], "opennebula_hosts": [], "all": list(hostvars)}
    )
    found = site_check_allotments(hostvars, groups)
    assert found and all(host in sentence and sentence.endswith(".") and "\n" not in sentence for sentence in found)
    # Whoever uses a role without that check has no traceback either.
    owned, wrong = _managers.owned_by_machines([gpu(0)], allotment, host)
    assert owned == [] and wrong
    (error,) = _allotment.device_errors(host, [gpu(0)], allotment, "opennebula")
    assert str(error).startswith(f"{host}: accelerator_allotment has no list of devices for ")


def test_a_host_without_a_manager_may_have_the_variable_of_all_hosts():
    """Set for all hosts, also for the front end; but what is wrong in it is said there, too."""
    groups = {"slurm_nodes": [], "opennebula_hosts": []}
    assert _allotment.errors({"front": shared([FIRST], [SECOND])}, (SLURM, OPENNEBULA), groups) == []
    (found,) = _allotment.errors({"front": {"slrum": {"devices": []}}}, (SLURM, OPENNEBULA), groups)
    assert str(found).startswith("accelerator_allotment of front names 'slrum', but the managers are slurm, opennebula: ")


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
    (error,) = _allotment.device_errors("both", [gpu(0)], shared([FIRST, "0000:77:00.0"], []), "slurm")
    assert str(error) == (
        "accelerator_allotment of both gives 0000:77:00.0 to slurm, but the host has no such device; it has 0000:01:00.0: "
        "correct it, or remove it from accelerator_allotment of both."
    )
    assert (error.host, error.device) == ("both", "0000:77:00.0")


@pytest.mark.parametrize("manager", ["slurm", "opennebula"])
def test_a_gpu_and_its_own_instance_are_one_device(manager):
    whole = mig_gpu(0, ["1g.10gb", "2g.20gb"])
    (error,) = _allotment.device_errors("both", [whole, gpu(1)], shared(["MIG-0-1"], [FIRST, SECOND]), manager)
    assert str(error) == (
        "accelerator_allotment of both gives 0000:01:00.0 to opennebula and MIG-0-1, a MIG instance of that GPU, to slurm: "
        "list the GPU or its instances, not both."
    )
    assert (error.host, error.device) == ("both", FIRST)
    assert _allotment.device_errors("both", [whole, gpu(1)], shared(["MIG-0-1"], [SECOND]), manager) == []


def test_passthrough_takes_no_gpu_with_an_instance_of_another_manager():
    whole = mig_gpu(0, ["1g.10gb", "2g.20gb"])
    owned, (wrong,) = _managers.owned_by_machines([whole, gpu(1)], shared(["MIG-0-1"], [FIRST, SECOND]), "both")
    assert owned == [SECOND] and "MIG-0-1, a MIG instance of that GPU, to slurm" in wrong
    assert _managers.owned_by_machines([whole, gpu(1)], shared(["MIG-0-1"], [SECOND]), "both") == ([SECOND], [])
