# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Pods share GPUs in turns, and a worker that offers less than was promised."""

from __future__ import annotations

import pytest
from kubernetes_devices import deliver, device_of
from kubernetes_site import KUBECTL, TRY, Site

OWNS = ("plugins/plugin_utils/_kubernetes/sharing.py",)

SIMULATED = "/var/lib/gpu_simulator"
ALLOCATABLE = f"{KUBECTL} get node gpu1 -o jsonpath='{{.status.allocatable.nvidia\\.com/gpu}}'"


def test_sharing_is_not_changed_under_a_pod(site: Site):
    site.start("whole", gpus=1, node="gpu1")
    site.phase("whole", "Running")
    try:
        said = deliver(site, succeeds=False, kubernetes_cluster_gpu_sharing="shard:2")
        assert "gpu1 has pods with GPUs (pod default/whole), so the sharing of its GPUs can't be changed" in said
        assert site.node("gpu1")["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    finally:
        site.remove("whole")


def test_two_pods_share_each_gpu_in_turns(site: Site):
    said = deliver(site, kubernetes_cluster_gpu_sharing="shard:2")
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
        deliver(site)
    site.until("cp1", ALLOCATABLE, "2")


def test_less_than_promised_is_named(site: Site):
    """NVIDIA's plugin sees that a GPU falls off the bus.

    What gpu_facts reads is as before.
    """
    uuid = site.out("gpu1", f"sed -n 's/^GPU UUID:[[:space:]]*//p' {SIMULATED}/proc/driver/nvidia/gpus/*/information | head -1")
    site.out("gpu1", f"mkdir -p {SIMULATED}/proc/driver/nvidia/lost && touch {SIMULATED}/proc/driver/nvidia/lost/{uuid}")
    try:
        site.until("cp1", ALLOCATABLE, "1")
        said = deliver(site, succeeds=False)
        assert "gpu1 offers 1 nvidia.com/gpu, but 2 were promised: look at the pod of its device plugin." in said
        assert "gpu2 offers" not in said
    finally:
        site.out("gpu1", f"rm -r {SIMULATED}/proc/driver/nvidia/lost")
        # It stays unhealthy as long as the plugin runs.
        site.kubectl("delete pod --namespace deephdc-accelerators --field-selector=spec.nodeName=gpu1")
        site.until("cp1", ALLOCATABLE, "2")


@pytest.mark.parametrize("variables", [{"kubernetes_cluster_gpus": "dra", "kubernetes_cluster_gpu_sharing": "shard:2"}])
def test_rules_that_disagree_are_refused_before_a_host_is_contacted(site: Site, variables: dict[str, str]):
    said = deliver(site, succeeds=False, **variables)
    assert "gpu1 is to share its GPUs as shard:2, but kubernetes_cluster_gpus is dra" in said
    assert "Read addresses" not in said
