# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The program that publishes a Kubernetes cluster, given what the API lists."""

from __future__ import annotations

import importlib
import json
import pathlib
import re
import sys

import pytest

FILES = pathlib.Path(__file__).resolve().parents[3] / "roles/kubernetes_information/files"
SERVICE = "urn:kubernetes:site"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FILES))
    yield importlib.import_module("kubernetes_information")
    sys.modules.pop("kubernetes_information", None)


def node(name, types=None, gpus=0, ready="True", away=False, resource="nvidia.com/gpu", **notes):
    labels = {f"accelerators.deephdc.org/{key}": str(count) for key, count in (types or {}).items()}
    annotations = {f"accelerators.deephdc.org/{key}": value for key, value in notes.items()}
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "110", "hugepages-1Gi": "0", **({resource: str(gpus)} if types else {})}
    status = {
        "allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": ready, "message": "kubelet is silent"}],
        "nodeInfo": {"architecture": "amd64", "osImage": "Debian", "kubeletVersion": "v1.37.2"},
    }
    metadata = {"name": name, "labels": {**labels, "accelerators.deephdc.org/device-plugin": "nvidia-1"}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"unschedulable": away} if away else {}, "status": status}


def pod(account, on="gpu1", gpus=0, cpu="500m", memory="1Gi", phase="Running", resource="nvidia.com/gpu", init=()):
    limits = {resource: str(gpus)} if gpus else {}
    containers = [{"resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}}]
    return {
        "metadata": {"namespace": account, "name": "x"},
        "spec": {"nodeName": on, "containers": containers, "initContainers": list(init)},
        "status": {"phase": phase},
    }


NODES = [node("gpu2", {"t4": 2}, 2, away=True, drained="new fan"), node("gpu1", {"a100": 2}, 2), node("cp1")]
PODS = [
    pod("physics", gpus=1),
    pod("physics", gpus=1, phase="Succeeded"),
    pod("chemistry", "gpu2", gpus=2),
    pod("physics", None, gpus=2, phase="Pending"),
    pod("kube-system", "cp1"),
]


@pytest.fixture
def seen(program):
    given = {"time": 1_000_000, "up": True, "error": "", "cluster": "site", "version": "v1.37.2"}
    return {**given, **program.status_of(NODES, PODS)}


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 0.5), ("2", 2), ("16Gi", 16 * 2**30), ("1k", 1000), ("1e3", 1000), ("1.5", 1.5), (4, 4), ("?", 0), (None, 0)],
)
def test_amounts(program, text, value):
    assert program.quantity(text) == pytest.approx(value)


def test_nodes(seen):
    cp1, gpu1, gpu2 = seen["nodes"]
    assert [one["name"] for one in seen["nodes"]] == ["cp1", "gpu1", "gpu2"]
    assert (cp1["gres"], cp1["usable"]) == ([], True)
    assert gpu1["gres"] == [{"name": "gpu", "type": "a100", "resource": "nvidia.com/gpu", "total": 2, "used": 1}]
    assert (gpu1["cpus"], gpu1["memory_mib"]) == ({"total": 4, "used": 0.5}, {"total": 16384, "used": 1024})
    assert (gpu2["gres"][0]["used"], gpu2["usable"], gpu2["flags"], gpu2["reason"]) == (2, False, ["cordoned"], "new fan")


def test_a_node_that_is_not_ready(program):
    (one,) = program.status_of([node("w1", ready="Unknown")], [])["nodes"]
    assert (one["state"], one["usable"], one["reason"]) == ("notready", False, "kubelet is silent")


def test_pods_by_account(seen):
    groups = {(one["account"], one["state"]): one for one in seen["pods"]}
    assert {key: one["count"] for key, one in groups.items()} == {
        ("chemistry", "running"): 1,
        ("kube-system", "running"): 1,
        ("physics", "pending"): 1,
        ("physics", "running"): 1,
    }
    assert dict(groups["physics", "running"]["gpus"]) == {"a100": 1}
    assert dict(groups["physics", "pending"]["gpus"]) == {}


