# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster publishes: numbers of its jobs, by an account that may list and do nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kubernetes_nodes import GET, job
from kubernetes_site import Site
from local import changed

OWNS = (
    "playbooks/kubernetes_information.yml",
    "roles/kubernetes_information",
)

INFORMATION, INFO = "playbooks/kubernetes_information.yml", "/var/lib/kubernetes-info"
# No playbook takes it away but the one that removes the cluster.
REMOVE = """
systemctl disable --now --quiet kubernetes-information.timer
systemctl stop prometheus-node-exporter
DEBIAN_FRONTEND=noninteractive apt-get purge --auto-remove --yes -qq prometheus-node-exporter
rm -rf /usr/local/lib/deephdc/kubernetes_information.py /etc/systemd/system/kubernetes-information.* /var/lib/kubernetes-info
rm -rf /etc/systemd/system/prometheus-node-exporter.service.d /etc/deephdc/kubernetes_information.conf /var/lib/prometheus
rmdir --ignore-fail-on-non-empty /usr/local/lib/deephdc /etc/deephdc
userdel kubernetes-info
! id prometheus || userdel prometheus
systemctl daemon-reload
"""


def numbers(site: Site) -> dict[str, str]:
    """The metrics as a scrape of the node exporter reads them."""
    text = site.out("cp1", f"systemctl start kubernetes-information.service; {GET.format('127.0.0.1:9100/metrics')}")
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("kubernetes_"))


@pytest.fixture(scope="module")
def published(site: Site) -> Iterator[None]:
    site.playbook(INFORMATION)
    yield
    site.kubectl("delete namespace,clusterrole,clusterrolebinding deephdc-information")
    site.out("cp1", f"set -e; {REMOVE}", timeout=300)


def test_published_numbers_are_those_of_the_running_job(site: Site, published: None):
    """And they end with it."""
    job(site, "training", "gpu1")
    assert changed(site.playbook(INFORMATION)) == []
    seen = numbers(site)
    assert seen["kubernetes_up"] == "1"
    assert float(seen['kubernetes_node_gres{gres="gpu",node="gpu1",type="a100"}']) == 2
    assert float(seen['kubernetes_node_gres_allocated{gres="gpu",node="gpu1",type="a100"}']) == 1
    assert float(seen['kubernetes_node_gres_allocated{gres="gpu",node="gpu2",type="t4"}']) == 0
    assert float(seen['kubernetes_account_gpus_allocated{account="default",type="a100"}']) == 1
    document = json.loads(site.out("cp1", f"cat {INFO}/glue2.json"))
    (manager,) = document["ComputingManager"]
    assert (manager["TotalAcceleratorSlots"], manager["UsedAcceleratorSlots"]) == (4, 1)
    records = json.loads(site.out("cp1", f"cat {INFO}/cmdb.json"))
    assert {one["data"]["name"]: (one["data"]["total_gpus"], one["data"]["used_gpus"]) for one in records if one["type"] == "flavor"} == {
        "a100": (2, 1),
        "t4": (2, 0),
    }
    site.kubectl("delete job training --cascade=foreground")
    seen = numbers(site)
    assert float(seen['kubernetes_node_gres_allocated{gres="gpu",node="gpu1",type="a100"}']) == 0
    assert not any("account_gpus" in name and 'account="default"' in name for name in seen)


@pytest.mark.parametrize(
    ("words_of", "allowed"),
    [
        ("list nodes", True),
        ("list pods", True),
        ("get nodes", False),
        ("list secrets", False),
        ("create pods", False),
        ("delete nodes", False),
        ("create pods --subresource=exec", False),
    ],
)
def test_the_account_that_publishes_may_list_and_nothing_else(site: Site, published: None, words_of: str, allowed: bool):
    done = site.run("cp1", f"kubectl --kubeconfig /etc/deephdc/kubernetes_information.conf auth can-i {words_of} --all-namespaces")
    assert done.stdout.strip() == ("yes" if allowed else "no")


def test_its_kubeconfig_is_private(site: Site, published: None):
    assert site.out("cp1", "stat --format '%U:%G %a' /etc/deephdc/kubernetes_information.conf") == "root:kubernetes-info 640"
