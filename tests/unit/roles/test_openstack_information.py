# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that publishes an OpenStack cloud, given what the APIs list."""

from __future__ import annotations

import importlib
import json
import pathlib
import re
import sys

import pytest

FILES = pathlib.Path(__file__).resolve().parents[3] / "roles/openstack_information/files"
SERVICE = "urn:openstack:site"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FILES))
    yield importlib.import_module("openstack_information")
    sys.modules.pop("openstack_information", None)


def inventory(total, reserved=0):
    return {"total": total, "reserved": reserved}


class Answer:
    def __init__(self, content, status_code=200):
        self.content, self.status_code = content, status_code

    def json(self):
        return self.content


class Sdk:
    """A cloud: lxd1 has a100, one in use and one lost; lxd2 is drained and has one t4."""

    def __init__(self):
        self.asked = []
        self.broken = ""
        for name in ("compute", "placement", "identity", "image"):
            setattr(self, name, Part(self, name))
        gpu = "CUSTOM_GPU_A100"
        self.inventories = {
            "r1": {"VCPU": inventory(8), "MEMORY_MB": inventory(16384, 512), "DISK_GB": inventory(100)},
            "g1": {gpu: inventory(1)},
            "g2": {gpu: inventory(1, 1)},
            "g3": {gpu: inventory(1)},
            "r2": {"VCPU": inventory(4), "MEMORY_MB": inventory(8192)},
            "g4": {"CUSTOM_GPU_T4": inventory(1)},
        }
        self.usages = {"r1": {"VCPU": 3, "MEMORY_MB": 1024}, "g1": {gpu: 1}}
        names = {"r1": "lxd1", "g1": "lxd1_gpu_1", "g2": "lxd1_gpu_2", "g3": "lxd1_gpu_3", "r2": "lxd2", "g4": "lxd2_gpu_1"}
        roots = {"g1": "r1", "g2": "r1", "g3": "r1", "g4": "r2"}
        self.providers = [{"uuid": key, "name": name, "root_provider_uuid": roots.get(key, key)} for key, name in names.items()]
        self.servers = [server(1, "p1", "ACTIVE", 2), server(2, "p1", "SHUTOFF", 1), server(3, "p2", "ERROR", 1)]


def server(number, project, status, cpus):
    return {"id": f"i{number}", "name": "secret-name", "tenant_id": project, "status": status, "flavor": {"vcpus": cpus}}


class Part:
    def __init__(self, sdk, name):
        self.sdk, self.name = sdk, name

    def get(self, path, params=None, microversion=None, raise_exc=True):
        assert raise_exc is False and microversion == {"compute": "2.61", "placement": "1.14"}.get(self.name)
        self.sdk.asked.append((self.name, path, params))
        if self.sdk.broken == self.name:
            return Answer({}, 503)
        return Answer(self.answer(path, params))

    def answer(self, path, params):
        if path == "/os-services":
            one, two = ({"host": name, "state": "up", "status": "enabled", "disabled_reason": None} for name in ("lxd1", "lxd2"))
            return {"services": [{**two, "status": "disabled", "disabled_reason": "drained: fan"}, one]}
        if path == "/servers/detail":
            assert params["all_tenants"] == "1"
            begin = [one["id"] for one in self.sdk.servers].index(params["marker"]) + 1 if "marker" in params else 0
            return {"servers": self.sdk.servers[begin : begin + 2]}
        if path == "/flavors/detail":
            gpus = {"resources:CUSTOM_GPU_A100": "1", "Accelerator:Type": "GPU", "Accelerator:Number": "1", "Accelerator:Vendor": "nvidia"}
            base = {"vcpus": 2, "ram": 1024, "disk": 10}
            return {
                "flavors": [
                    {"id": "f2", "name": "small", **base, "extra_specs": {}},
                    {"id": "f1", "name": "gpu", **base, "extra_specs": gpus},
                ]
            }
        if path == "/images":
            assert params["visibility"] == "public"
            return {"images": [{"id": "m1", "name": "debian", "os_distro": "debian", "os_version": "12", "architecture": "x86_64"}]}
        if path == "/projects":
            return {"projects": [{"id": "p1", "name": "physics"}, {"id": "p2", "name": "biology"}]}
        if path == "/usages":
            return {"usages": {"CUSTOM_GPU_A100": 1, "VCPU": 3} if params["project_id"] == "p1" else {"VCPU": 1}}
        if path == "/resource_providers":
            return {"resource_providers": self.sdk.providers}
        _root, _kind, uuid, kind = path.split("/")
        return {kind: getattr(self.sdk, kind).get(uuid, {})}


@pytest.fixture
def seen(program):
    return program.status("deephdc-admin", lambda _name: program.Cloud(Sdk()))


def test_hosts(seen):
    assert seen["up"], seen["error"]
    lxd1, lxd2 = seen["nodes"]
    assert (lxd1["name"], lxd1["cpus"], lxd1["memory_mib"], lxd1["usable"]) == (
        "lxd1",
        {"total": 8, "used": 3},
        {"total": 16384, "used": 1024},
        True,
    )
    a100 = {"name": "gpu", "type": "a100", "resource": "CUSTOM_GPU_A100", "total": 3, "used": 1, "reserved": 1, "free": 1}
    assert lxd1["gres"] == [a100]
    assert (lxd2["usable"], lxd2["flags"], lxd2["reason"]) == (False, ["disabled"], "drained: fan")
    assert (lxd2["gres"][0]["total"], lxd2["gres"][0]["free"]) == (1, 0), "a disabled host gives none"


