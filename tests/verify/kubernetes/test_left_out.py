# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A worker is taken out of the inventory and not out of the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from kubernetes_nodes import DRIFT, words
from kubernetes_site import KUBECTL, PLAYBOOK, Site, recap
from local import changed

OWNS = ("plugins/plugin_utils/_kubernetes/left_out.py",)

ROUTES = "ip route show proto 137"
READY = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"


def without_gpu2(site: Site, folder: Path) -> tuple[str]:
    """The inventory of a person who took gpu2 out of it."""
    inventory = yaml.safe_load((site.inventory / "hosts.yml").read_text())
    for group in inventory["all"]["children"].values():
        group.get("hosts", {}).pop("gpu2", None)
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory))
    return (str(path),)


def test_a_node_that_the_inventory_lacks_is_named_and_keeps_its_pods(site: Site, tmp_path: Path):
    inventories = without_gpu2(site, tmp_path)
    site.start("working", gpus=1, node="gpu2")
    site.phase("working", "Running", 90)
    share = site.node("gpu2")["spec"]["podCIDR"]
    before = {host: site.out(host, ROUTES) for host in ("cp1", "gpu1")}
    for more in ((), ("--check",)):
        said = site.playbook(PLAYBOOK, *more, inventories=inventories, succeeds=False)
        assert "gpu2 is a node of the cluster and works, but no host of the inventory has this name" in words(said)
        assert changed(said) == [] and "failed=1" in recap(said, "cp1")
    # A comparison is not kept from all else that it has to say.
    report = tmp_path / "report.json"
    site.playbook(DRIFT, inventories=inventories, variables={"kubernetes_drift_report": str(report)})
    compared = json.loads(report.read_text())
    assert compared["complete"] and any("gpu2" in line and "the inventory has no such host" in line for line in compared["summary"]), (
        compared
    )
    try:
        site.out("gpu2", "systemctl stop kubelet")
        site.until("cp1", f'{KUBECTL} get node gpu2 -o "{READY}"', "Unknown", 120)
        said = site.playbook(PLAYBOOK, inventories=inventories)
        assert "gpu2 is a node of the cluster and not ready" in words(said)
        assert {host: site.out(host, ROUTES) for host in ("cp1", "gpu1")} == before and share in before["gpu1"]
    finally:
        site.out("gpu2", "systemctl start kubelet")
    site.kubectl("wait --for=condition=Ready node gpu2 --timeout=180s")
    assert site.get("pod working")["status"]["phase"] == "Running"
    site.remove("working")
    site.playbook(PLAYBOOK)