def test_a_pod_has_what_its_containers_have_at_once(program):
    """An init container that ended gave its devices back; one that goes on keeps them."""
    ask = {"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}}
    assert program.of_pod(pod("x", gpus=1, init=[ask]))["nvidia.com/gpu"] == 1
    assert program.of_pod(pod("x", gpus=1, init=[{**ask, "restartPolicy": "Always"}]))["nvidia.com/gpu"] == 2
    assert program.of_pod(pod("x", gpus=0, init=[ask]))["nvidia.com/gpu"] == 1
    assert program.of_pod(pod("x", gpus=1, init=[ask]))["cpu"] == 2


def test_types_of_divided_and_mixed_devices(program):
    divided = node("m1", {"a100_1g.5gb": 4, "t4": 1}, 4, resource="nvidia.com/mig-1g.5gb")
    divided["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    divided["status"]["allocatable"]["vendor.example/nic"] = "1"
    gres = program.status_of([divided], [])["nodes"][0]["gres"]
    assert [(one["name"], one["type"]) for one in gres] == [("gpu", "t4"), ("gpu", "a100_1g.5gb"), ("nic", "")]
    several = program.status_of([node("m2", {"a100": 1, "t4": 1}, 2)], [pod("x", "m2", gpus=1)])
    assert several["nodes"][0]["gres"][0]["type"] == "a100+t4"
    assert dict(several["pods"][0]["gpus"]) == {"a100+t4": 1}


def test_metrics(program, seen):
    text = program.metrics(seen)
    for line in (
        "kubernetes_up 1",
        'kubernetes_info{cluster="site",version="v1.37.2"} 1',
        'kubernetes_node_usable{node="gpu2",state="ready"} 0',
        'kubernetes_node_gres{gres="gpu",node="gpu1",type="a100"} 2',
        'kubernetes_node_gres_allocated{gres="gpu",node="gpu2",type="t4"} 2',
        'kubernetes_account_pods{account="physics",state="pending"} 1',
        'kubernetes_account_gpus_allocated{account="physics",type="a100"} 1',
        'kubernetes_account_gpus_allocated{account="chemistry",type="t4"} 2',
        'kubernetes_account_cpus_allocated{account="kube-system"} 0.5',
    ):
        assert f"{line}\n" in text
    families = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
    assert len(families) == len(set(families)) > 10
    samples = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples)), "each sample once"


def test_glue2(program, seen):
    document = program.glue2(seen, SERVICE, "site.example")
    (service,) = document["ComputingService"]
    assert (service["TotalJobs"], service["RunningJobs"], service["WaitingJobs"]) == (4, 3, 1)
    (manager,) = document["ComputingManager"]
    assert (manager["TotalAcceleratorSlots"], manager["UsedAcceleratorSlots"]) == (4, 3)
    assert [(one["Name"], one["Vendor"], one["OtherInfo"]) for one in document["AcceleratorEnvironment"]] == [
        ("a100", "NVIDIA", ["TotalAccelerators=2", "UsedAccelerators=1"]),
        ("t4", "NVIDIA", ["TotalAccelerators=2", "UsedAccelerators=2"]),
    ]
    physics = next(one for one in document["ComputingShare"] if one["Name"] == "physics")
    # What gpu2 has can't be given: it is cordoned.
    assert (physics["UsedAcceleratorSlots"], physics["FreeAcceleratorSlots"]) == (1, 1)
    assert document["AdminDomain"][0]["ID"] == "site.example"
    assert all("CreationTime" in one for members in document.values() for one in members)


def test_records_of_a_cmdb(program, seen):
    service, a100, t4 = program.cmdb(seen, SERVICE, "")
    assert (service["type"], service["_id"], "sitename" in service["data"]) == ("service", SERVICE, False)
    assert a100["data"] == {
        "service": SERVICE,
        "name": "a100",
        "num_gpus": 2,
        "gpu_vendor": "NVIDIA",
        "gpu_model": "a100",
        "total_gpus": 2,
        "used_gpus": 1,
    }
    assert t4["data"]["used_gpus"] == 2


def kubeconfig(tmp_path, server):
    config = {"clusters": [{"cluster": {"server": server, "certificate-authority-data": ""}}], "users": [{"user": {"token": "x"}}]}
    (tmp_path / "config").write_text(json.dumps(config), encoding="utf-8")
    return str(tmp_path / "config")


def test_an_api_that_does_not_answer(program, tmp_path, monkeypatch):
    """Nothing is known then, and nothing is published as zero; former records stay."""
    monkeypatch.setattr(program.ssl, "create_default_context", lambda cadata: None)
    (tmp_path / "cmdb.json").write_text("former", encoding="utf-8")
    said = program.main(kubeconfig(tmp_path, "http://127.0.0.1:1"), str(tmp_path), "site", SERVICE)
    assert said.startswith("/version of http://127.0.0.1:1: ")
    text = (tmp_path / "kubernetes_metrics.prom").read_text(encoding="utf-8")
    assert "kubernetes_up 0\n" in text and "node" not in text
    document = json.loads((tmp_path / "glue2.json").read_text(encoding="utf-8"))
    assert document["ComputingEndpoint"][0]["HealthState"] == "critical"
    assert "TotalJobs" not in document["ComputingService"][0]
    assert (tmp_path / "cmdb.json").read_text(encoding="utf-8") == "former"


def test_long_lists_come_in_pages(program, tmp_path, monkeypatch):
    pages = {"": ([1, 2], "abc"), "abc": ([3], "")}
    asked = []

    def ask(self, path):
        asked.append(path)
        items, more = pages[path.partition("&continue=")[2]]
        return {"items": items, "metadata": {"continue": more} if more else {}}

    monkeypatch.setattr(program.ssl, "create_default_context", lambda cadata: None)
    monkeypatch.setattr(program.Api, "ask", ask)
    assert program.Api(kubeconfig(tmp_path, "https://x")).listed("pods") == [1, 2, 3]
    assert len(asked) == 2
