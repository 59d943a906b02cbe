# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What operators do with nodes and with the cluster.

A test begins with what the one before left.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from kubernetes_site import BUSYBOX, PLAYBOOK, Site
from local import changed

OWNS = (
    "playbooks/kubernetes_drain.yml",
    "playbooks/kubernetes_drift.yml",
    "playbooks/kubernetes_information.yml",
    "playbooks/kubernetes_remove_node.yml",
    "playbooks/kubernetes_resume.yml",
    "roles/kubernetes_control_plane/tasks/certificates.yml",
    "roles/kubernetes_drift",
    "roles/kubernetes_information",
    "roles/kubernetes_operations",
    "plugins/filter/kubernetes_operations.py",
    "plugins/modules/kubernetes_static_pods.py",
    "plugins/plugin_utils/_kubernetes/certificates.py",
    "plugins/plugin_utils/_kubernetes/drift.py",
    "plugins/plugin_utils/_kubernetes/operations.py",
)

DRAINED = "accelerators.deephdc.org/drained"
DRAIN, RESUME, REMOVE = "playbooks/kubernetes_drain.yml", "playbooks/kubernetes_resume.yml", "playbooks/kubernetes_remove_node.yml"
DRIFT, INFORMATION = "playbooks/kubernetes_drift.yml", "playbooks/kubernetes_information.yml"
SIMULATED = "/var/lib/gpu_simulator/sys/bus/pci/devices"
INFO = "/var/lib/kubernetes-info"
GET = "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}', timeout=5).read().decode())\""


def words(output: str) -> str:
    return " ".join(output.split())


def container(host: str, site: Site, *command: str) -> None:
    """A command of the container engine on a host of the cluster, such as one that takes its power away."""
    subprocess.run(["docker", *command, f"{site.label}-{host}"], check=True, stdout=subprocess.DEVNULL, timeout=120)


def job(site: Site, name: str, node: str) -> None:
    box = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    box["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [box],
    }
    site.kubectl("create -f -", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": pod}}})
    site.kubectl(f"wait --for=jsonpath={{.status.ready}}=1 job {name} --timeout=90s")


def drift(site: Site, path: Path, *arguments: str, succeeds: bool = True) -> dict[str, Any]:
    """The report of a run that must not have changed a host."""
    output = site.playbook(DRIFT, *arguments, variables={"kubernetes_drift_report": str(path)}, succeeds=succeeds)
    return {**json.loads(path.read_text()), "output": output}


def test_a_request_that_is_not_clear_is_refused(site: Site):
    said = words(site.playbook(DRAIN, variables={"kubernetes_drain_nodes": "cp1"}, succeeds=False))
    assert "kubernetes_drain_nodes names cp1, which is in kubernetes_control_plane" in said
    assert "kubernetes_drain_reason is not set" in said
    said = words(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "cp1"}, succeeds=False))
    assert "a host with a member of etcd is left alone" in said


def test_a_kernel_without_a_module_is_named(site: Site):
    """As where br_netfilter lacks: there is no such setting."""
    wrong = {"__kubernetes_node_sysctl": ["net.ipv4.ip_forward", "net.bridge.no-such-setting"]}
    said = words(site.playbook(PLAYBOOK, "--limit", "gpu2", "--tags", "kubernetes_node", variables=wrong, succeeds=False))
    assert "The kernel of gpu2 does not take what Kubernetes needs" in said and "no-such-setting" in said and "br_netfilter" in said
    site.playbook(PLAYBOOK, "--limit", "gpu2", "--tags", "kubernetes_node")


def test_a_site_that_is_as_its_inventory_says(site: Site, tmp_path: Path):
    report = drift(site, tmp_path / "report.json")
    assert (report["differs"], report["complete"], report["summary"]) == (False, True, []), report["output"][-4000:]
    assert report["compared"] == ["cp1", "gpu1", "gpu2"]


