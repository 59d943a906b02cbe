# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The modules kubernetes_offers and kubernetes_gpu_pods_info: what is offered, and who has GPUs."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import Refused
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_gpu_pods_info, kubernetes_offers
from ansible_collections.deephdc.accelerators.plugins.modules.kubernetes_gpu_pods_info import way_of
from ansible_collections.deephdc.accelerators.plugins.modules.kubernetes_offers import compare, published

DEVICE = {"uuid": "GPU-1", "device": "a100 at 0000:01:00.0"}


def expected(allocatable=None, devices=()):
    return [{"host": "gpu-1", "node": "w1", "allocatable": allocatable or {}, "devices": list(devices)}]


@pytest.fixture
def kubectl(monkeypatch, tmp_path):
    """What kubectl answers, by the first word after get; a text is a refusal.

    Each list of answers is used up but for its last.
    """
    answers: dict = {}

    class Fake:
        def __init__(self, module):
            pass

        def _next(self, kind):
            found = answers.get(kind, [])
            if isinstance(found, str):
                raise Refused(found)
            if found and isinstance(found[0], list):
                return found.pop(0) if len(found) > 1 else found[0]
            return found

        def __call__(self, *words, given=None):
            return "\n".join(self._next(words[1]))

        def listed(self, *words):
            return self._next(words[0])

        def find(self, *words):
            return (self._next(words[0]) or [None])[0]

    for module in (kubernetes_offers, kubernetes_gpu_pods_info):
        monkeypatch.setattr(module, "Kubectl", Fake)
    monkeypatch.setattr(kubernetes_offers, "POLL", 0.01)
    path = tmp_path / "admin.conf"
    path.touch()
    answers["path"] = str(path)
    return answers


def node(**allocatable):
    return {
        "metadata": {"name": "w1"},
        "status": {"allocatable": {name.replace("_", "/"): str(count) for name, count in allocatable.items()}},
    }


def part(*devices, driver="gpu.nvidia.com", name="w1"):
    listed = [
        {"name": f"gpu-{number}", "attributes": {"type": {"string": kind}, "uuid": {"string": uuid}}}
        for number, (kind, uuid) in enumerate(devices)
    ]
    return {"spec": {"driver": driver, "nodeName": name, "devices": listed}}


# --- kubernetes_offers ---


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        (1, "gpu-1 offers 1 nvidia.com/gpu, but 2 were promised: look at the pod of its device plugin."),
        (3, "gpu-1 offers 3 nvidia.com/gpu, but 2 were promised: find out what else offers them."),
    ],
)
def test_allocatable_is_neither_less_nor_more(there, sentence):
    assert compare(expected({"nvidia.com/gpu": 2}), {"w1": {"nvidia.com/gpu": str(there)}}, {}, False)[1] == [sentence]
    assert compare(expected({"nvidia.com/gpu": 2}), {"w1": {"nvidia.com/gpu": "2"}}, {}, False) == (["gpu-1: 2 nvidia.com/gpu of 2"], [])


def test_a_device_plugin_beside_dra_is_named():
    _lines, wrong = compare(expected({"nvidia.com/gpu": 0}, [DEVICE]), {"w1": {"nvidia.com/gpu": "1"}}, {"w1": {"GPU-1": "gpu-0"}}, False)
    assert wrong == ["gpu-1 offers 1 nvidia.com/gpu, but 0 were promised: find out what else offers them."]
    assert compare(expected({"nvidia.com/gpu": 0}, [DEVICE]), {"w1": {}}, {"w1": {"GPU-1": "gpu-0"}}, False) == (
        ["gpu-1: 1 devices of 1 in ResourceSlices"],
        [],
    )


def test_devices_of_slices_are_neither_less_nor_more():
    wanted = expected(devices=[DEVICE])
    (sentence,) = compare(wanted, {"w1": {}}, {}, False)[1]
    assert sentence == "gpu-1: a100 at 0000:01:00.0 (GPU-1) was promised, but no ResourceSlice has it: look at the pod of the DRA driver."
    both = {"w1": {"GPU-1": "gpu-0", "GPU-2": "gpu-1"}}
    (sentence,) = compare(wanted, {"w1": {}}, both, False)[1]
    assert sentence == "gpu-1: a ResourceSlice offers gpu-1 (GPU-2), which was not promised: look at the host with gpu_facts."
    assert compare(wanted, {"w1": {}}, both, True)[1] == [], "no class has it"


