# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The records of the vendors, and what a new one costs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import facts, names, pci, vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator.host import SimulatedHost
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_facts
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._information import glue2
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres

PLUGINS = Path(__file__).parents[4] / "plugins"

# The code that may name AMD, and why. AMD is the measure, because no word of NVIDIA's is rare enough.
NAMES_AMD = {
    "module_utils/_gpu/vendors.py": "the record",
    "module_utils/_gpu/amd.py": "the reader",
    "module_utils/_gpu/health.py": "what can be wrong with its GPUs",
    "module_utils/_simulator/tree.py": "models to simulate, and the files that only its driver writes",
    "modules/gpu_facts.py": "documentation",
    "modules/iommu_facts.py": "documentation: it has the IOMMU of a CPU",
    "plugin_utils/_kubernetes/policy_rules.py": "variables of NVIDIA's runtime, which pods may not set",
    "plugin_utils/_kubernetes/vendor_plugins.py": "Kubernetes' own words for it: resource and directories",
    "plugin_utils/_passthrough/plan.py": "the IOMMU of a CPU",
    "plugin_utils/_slurm/gres.py": "SLURM's own word for it",
}


def read_kitt(root, entries, budget):
    for entry in entries:
        if entry["driver"] == "kitt":
            entry["memory_mib"] = pci.read_integer(pci.under(root, f"/sys/bus/pci/devices/{entry['pci_address']}/memory_mib"))


KITT = vendors.Vendor(
    pci_id="1982",
    name="knight",
    display_name="Knight Industries",
    drivers=("kitt",),
    read=read_kitt,
    useless_drivers={"karr": "it is bound to karr, which serves itself"},
    types={"0808": "trans_am"},
    name_patterns=(re.compile(r"\b(knight)( \d{4})\b"),),
    watchers=("bonnie",),
    file_patterns=("kitt[0-9]*",),
)
CAR = {"type": "x", "vendor_id": "1982", "device_id": "0808", "class": "120000", "model": "Knight 2000"}


@pytest.fixture
def with_kitt(monkeypatch):
    monkeypatch.setattr(vendors, "VENDORS", (*vendors.VENDORS, KITT))


def test_a_new_vendor_takes_one_record_from_the_device_to_a_gres(simulate, with_kitt):
    root = simulate(CAR)
    root.write(root.device("0000:01:00.0", "memory_mib"), "640\n")
    (car,) = facts.gather(str(root), pci_ids_paths=())
    assert (car["kind"], car["vendor"], car["type"], car["driver"], car["memory_mib"]) == ("gpu", "knight", "trans_am", "kitt", 640)
    assert car["device_files"] == ["/dev/dri/renderD128"] and car["health"] == []
    (unit,) = units.units([car])
    assert (unit.type, unit.vendor, unit.files) == ("trans_am", "knight", ("/dev/dri/renderD128",))
    assert gres.gres_of([car]) == "gpu:trans_am:1"
    assert gres.gres_conf([{"name": "gpu1", "accelerators": [car]}]) == (
        "AutoDetect=off\nNodeName=gpu1 Name=gpu Type=trans_am File=/dev/dri/renderD128\n"
    )
    assert facts.gather(str(root), ("knight",), pci_ids_paths=()) == [car]
    assert facts.gather(str(root), ("nvidia", "other"), pci_ids_paths=()) == []
    assert glue2.accelerator_environments([car], "host")[0]["Vendor"] == "Knight Industries"


def test_without_the_record_the_device_is_of_no_known_vendor(simulate):
    (car,) = facts.gather(str(simulate(dict(CAR, driver="kitt"))), pci_ids_paths=())
    assert (car["kind"], car["vendor"], car["type"], car["memory_mib"], car["device_files"]) == (
        "accelerator",
        "other",
        "1982_0808",
        None,
        [],
    )


def test_a_new_vendors_useless_driver_and_names(simulate, with_kitt):
    (car,) = facts.gather(str(simulate(dict(CAR, driver="karr"))), pci_ids_paths=())
    (entry,) = units.unschedulable([car])
    assert entry["reason"] == "trans_am at 0000:01:00.0 can't be scheduled: it is bound to karr, which serves itself."
    assert facts.kind_of({"class": "030000", "vendor_id": "1982", "device_id": "0909"}) == "gpu"
    assert names.short_type("1982", "0909", "Knight 3000") == "knight_3000"
    assert "bonnie" in vendors.watchers()


def test_a_new_vendors_own_files_keep_the_simulator_away(simulate, with_kitt, tmp_path):
    system = simulate(CAR)
    system.remove("dev/dri/renderD128")
    system.write(".dockerenv", "")
    host = SimulatedHost(str(tmp_path / "simulated"), str(system))
    assert host.real_gpu() is None
    system.write("dev/kitt0", "")
    host.node_numbers = lambda path: None
    assert host.real_gpu() == "a real GPU at 0000:01:00.0 and its /dev/kitt0"


@pytest.mark.parametrize("values", ["pci_id", "name", "display_name", "drivers", "useless_drivers"])
def test_no_two_records_claim_the_same(values):
    claimed = [getattr(vendor, values) for vendor in vendors.VENDORS]
    single = [value for item in claimed for value in ([item] if isinstance(item, str) else item)]
    assert len(single) == len(set(single))


@pytest.mark.parametrize("vendor", vendors.VENDORS, ids=lambda vendor: vendor.name)
def test_a_record_is_well_formed(vendor):
    assert re.fullmatch(r"[0-9a-f]{4}", vendor.pci_id) and re.fullmatch(r"[a-z]+", vendor.name)
    assert vendor.drivers and not set(vendor.drivers) & set(vendor.useless_drivers)
    assert all(f"it is bound to {'nova' if driver == 'NovaCore' else driver}" in why for driver, why in vendor.useless_drivers.items())
    for device_id, type_ in vendor.types.items():
        assert re.fullmatch(r"[0-9a-f]{4}", device_id) and re.fullmatch(r"[a-z0-9_]+", type_)


def test_the_vendors_of_gpu_facts_are_those_of_the_records():
    option = yaml.safe_load(gpu_facts.DOCUMENTATION)["options"]["vendors"]
    assert option["choices"] == option["default"] == list(vendors.names())


def test_only_these_files_name_one_vendor():
    files = {str(path.relative_to(PLUGINS)) for path in PLUGINS.rglob("*.py")}
    word = re.compile(r"\b(amd|amdgpu|rocm|rocm_smi)\b", re.IGNORECASE)
    assert {name for name in files if word.search((PLUGINS / name).read_text(encoding="utf-8"))} == set(NAMES_AMD)