def test_a_drain_waits_for_a_job_and_ends_none_and_resuming_gives_back(site: Site):
    job(site, "training", "gpu1")
    wanted = {"kubernetes_drain_nodes": "gpu1", "kubernetes_drain_reason": "new fan", "kubernetes_drain_wait": 3}
    said = words(site.playbook(DRAIN, "--check", variables=wanted))
    assert "pod default/training-" in said and "of Job training on gpu1" in said
    assert not site.node("gpu1")["spec"].get("unschedulable"), "only a prediction"
    said = words(site.playbook(DRAIN, variables=wanted, succeeds=False))
    assert "After 3 s there is still pod default/training-" in said and "Nothing was ended" in said
    node = site.node("gpu1")
    assert node["spec"]["unschedulable"] and node["metadata"]["annotations"][DRAINED] == "new fan"
    assert site.get("job training")["status"]["active"] == 1
    # A run of the site gives nothing back, and neither does a node that lacks a device.
    site.playbook(PLAYBOOK, "--tags", "kubernetes_cluster")
    assert site.node("gpu1")["spec"]["unschedulable"]
    address = site.out("gpu1", f"ls {SIMULATED} | tail -1")
    # Else the worker may find the loss itself, and marks the node.
    site.out("gpu1", f"systemctl stop kubernetes-gpu-health.timer; mv {SIMULATED}/{address} /root/lost-device")
    said = words(site.playbook(RESUME, "--limit", "gpu1", succeeds=False))
    assert "gpu1 stays as it is, because" in said and address in said and "is missing" in said
    site.out("gpu1", f"mv /root/lost-device {SIMULATED}/{address}; systemctl start kubernetes-gpu-health.timer")
    site.playbook(RESUME, "--limit", "gpu1")
    node = site.node("gpu1")
    assert not node["spec"].get("unschedulable") and DRAINED not in node["metadata"]["annotations"]
    assert changed(site.playbook(RESUME, "--limit", "gpu1")) == []


def test_what_no_drain_took_is_not_given_back(site: Site):
    site.kubectl("cordon gpu2")
    try:
        said = words(site.playbook(RESUME, "--limit", "gpu2", succeeds=False))
        assert "gpu2 stays cordoned, because no run of kubernetes_drain did that" in said
        assert site.node("gpu2")["spec"]["unschedulable"]
    finally:
        site.kubectl("uncordon gpu2")


def test_another_host_is_asked_where_the_first_one_of_the_control_plane_is_down(site: Site, tmp_path: Path):
    """It is drained and given back, and the promise of its devices is read from the one that answers."""
    path = tmp_path / "down.yml"
    path.write_text("{kubernetes_control_plane: {hosts: {cp0: {ansible_host: cp0.invalid}}}}", encoding="utf-8")
    inventories = (str(path), "hosts.yml")
    site.playbook(DRAIN, "--limit", "gpu2", inventories=inventories, variables={"kubernetes_drain_reason": "new fan"})
    assert site.node("gpu2")["metadata"]["annotations"][DRAINED] == "new fan"
    address = site.out("gpu2", f"ls {SIMULATED} | tail -1")
    site.out("gpu2", f"mv {SIMULATED}/{address} /root/lost-device")
    try:
        said = words(site.playbook(RESUME, "--limit", "gpu2", inventories=inventories, succeeds=False))
        assert "gpu2 stays as it is, because" in said and f"{address}" in said
    finally:
        site.out("gpu2", f"mv /root/lost-device {SIMULATED}/{address}")
    site.playbook(RESUME, "--limit", "gpu2", inventories=inventories)
    assert not site.node("gpu2")["spec"].get("unschedulable")


def numbers(site: Site) -> dict[str, str]:
    """The metrics as a scrape of the node exporter reads them."""
    text = site.out("cp1", f"systemctl start kubernetes-information.service; {GET.format('127.0.0.1:9100/metrics')}")
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("kubernetes_"))


def test_published_numbers_are_those_of_the_running_job(site: Site):
    site.playbook(INFORMATION)
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
def test_the_account_that_publishes_may_list_and_nothing_else(site: Site, words_of: str, allowed: bool):
    done = site.run("cp1", f"kubectl --kubeconfig /etc/deephdc/kubernetes_information.conf auth can-i {words_of} --all-namespaces")
    assert done.stdout.strip() == ("yes" if allowed else "no")