def test_a_node_that_is_not_there():
    assert compare(expected({"nvidia.com/gpu": 2}), {}, {}, False)[1] == [
        "gpu-1: the cluster has no node w1: let the host join, then run again."
    ]


def test_only_gpus_of_the_driver_count(kubectl):
    kubectl["resourceslices.resource.k8s.io"] = [
        part(("gpu", "GPU-1"), ("vfio", "GPU-9")),
        part(("mig", "MIG-1")),
        part(("gpu", "GPU-7"), driver="other.example.org"),
        part(("gpu", "GPU-8"), name=None),
    ]
    assert published(kubernetes_offers.Kubectl(None), "gpu.nvidia.com") == ({"w1": {"GPU-1": "gpu-0", "MIG-1": "gpu-0"}}, {})


def test_it_waits_until_all_is_offered(run, kubectl):
    kubectl["nodes"] = [[node()], [node(**{"nvidia.com_gpu": 1})], [node(**{"nvidia.com_gpu": 2})]]
    found = run(kubernetes_offers, expected=expected({"nvidia.com/gpu": 2}), wait=10)
    assert (found["offered"], found["changed"]) == (["gpu-1: 2 nvidia.com/gpu of 2"], False)


def test_it_fails_with_all_that_differs(run, kubectl):
    kubectl["nodes"], kubectl["resourceslices.resource.k8s.io"] = [node()], []
    found = run(kubernetes_offers, expected=expected({"amd.com/gpu": 1}, [DEVICE]), wait=0)
    assert found["failed"] and len(found["msg"].splitlines()) == 2
    assert "gpu-1 offers 0 amd.com/gpu, but 1 was promised" in found["msg"]


def test_slices_are_not_read_where_no_device_is_promised(run, kubectl):
    kubectl["nodes"], kubectl["resourceslices.resource.k8s.io"] = [node(**{"nvidia.com_gpu": 1})], "no such kind"
    assert not run(kubernetes_offers, expected=expected({"nvidia.com/gpu": 1}), wait=0).get("failed")


def test_in_check_mode_nothing_was_delivered(run, kubectl):
    kubectl["nodes"] = "no API"
    assert run(kubernetes_offers, expected=expected({"nvidia.com/gpu": 1}), _ansible_check_mode=True)["offered"] == []
    assert "no API" in run(kubernetes_offers, expected=expected({"nvidia.com/gpu": 1}))["msg"]


# --- kubernetes_gpu_pods_info ---


def pod(name="p", limits=None, phase="Running", node_name="w1", claims=(), **status):
    container = {"resources": {"limits": dict.fromkeys(limits or [], 1)}}
    spec = {"containers": [container], **({"nodeName": node_name} if node_name else {}), "resourceClaims": list(claims)}
    return {"metadata": {"name": name, "namespace": "a"}, "spec": spec, "status": {"phase": phase, **status}}


CLAIMS = {("a", "mine"): {"gpu.nvidia.com"}, ("a", "net"): {"nic.example.org"}}


@pytest.mark.parametrize(
    ("one", "way"),
    [
        (pod(limits=["nvidia.com/gpu"]), "device_plugin"),
        (pod(limits=["nvidia.com/mig-1g.5gb"]), "device_plugin"),
        (pod(limits=["cpu", "amd.com/gpu"]), ""),
        (pod(limits=["nvidia.com/gpu"], extendedResourceClaimStatus={"resourceClaimName": "mine"}), "dra"),
        (pod(limits=["nvidia.com/gpu"], extendedResourceClaimStatus={"resourceClaimName": "net"}), ""),
        (pod(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "mine"}]), "dra"),
        (pod(claims=[{"name": "gpu", "resourceClaimName": "mine"}]), "dra"),
        (pod(claims=[{"name": "gpu", "resourceClaimName": "net"}]), ""),
        (pod(claims=[{"name": "gpu", "resourceClaimTemplateName": "mine"}]), ""),
    ],
)
def test_in_which_way_a_pod_has_a_gpu(one, way):
    assert way_of(one, CLAIMS) == way


def claim(name, driver="gpu.nvidia.com"):
    allocation = {"devices": {"results": [{"driver": driver}]}} if driver else None
    return {"metadata": {"name": name, "namespace": "a"}, "status": {"allocation": allocation}}


