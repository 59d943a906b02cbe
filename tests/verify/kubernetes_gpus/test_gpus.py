# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The ways in which pods get GPUs: time slicing, dynamic resource allocation, and the way from one to the other and back.

A test begins with what the one before left; the last one leaves the cluster as it was.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from kubernetes_devices import DRIVER, device_of
from kubernetes_site import BUSYBOX, KUBECTL, PLAYBOOK, TRY, Site, recap

OWNS = (
    "roles/kubernetes_cluster/tasks/gpus*.yml",
    "roles/kubernetes_node/tasks/gpus.yml",
    "plugins/modules/kubernetes_gpu_pods_info.py",
    "plugins/modules/kubernetes_offers.py",
    "plugins/plugin_utils/_kubernetes/dra.py",
    "plugins/plugin_utils/_kubernetes/gpu_modes.py",
    "plugins/plugin_utils/_kubernetes/sharing.py",
    "tests/kubernetes/programs/gpu-dra",
    "tests/kubernetes/stand_ins/gpu-dra.yml",
    "tests/verify/kubernetes_devices.py",
)

SIMULATED = "/var/lib/gpu_simulator"
DRA = {"kubernetes_cluster_gpus": "dra", "kubernetes_cluster_dra_manifests": DRIVER}
WORKERS = ("gpu1", "gpu2")
# What concerns GPUs alone; the plan is made in any case.
ONLY = ("--tags", "kubernetes_cluster,validate")
LOST = "AcceleratorLost"
IS_BOOKWORM = os.environ["LOCAL_RELEASE"] == "bookworm"
with_dra = pytest.mark.skipif(IS_BOOKWORM, reason="because Debian 12 has containerd 1.6, with which dra is refused")
ALLOCATABLE = f"{KUBECTL} get node gpu1 -o jsonpath='{{.status.allocatable.nvidia\\.com/gpu}}'"


def run(site: Site, succeeds: bool = True, inventories: tuple[str, ...] = ("hosts.yml",), **variables: Any) -> str:
    """A run over what concerns GPUs, in one line."""
    variables.setdefault("kubernetes_cluster_offer_wait", 60 if succeeds else 8)
    return " ".join(site.playbook(PLAYBOOK, *ONLY, variables=variables, succeeds=succeeds, inventories=inventories).split())


