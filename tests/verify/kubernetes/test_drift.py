# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Differences of a site from its inventory: reported without a change, and mended by a run."""

from __future__ import annotations

import json
from pathlib import Path

from kubernetes_nodes import drift
from kubernetes_site import PLAYBOOK, Site
from local import changed

OWNS = (
    "playbooks/kubernetes_drift.yml",
    "roles/kubernetes_drift",
    "plugins/plugin_utils/_kubernetes/drift.py",
)

SIMULATED = "/var/lib/gpu_simulator/sys/bus/pci/devices"


def test_a_site_that_is_as_its_inventory_says(site: Site, tmp_path: Path):
    report = drift(site, tmp_path / "report.json")
    assert (report["differs"], report["complete"], report["summary"]) == (False, True, []), report["output"][-4000:]
    assert report["compared"] == ["cp1", "gpu1", "gpu2"]


def test_each_deliberate_change_is_in_the_report_and_mended_by_a_run(site: Site, tmp_path: Path):
    """All in one run, as each takes half a minute."""
    address = site.out("gpu1", f"ls {SIMULATED} | tail -1")
    # Else the worker may find the loss itself, and marks the node.
    site.out("gpu1", f"systemctl stop kubernetes-gpu-health.timer; mv {SIMULATED}/{address} /root/lost-device")
    site.out("gpu2", "echo '# by hand' >> /etc/kubernetes/deephdc.nft")
    site.out("cp1", "systemctl stop deephdc-kubernetes-routes")
    site.kubectl("cordon gpu2")
    site.kubectl("label node gpu2 accelerators.deephdc.org/t4-")
    site.kubectl("--namespace kube-system scale deployment coredns --replicas=0")
    config = {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.37.2"}
    config["certificateValidityPeriod"] = "240h"
    site.out("cp1", f"echo '{json.dumps(config)}' > /root/short.yaml")
    for name in ("apiserver", "scheduler.conf"):
        site.out("cp1", f"kubeadm certs renew {name} --config /root/short.yaml")
    site.until("cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get pods -l k8s-app=kube-dns --no-headers", "")
    try:
        report = drift(site, tmp_path / "report.json")
    finally:
        site.out("gpu1", f"mv /root/lost-device {SIMULATED}/{address}; systemctl start kubernetes-gpu-health.timer")
        site.kubectl("uncordon gpu2")
        site.kubectl("--namespace kube-system scale deployment coredns --replicas=2")
    lines = report["summary"]
    assert report["differs"]
    for wanted in (
        "gpu2: /etc/kubernetes/deephdc.nft differs",
        "cp1: deephdc-kubernetes-routes: it does not run",
        "gpu2: it is cordoned (by an administrator)",
        "cp1: CoreDNS: no pod of it is ready",
        "cp1: apiserver: it ends at",
        "cp1: scheduler.conf: it ends at",
    ):
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)
    assert any(line.startswith("cp1: ") and "Node gpu2" in line for line in lines), lines
    assert any(address in line and "is missing" in line for line in lines), lines
    assert "# by hand" in site.out("gpu2", "cat /etc/kubernetes/deephdc.nft"), "a report changes nothing"
    assert site.out("cp1", "systemctl is-active deephdc-kubernetes-routes || true") == "inactive"
    # A run of the site mends it, and renews the certificates.
    started = "cat /proc/$(pgrep -o -x kube-apiserver)/stat | cut -d' ' -f22"
    before = site.out("cp1", started)
    proxies = site.out("cp1", "pgrep -o -x kube-scheduler")
    site.playbook(PLAYBOOK)
    assert site.out("cp1", started) != before and site.out("cp1", "pgrep -o -x kube-scheduler") != proxies
    ends = site.out("cp1", "openssl s_client -connect 127.0.0.1:6443 </dev/null 2>/dev/null | openssl x509 -noout -checkend 8640000")
    assert "will not expire" in ends
    report = drift(site, tmp_path / "report.json")
    assert (report["differs"], report["complete"], report["summary"]) == (False, True, []), report["output"][-4000:]
    assert changed(site.playbook(PLAYBOOK)) == []