@pytest.fixture
def plugin(kubectl, monkeypatch):
    """A cluster with the device plugin, and one that has kubectl."""
    monkeypatch.setattr(kubernetes_gpu_pods_info.AnsibleModule, "get_bin_path", lambda self, name: name)
    kubectl["daemonsets.apps"] = ["daemonset.apps/nvidia-1", "daemonset.apps/amd-device-plugin"]
    kubectl["pods"] = [
        pod("one", ["nvidia.com/gpu"]),
        pod("over", ["nvidia.com/gpu"], "Succeeded"),
        pod("waits", ["nvidia.com/gpu"], node_name=""),
    ]
    kubectl["nodes"] = ["w1   nvidia-1"]
    return kubectl


def info(run, kubectl, **arguments):
    return run(kubernetes_gpu_pods_info, kubeconfig=kubectl["path"], **arguments)


def test_pods_are_read_where_the_way_changes(run, plugin):
    found = info(run, plugin, way="dra")
    assert found["known"] and found["ways"] == ["device_plugin"] and found["daemons"] == ["nvidia-1", "amd-device-plugin"]
    assert found["pods"] == [{"pod": "pod a/one", "node": "w1", "way": "device_plugin"}]
    plugin["pods"] = "they must not be read"
    assert info(run, plugin, way="device_plugin")["pods"] == []


def test_pods_are_read_where_a_node_gets_another_configuration(run, plugin):
    label = "accelerators.deephdc.org/device-plugin"
    same = info(run, plugin, way="device_plugin", nodes=[{"name": "w1", "labels": {label: "nvidia-1"}}])
    assert same["changing"] == same["pods"] == []
    found = info(run, plugin, way="device_plugin", nodes=[{"name": "w1", "labels": {label: "nvidia-2"}}])
    assert found["changing"] == ["w1"] and len(found["pods"]) == 1
    # A node that is not in the plan is left as it is.
    assert info(run, plugin, way="device_plugin", nodes=[{"name": "w2", "labels": {}}])["changing"] == []


def test_a_device_that_new_pods_do_not_get_is_not_offered(monkeypatch):
    taints = [{"key": "example.org/sick", "effect": "NoSchedule"}, {"key": "note", "effect": "None"}]
    devices = [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-1"}}, "taints": taints}]
    part = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "w1", "devices": devices}}
    monkeypatch.setattr(kubernetes_offers.Kubectl, "__init__", lambda self, module: None)
    monkeypatch.setattr(kubernetes_offers.Kubectl, "listed", lambda self, kind: [part])
    slices, tainted = published(kubernetes_offers.Kubectl(None), "gpu.nvidia.com")
    (sentence,) = compare(expected({"nvidia.com/gpu": 0}, [DEVICE]), {"w1": {}}, slices, False, tainted)[1]
    assert "has the taint example.org/sick:NoSchedule, so new pods do not get it" in sentence


def test_classes_and_the_objects_of_the_driver_are_dra(run, plugin):
    driver = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}]
    plugin["daemonsets.apps"] = []
    plugin["configmap"] = [{"data": {"objects": "objects " + json.dumps(driver)}}]
    plugin["deviceclasses.resource.k8s.io"] = ["deviceclass.resource.k8s.io/gpu.nvidia.com"]
    plugin["resourceclaims.resource.k8s.io"] = [claim("mine"), claim("net", "nic.example.org"), claim("waits", "")]
    plugin["pods"] = [pod("one", claims=[{"resourceClaimName": "mine"}])]
    found = info(run, plugin, way="device_plugin")
    assert (found["ways"], found["driver"], found["classes"]) == (["dra"], driver, ["gpu.nvidia.com"])
    assert found["claims"] == ["a/mine"] and found["pods"] == [{"pod": "pod a/one", "node": "w1", "way": "dra"}]
    assert info(run, plugin, way="dra")["pods"] == []


def test_where_there_is_no_cluster_nothing_is_known(run, plugin, tmp_path):
    assert run(kubernetes_gpu_pods_info, way="dra", kubeconfig=str(tmp_path / "none"))["known"] is False
    plugin["daemonsets.apps"] = "connection refused"
    assert info(run, plugin, way="dra")["known"] is False