def claiming(site: Site, name: str, gpu_class: str = "gpu.nvidia.com", node: str = "") -> None:
    """A user's pod with its own claim."""
    device = {"name": "gpu", "exactly": {"deviceClassName": gpu_class}}
    template = {"spec": {"devices": {"requests": [device]}}}
    site.kubectl(
        "create -f -", {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": template}
    )
    container = {
        "name": "c",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{TRY}sleep 600"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
        "containers": [container],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    site.kubectl("create -f -", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def forget(site: Site, *names: str) -> None:
    site.remove(*names)
    site.kubectl(f"delete resourceclaimtemplate --ignore-not-found {' '.join(names)}")


def test_sharing_is_not_changed_under_a_pod(site: Site):
    site.start("whole", gpus=1, node="gpu1")
    site.phase("whole", "Running")
    try:
        said = run(site, succeeds=False, kubernetes_cluster_gpu_sharing="shard:2")
        assert "gpu1 has pods with GPUs (pod default/whole), so the sharing of its GPUs can't be changed" in said
        assert site.node("gpu1")["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    finally:
        site.remove("whole")


def test_two_pods_share_each_gpu_in_turns(site: Site):
    said = run(site, kubernetes_cluster_gpu_sharing="shard:2")
    assert "gpu1: 4 nvidia.com/gpu of 4" in said and "gpu2: 4 nvidia.com/gpu of 4" in said
    names = [f"share{number}" for number in range(5)]
    for name in names:
        site.start(name, f"{TRY}sleep 600", gpus=1, node="gpu1")
    try:
        site.kubectl("wait --for=jsonpath={.status.phase}=Running --timeout=60s pod share0 share1 share2 share3")
        devices = [device_of(site, name)[1] for name in names[:4]]
        assert sorted(devices) == ["0", "0", "1", "1"]
        assert "Insufficient nvidia.com/gpu" in site.why("share4")
    finally:
        site.remove(*names)


def test_less_than_promised_is_named(site: Site):
    """NVIDIA's plugin sees that a GPU falls off the bus.

    What gpu_facts reads is as before.
    """
    uuid = site.out("gpu1", f"sed -n 's/^GPU UUID:[[:space:]]*//p' {SIMULATED}/proc/driver/nvidia/gpus/*/information | head -1")
    run(site)
    site.out("gpu1", f"mkdir -p {SIMULATED}/proc/driver/nvidia/lost && touch {SIMULATED}/proc/driver/nvidia/lost/{uuid}")
    try:
        site.until("cp1", ALLOCATABLE, "1")
        said = run(site, succeeds=False)
        assert "gpu1 offers 1 nvidia.com/gpu, but 2 were promised: look at the pod of its device plugin." in said
        assert "gpu2 offers" not in said
    finally:
        site.out("gpu1", f"rm -r {SIMULATED}/proc/driver/nvidia/lost")
        # It stays unhealthy as long as the plugin runs.
        site.kubectl("delete pod --namespace deephdc-accelerators --field-selector=spec.nodeName=gpu1")
        site.until("cp1", ALLOCATABLE, "2")


@pytest.mark.skipif(not IS_BOOKWORM, reason="because only Debian 12 has so old a containerd")
def test_dra_is_refused_where_a_pod_would_run_without_its_device(site: Site):
    said = run(site, succeeds=False, **DRA)
    for host in WORKERS:
        assert f"{host} has containerd 1.6" in said and "but kubernetes_cluster_gpus is dra, which needs 1.7" in said
    assert "Read the nodes" not in said, "before anything is changed"


@with_dra
def test_the_way_is_not_changed_under_a_pod(site: Site):
    site.start("working", gpus=1, node="gpu2")
    site.phase("working", "Running")
    try:
        said = run(site, succeeds=False, **DRA)
        assert "kubernetes_cluster_gpus can't change from device_plugin to dra while pods have GPUs (pod default/working)" in said
        assert "Read the nodes" not in said, "before anything is changed"
        assert site.get("daemonsets --namespace deephdc-accelerators")["items"]
    finally:
        site.remove("working")


@with_dra
def test_dynamic_resource_allocation_takes_the_place_of_the_plugin(site: Site):
    said = run(site, **DRA)
    for host in WORKERS:
        assert f"{host}: 2 devices of 2 in ResourceSlices" in said
        # Else, five minutes later, kubelet would start no pod that asks as old files do.
        remembered = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
        assert site.out(host, f"grep -c nvidia.com {remembered} || true") in ("", "0")
    # The proof asks as users' old files do.
    assert "gpu1: nvidia.com/gpu: /dev/nvidia" in said and "gpu2: nvidia.com/gpu: /dev/nvidia" in said
    assert not site.get("daemonsets --namespace deephdc-accelerators")["items"]
    classes = {one["metadata"]["name"]: one["spec"].get("extendedResourceName") for one in site.get("deviceclasses")["items"]}
    assert classes == {"gpu.nvidia.com": "nvidia.com/gpu", "a100.gpu.nvidia.com": None, "t4.gpu.nvidia.com": None}
    again = site.playbook(PLAYBOOK, *ONLY, variables=DRA)
    for host in ("cp1", *WORKERS):
        assert "changed=0" in recap(again, host), again[-4000:]


@with_dra
def test_each_claim_has_its_own_device(site: Site):
    """Old files and claims draw on the same four devices."""
    old, new = ["old1", "old2"], ["new1", "new2", "new3"]
    try:
        for name in old:
            site.start(name, f"{TRY}sleep 600", gpus=1)
        for name in old:
            site.phase(name, "Running")
        for name in new[:2]:
            claiming(site, name)
        found = [device_of(site, name) for name in (*old, *new[:2])]
        assert sorted(found) == [(host, number) for host in WORKERS for number in ("0", "1")]
        claiming(site, new[2])
        assert "cannot allocate all claims" in site.why(new[2])
        site.remove("old1")
        assert device_of(site, new[2]) == found[0]
    finally:
        forget(site, *old, *new)


@with_dra
def test_a_class_for_each_type(site: Site):
    claiming(site, "typed", "t4.gpu.nvidia.com")
    try:
        assert device_of(site, "typed")[0] == "gpu2"
    finally:
        forget(site, "typed")
    claiming(site, "elsewhere", "t4.gpu.nvidia.com", node="gpu1")
    try:
        assert "cannot allocate all claims" in site.why("elsewhere")
    finally:
        forget(site, "elsewhere")


@with_dra
def test_one_line_of_a_quota_counts_old_files_and_claims(site: Site):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
    site.kubectl("create -f -", quota)
    used = f"{KUBECTL} get resourcequota gpus -o jsonpath='{{.status.used.requests\\.nvidia\\.com/gpu}}'"
    try:
        site.until("cp1", used, "0")
        claiming(site, "first")
        site.phase("first", "Running")
        site.until("cp1", used, "1")
        container = {"name": "c", "image": BUSYBOX, "resources": {"limits": {"nvidia.com/gpu": 1}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "second"}, "spec": {"containers": [container]}}
        assert "exceeded quota: gpus" in site.kubectl("create -f -", pod, succeeds=False)
    finally:
        site.kubectl("delete resourcequota gpus")
        forget(site, "first", "second")


@with_dra
def test_a_device_that_no_slice_has_is_named(site: Site):
    uuid = site.out("gpu2", f"sed -n 's/^GPU UUID:[[:space:]]*//p' {SIMULATED}/proc/driver/nvidia/gpus/0000:42:00.0/information")
    site.out("gpu2", f"mkdir -p {SIMULATED}/proc/driver/nvidia/lost && touch {SIMULATED}/proc/driver/nvidia/lost/{uuid}")
    try:
        said = run(site, succeeds=False, **DRA)
        assert f"gpu2: t4 at 0000:42:00.0 (/dev/nvidia1) ({uuid}) was promised, but no ResourceSlice has it" in said
        assert "gpu1: a100" not in said
    finally:
        site.out("gpu2", f"rm -r {SIMULATED}/proc/driver/nvidia/lost")


@with_dra
def test_a_device_of_another_manager_is_in_no_class(site: Site):
    """The driver publishes it nevertheless."""
    first = site.out("gpu1", f"ls {SIMULATED}/sys/bus/pci/devices | head -1")
    path = site.state / "allotment.json"
    mine = {"accelerator_allotment": {"kubernetes": {"devices": [first]}}}
    path.write_text(json.dumps({"kubernetes_workers": {"hosts": {"gpu1": mine}}}), encoding="utf-8")
    said = run(site, inventories=("hosts.yml", str(path)), **DRA)
    assert "gpu1: 1 devices of 1 in ResourceSlices" in said
    names = ["mine", "theirs", "old"]
    claiming(site, "mine", node="gpu1")
    try:
        assert device_of(site, "mine") == ("gpu1", "0")
        claiming(site, "theirs", "a100.gpu.nvidia.com", node="gpu1")
        site.start("old", gpus=1, node="gpu1")
        for name in ("theirs", "old"):
            assert "0/3 nodes are available" in site.why(name)
        # A user's claim must name a class, and none of the classes has the device.
        assert site.out("cp1", f"{KUBECTL} auth can-i create deviceclasses --as=eve --as-group=system:authenticated || true") == "no"
        back = run(site, succeeds=False)
        assert "can't change from dra to device_plugin while pods have GPUs (pod default/mine)" in back
    finally:
        forget(site, *names)


@with_dra
def test_the_plugin_comes_back(site: Site):
    said = run(site, kubernetes_cluster_dra_manifests=DRIVER)
    for host in WORKERS:
        assert f"{host}: 2 nvidia.com/gpu of 2" in said
    assert not site.get("deviceclasses")["items"]
    assert "not found" in site.kubectl("get namespace gpu-dra", succeeds=False)
    assert "not found" in site.kubectl("get clusterrole gpu-dra", succeeds=False)
    site.start("plain", f"{TRY}sleep 600", gpus=1, node="gpu2")
    try:
        assert device_of(site, "plain")[0] == "gpu2"
        assert "extendedResourceClaimStatus" not in site.get("pod plain")["status"]
    finally:
        site.remove("plain")


def test_a_lost_gpu_is_an_event(site: Site):
    bus = f"{SIMULATED}/sys/bus/pci/devices"
    address = site.out("gpu1", f"ls {bus} | tail -1")
    events = f"{KUBECTL} get events --field-selector=reason={LOST} -o jsonpath='{{.items[*].message}}'"
    assert site.out("cp1", events) == ""
    site.out("gpu1", f"mv {bus}/{address} /root/lost-device")
    try:
        run(site, succeeds=False)
        assert f"a100 at {address}" in site.out("cp1", events)
        assert LOST in site.kubectl("describe node gpu1")
    finally:
        site.out("gpu1", f"mv /root/lost-device {bus}/{address}")
    run(site)
    assert site.out("cp1", events) == ""
    again = site.playbook(PLAYBOOK, *ONLY)
    for host in ("cp1", *WORKERS):
        assert "changed=0" in recap(again, host), again[-4000:]


@pytest.mark.parametrize("variables", [{"kubernetes_cluster_gpus": "dra", "kubernetes_cluster_gpu_sharing": "shard:2"}])
def test_rules_that_disagree_are_refused_before_a_host_is_contacted(site: Site, variables: dict[str, str]):
    said = run(site, succeeds=False, **variables)
    assert "gpu1 is to share its GPUs as shard:2, but kubernetes_cluster_gpus is dra" in said
    assert "Read addresses" not in said