def test_servers_by_account_over_pages(seen):
    assert {(one["account"], one["state"]): (one["count"], one["cpus"]) for one in seen["servers"]} == {
        ("biology", "failed"): (1, 1),
        ("physics", "halted"): (1, 1),
        ("physics", "running"): (1, 2),
    }
    assert seen["gpus"] == {"biology": {}, "physics": {"a100": 1}}


def test_metrics(program, seen):
    text = program.metrics(seen)
    for line in (
        "openstack_up 1",
        'openstack_node_usable{node="lxd2",state="up"} 0',
        'openstack_node_gres{gres="gpu",node="lxd1",type="a100"} 3',
        'openstack_node_gres_allocated{gres="gpu",node="lxd1",type="a100"} 1',
        'openstack_node_gres_reserved{gres="gpu",node="lxd1",type="a100"} 1',
        'openstack_account_servers{account="physics",state="running"} 1',
        'openstack_account_gpus_allocated{account="physics",type="a100"} 1',
    ):
        assert f"{line}\n" in text
    families = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
    assert len(families) == len(set(families)) > 10
    samples = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples)), "each sample once"


def test_glue2(program, seen):
    document = program.glue2(seen, SERVICE, "site.example")
    (service,) = document["CloudComputingService"]
    assert (service["TotalVM"], service["RunningVM"], service["HaltedVM"], service["SuspendedVM"]) == (3, 1, 1, 0)
    (manager,) = document["CloudComputingManager"]
    assert (manager["TotalAcceleratorSlots"], manager["UsedAcceleratorSlots"]) == (4, 1)
    (accelerator,) = document["CloudComputingVirtualAccelerator"]
    assert (accelerator["Number"], accelerator["Vendor"], accelerator["Model"]) == (1, "NVIDIA", "a100")
    assert accelerator["OtherInfo"] == ["TotalAccelerators=3", "UsedAccelerators=1", "FreeAccelerators=1"]
    assert accelerator["Associations"]["CloudComputingInstanceTypeID"] == [f"{SERVICE}:flavor:f1"]
    physics = next(one for one in document["CloudComputingShare"] if one["Name"] == "physics")
    assert (physics["TotalVM"], physics["UsedAcceleratorSlots"], physics["FreeAcceleratorSlots"]) == (2, 1, 1)
    assert [one["Name"] for one in document["CloudComputingInstanceType"]] == ["gpu", "small"]
    assert document["CloudComputingImage"][0]["OSName"] == "debian"
    assert document["AdminDomain"][0]["ID"] == "site.example"
    assert all("CreationTime" in one for members in document.values() for one in members)


def test_records_of_a_cmdb(program, seen):
    records = {record["_id"]: record for record in program.cmdb(seen, SERVICE, "")}
    assert [record["type"] for record in records.values()] == ["service", "flavor", "flavor", "image", "accelerator", "accelerator"]
    flavor = records[f"{SERVICE}:flavor:f1"]["data"]
    assert (flavor["num_gpus"], flavor["gpu_vendor"], flavor["gpu_model"], flavor["total_gpus"], flavor["free_gpus"]) == (
        1,
        "NVIDIA",
        "a100",
        3,
        1,
    )
    assert flavor["accelerator"] == {"Type": "GPU", "Number": "1", "Vendor": "nvidia"}
    assert "total_gpus" not in records[f"{SERVICE}:flavor:f2"]["data"]
    assert records[f"{SERVICE}:lxd1:a100"]["data"]["reserved_gpus"] == 1


def test_names_and_ids_of_servers_are_not_published(program, seen):
    for text in (program.metrics(seen), json.dumps(program.glue2(seen, SERVICE, "")), json.dumps(program.cmdb(seen, SERVICE, ""))):
        assert "secret-name" not in text and '"i1"' not in text


@pytest.mark.parametrize("part", ["compute", "placement", "identity", "image"])
def test_an_api_that_does_not_answer(program, tmp_path, monkeypatch, part):
    """Nothing is known then, and nothing is published as zero; former records stay."""
    sdk = Sdk()
    sdk.broken = part
    monkeypatch.setattr(program.status, "__defaults__", (lambda _name: program.Cloud(sdk),))
    (tmp_path / "cmdb.json").write_text("former", encoding="utf-8")
    assert f"of {part} answers with the error 503" in program.main("deephdc-admin", str(tmp_path), SERVICE)
    text = (tmp_path / "openstack_metrics.prom").read_text(encoding="utf-8")
    assert "openstack_up 0\n" in text and "node" not in text
    document = json.loads((tmp_path / "glue2.json").read_text(encoding="utf-8"))
    assert document["CloudComputingEndpoint"][0]["HealthState"] == "critical"
    assert "TotalVM" not in document["CloudComputingService"][0]
    assert (tmp_path / "cmdb.json").read_text(encoding="utf-8") == "former"


def test_a_cloud_that_can_not_be_entered(program, monkeypatch):
    monkeypatch.setitem(sys.modules, "openstack", None)
    found = program.status("deephdc-admin")
    assert (found["up"], found["nodes"]) == (False, []) and "the cloud deephdc-admin can't be entered" in found["error"]
