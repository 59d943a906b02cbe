# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A node is removed, with its pod only on the word of a person, and added again."""

from __future__ import annotations

from kubernetes_nodes import GET, container, job, words
from kubernetes_site import PLAYBOOK, Site
from local import changed

OWNS = (
    "playbooks/kubernetes_remove_node.yml",
    "roles/kubernetes_node/tasks/join.yml",
    "plugins/plugin_utils/_kubernetes/nodes.py",
)

REMOVE = "playbooks/kubernetes_remove_node.yml"


def removed_only_when_a_person_says_so(site: Site) -> None:
    job(site, "lasting", "gpu2")
    said = words(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2", "kubernetes_remove_wait": 2}, succeeds=False))
    assert "Not removed, because there is still pod default/lasting-" in said and "of Job lasting on gpu2" in said
    assert site.get("job lasting")["status"]["active"] == 1
    assert site.out("gpu2", "systemctl is-active kubelet") == "active"
    site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2", "kubernetes_remove_end_pods_on": ["gpu2"]})
    assert [one["metadata"]["name"] for one in site.get("nodes")["items"]] == ["cp1", "gpu1"]
    assert site.get("pods --all-namespaces --field-selector=spec.nodeName=gpu2")["items"] == []
    assert "gpu2" not in site.out("cp1", "cat /var/lib/deephdc/kubernetes_accelerators")
    assert "gpu1" in site.out("cp1", "cat /var/lib/deephdc/kubernetes_accelerators")
    site.kubectl("delete job lasting")


def has_nothing_of_it(site: Site) -> None:
    assert site.out("gpu2", "ls /etc/kubernetes/kubelet.conf /etc/cni/net.d/* /etc/default/kubelet 2>/dev/null || true") == ""
    # A containerd that goes on would not see it when it is made again.
    site.out("gpu2", "test -d /etc/cni/net.d")
    assert site.out("gpu2", "systemctl is-active kubelet deephdc-kubernetes-routes || true").split() == ["inactive", "inactive"]
    assert site.out("gpu2", "ip link show cni0 2>/dev/null; ip route show proto 137; nft list tables | grep deephdc || true") == ""
    assert "KUBE" not in site.out("gpu2", "iptables-save; ip6tables-save")
    assert site.out("gpu2", "ctr --namespace k8s.io tasks list --quiet") == ""
    assert changed(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2"})) == []


def added_again_and_its_routes_follow(site: Site) -> None:
    site.playbook(PLAYBOOK)
    site.kubectl("wait --for=condition=Ready node gpu2 --timeout=120s")
    share = site.node("gpu2")["spec"]["podCIDR"]
    for host in ("cp1", "gpu1"):
        assert share in site.out(host, "ip route show proto 137")
    site.start("again", "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www", gpus=1, node="gpu2")
    try:
        site.phase("again", "Running", 90)
        address = site.get("pod again")["status"]["podIP"]
        site.until("gpu1", GET.format(f"{address}:8080/index.html"), "hello")
    finally:
        site.remove("again")


def test_a_node_with_a_pod_is_removed_and_added_again(site: Site):
    removed_only_when_a_person_says_so(site)
    has_nothing_of_it(site)
    added_again_and_its_routes_follow(site)


def test_a_node_that_is_gone_for_good_is_removed(site: Site):
    container("gpu2", site, "kill")
    try:
        said = words(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2", "kubernetes_remove_dead": "gpu2"}))
        assert "gpu2 is out of the cluster but did not answer" in said
        assert [one["metadata"]["name"] for one in site.get("nodes")["items"]] == ["cp1", "gpu1"]
        assert site.get("pods --all-namespaces --field-selector=spec.nodeName=gpu2")["items"] == []
    finally:
        container("gpu2", site, "start")
    site.until("gpu2", "systemctl is-system-running --wait", "")
    # It came back nevertheless: what is left of it there goes, and it may join.
    site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2"})
    site.playbook(PLAYBOOK)
    site.kubectl("wait --for=condition=Ready node gpu2 --timeout=120s")
