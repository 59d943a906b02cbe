# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Fields of kubelet and kube-proxy that they do not know, or do not start with."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import manager
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import hosts, site


def errors(**settings):
    return [str(found) for found in manager.check(site(hosts(), **settings))]


@pytest.mark.parametrize(
    "kubelet",
    [
        {"maxPods": 200, "cpuCFSQuota": False, "evictionHard": {"memory.available": "1Gi"}, "clusterDNS": [], "syncFrequency": "5m"},
        {"maxPods": None, "kubeAPIQPS": 0, "syncFrequency": "1h30m", "imageMaximumGCAge": "0s", "memoryThrottlingFactor": 0.9},
        {"featureGates": {"X": True}, "systemReserved": {"cpu": "1"}, "clusterDNS": ["10.96.0.10"], "reservedMemory": [{"numaNode": 0}]},
    ],
)
def test_right_fields(kubelet):
    assert errors(kubelet=kubelet, kube_proxy={"conntrack": {"min": 0}, "mode": "nftables"}) == []


@pytest.mark.parametrize(
    ("kubelet", "sentence"),
    [
        ({"maxPod": 200}, "kubernetes_cluster_kubelet has the field 'maxPod', which Kubernetes does not know: did you mean maxPods."),
        ({"{{ 7 }}": 1}, "which Kubernetes does not know: take it out."),
        ({"maxPods": "ten"}, "kubernetes_cluster_kubelet has maxPods: 'ten', with which it does not start: write a whole number."),
        ({"maxPods": "200"}, "write a whole number."),
        ({"maxPods": True}, "write a whole number."),
        ({"failSwapOn": "no"}, "write true or false."),
        ({"failSwapOn": 0}, "write true or false."),
        ({"evictionHard": ["memory"]}, "write a dictionary whose values are texts, such as '1' or 1Gi."),
        ({"clusterDNS": "10.96.0.10"}, "write a list of texts."),
        ({"clusterDNS": [1]}, "write a list of texts."),
        ({"systemReserved": {"cpu": 1}}, "write a dictionary whose values are texts, such as '1' or 1Gi."),
        ({"featureGates": {"X": "true"}}, "write a dictionary whose values are true or false."),
        ({"maxPods": 110.5}, "write a whole number."),
        ({"syncFrequency": "5 minutes"}, "write a time with its unit, such as 5m."),
        ({"podLogsDir": 7}, "write a text."),
        ({"syncFrequency": 60}, "write a time with its unit, such as 5m."),
    ],
)
def test_wrong_fields(kubelet, sentence):
    (said,) = errors(kubelet=kubelet)
    assert said.endswith(sentence), said


def test_wrong_fields_of_kube_proxy():
    (said,) = errors(kube_proxy={"modes": "iptables"})
    assert said == "kubernetes_cluster_kube_proxy has the field 'modes', which Kubernetes does not know: did you mean mode."