def test_what_is_published_ends_with_the_job(site: Site):
    assert site.out("cp1", "stat --format '%U:%G %a' /etc/deephdc/kubernetes_information.conf") == "root:kubernetes-info 640"
    site.kubectl("delete job training --cascade=foreground")
    seen = numbers(site)
    assert float(seen['kubernetes_node_gres_allocated{gres="gpu",node="gpu1",type="a100"}']) == 0
    assert not any("account_gpus" in name and 'account="default"' in name for name in seen)


def test_each_deliberate_change_is_in_the_report(site: Site, tmp_path: Path):
    """All in one run, as each takes half a minute."""
    address = site.out("gpu1", f"ls {SIMULATED} | tail -1")
    site.out("gpu1", f"mv {SIMULATED}/{address} /root/lost-device")
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
        site.out("gpu1", f"mv /root/lost-device {SIMULATED}/{address}")
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


def test_a_run_of_the_site_mends_it_and_renews_the_certificates(site: Site, tmp_path: Path):
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


def test_the_control_plane_is_restarted_under_a_running_pod(site: Site):
    site.start("working", gpus=1, node="gpu1")
    site.phase("working", "Running", 90)
    number = site.get("pod working")["status"]["containerStatuses"][0]["containerID"]
    container("cp1", site, "restart", "--time", "2")
    deadline = time.monotonic() + 180
    while site.run("cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=5s get --raw /readyz").stdout.strip() != "ok":
        assert time.monotonic() < deadline, "the API did not come back"
        time.sleep(1)
    status = site.get("pod working")["status"]
    assert status["phase"] == "Running" and status["containerStatuses"][0]["containerID"] == number
    site.remove("working")


def test_a_node_loses_its_power_and_is_back(site: Site, tmp_path: Path):
    """Its pod is begun again there, with its GPU; meanwhile the report says who does not answer."""
    job(site, "lasting", "gpu2")
    container("gpu2", site, "kill")
    try:
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        site.until("cp1", f'kubectl --kubeconfig /etc/kubernetes/admin.conf get node gpu2 -o "{path}"', "Unknown", 120)
        report = drift(site, tmp_path / "report.json", succeeds=False)
        assert (report["complete"], report["not_reached"]) == (False, ["gpu2"])
        silent = [line for line in report["summary"] if not line.startswith("gpu2: ")]
        assert not any("routes" in line or "accelerators" in line for line in silent), silent
        assert any(line.startswith("gpu2: it is not ready") for line in report["summary"]), report["summary"]
        said = words(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2"}, succeeds=False))
        assert "gpu2 does not answer" in said and "kubernetes_remove_dead" in said
        said = words(site.playbook(RESUME, "--limit", "gpu2", succeeds=False))
        assert "gpu2" in said
    finally:
        container("gpu2", site, "start")
    site.kubectl("wait --for=condition=Ready node gpu2 --timeout=180s")
    site.kubectl("wait --for=jsonpath={.status.ready}=1 job lasting --timeout=180s")
    site.playbook(PLAYBOOK)


def test_a_node_with_a_pod_is_removed_only_when_a_person_says_so(site: Site):
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


def test_the_host_of_a_removed_node_has_nothing_of_it(site: Site):
    assert site.out("gpu2", "ls /etc/kubernetes/kubelet.conf /etc/cni/net.d/* /etc/default/kubelet 2>/dev/null || true") == ""
    # A containerd that goes on would not see it when it is made again.
    site.out("gpu2", "test -d /etc/cni/net.d")
    assert site.out("gpu2", "systemctl is-active kubelet deephdc-kubernetes-routes || true").split() == ["inactive", "inactive"]
    assert site.out("gpu2", "ip link show cni0 2>/dev/null; ip route show proto 137; nft list tables | grep deephdc || true") == ""
    assert "KUBE" not in site.out("gpu2", "iptables-save; ip6tables-save")
    assert site.out("gpu2", "ctr --namespace k8s.io tasks list --quiet") == ""
    assert changed(site.playbook(REMOVE, variables={"kubernetes_remove_nodes": "gpu2"})) == []


def test_a_removed_node_is_added_again_and_its_routes_follow(site: Site):
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
