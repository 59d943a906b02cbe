# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: the way to it and back, and what pods get by claims and by old files.

The test that goes back is the last one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes_devices import DRA, ONLY, back_to_plugin, deliver, device_of
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
WORKERS = ("gpu1", "gpu2")
IS_BOOKWORM = os.environ["LOCAL_RELEASE"] == "bookworm"
with_dra = pytest.mark.skipif(IS_BOOKWORM, reason="because Debian 12 has containerd 1.6, with which dra is refused")


@pytest.fixture(scope="module")
def dra(site: Site) -> Iterator[str]:
    """The driver has the place of the device plugin; what the run said."""
    yield deliver(site, **DRA)
    if site.get("deviceclasses")["items"]:
        back_to_plugin(site)


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


@pytest.mark.skipif(not IS_BOOKWORM, reason="because only Debian 12 has so old a containerd")
def test_dra_is_refused_where_a_pod_would_run_without_its_device(site: Site):
    said = deliver(site, succeeds=False, **DRA)
    for host in WORKERS:
        assert f"{host} has containerd 1.6" in said and "but kubernetes_cluster_gpus is dra, which needs 1.7" in said
    assert "Read the nodes" not in said, "before anything is changed"


@with_dra
def test_the_way_is_not_changed_under_a_pod(site: Site):
    site.start("working", gpus=1, node="gpu2")
    site.phase("working", "Running")
    try:
        said = deliver(site, succeeds=False, **DRA)
        assert "kubernetes_cluster_gpus can't change from device_plugin to dra while pods have GPUs (pod default/working)" in said
        assert "Read the nodes" not in said, "before anything is changed"
        assert site.get("daemonsets --namespace deephdc-accelerators")["items"]
    finally:
        site.remove("working")


@with_dra
def test_dynamic_resource_allocation_takes_the_place_of_the_plugin(site: Site, dra: str):
    said = dra
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
def test_each_claim_has_its_own_device(site: Site, dra: str):
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
def test_a_class_for_each_type(site: Site, dra: str):
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
def test_one_line_of_a_quota_counts_old_files_and_claims(site: Site, dra: str):
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
def test_a_device_that_no_slice_has_is_named(site: Site, dra: str):
    uuid = site.out("gpu2", f"sed -n 's/^GPU UUID:[[:space:]]*//p' {SIMULATED}/proc/driver/nvidia/gpus/0000:42:00.0/information")
    site.out("gpu2", f"mkdir -p {SIMULATED}/proc/driver/nvidia/lost && touch {SIMULATED}/proc/driver/nvidia/lost/{uuid}")
    try:
        said = deliver(site, succeeds=False, **DRA)
        assert f"gpu2: t4 at 0000:42:00.0 (/dev/nvidia1) ({uuid}) was promised, but no ResourceSlice has it" in said
        assert "gpu1: a100" not in said
    finally:
        site.out("gpu2", f"rm -r {SIMULATED}/proc/driver/nvidia/lost")


@with_dra
def test_a_device_of_another_manager_is_in_no_class(site: Site, dra: str):
    """The driver publishes it nevertheless.

    What the next test takes back is this allotment, too.
    """
    first = site.out("gpu1", f"ls {SIMULATED}/sys/bus/pci/devices | head -1")
    path = site.state / "allotment.json"
    mine = {"accelerator_allotment": {"kubernetes": {"devices": [first]}}}
    path.write_text(json.dumps({"kubernetes_workers": {"hosts": {"gpu1": mine}}}), encoding="utf-8")
    said = deliver(site, inventories=("hosts.yml", str(path)), **DRA)
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
        back = deliver(site, succeeds=False)
        assert "can't change from dra to device_plugin while pods have GPUs (pod default/mine)" in back
    finally:
        forget(site, *names)


@with_dra
def test_the_plugin_comes_back(site: Site, dra: str):
    said = back_to_plugin(site)
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
