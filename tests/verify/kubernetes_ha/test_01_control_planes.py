# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A control plane of three: one host is lost, then two, then one is made again.

An upgrade; a restore, and growth from one to three.

A test begins with what the one before left.
"""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes_site import KUBECTL, PLAYBOOK, Site, recap
from kubernetes_versions import IMAGES, NEW, OLD, asked, container, kubelets, variables, version

OWNS = (
    "roles/kubernetes_cluster/tasks/control_plane.yml",
    "roles/kubernetes_control_plane/tasks/join.yml",
    "roles/kubernetes_node/tasks/balancer.yml",
    "plugins/plugin_utils/_kubernetes/control_plane.py",
    "molecule/kubernetes_ha",
    "tests/verify/kubernetes_ha/conftest.py",
)

UPGRADE, BACKUP, RESTORE = (f"playbooks/kubernetes_{name}.yml" for name in ("upgrade", "backup", "restore"))
CONTROL = ("cp1", "cp2", "cp3")
HOSTS = (*CONTROL, "gpu1")
ETCDCTL = (
    "-- etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)
# Of the host's own API server: the balancer goes to any.
OWN = f"{KUBECTL} --server https://127.0.0.1:6443 --tls-server-name kubernetes get --raw"
CTR = "ctr --namespace k8s.io images"
# As if it had a new disk. Its member of etcd stays in the cluster.
LOSE = (
    "kubeadm reset --force --skip-phases=remove-etcd-member >/dev/null 2>&1; rm -rf /etc/kubernetes /var/lib/etcd/member /var/lib/deephdc"
)


def engine(site: Site, verb: str, *names: str) -> str:
    return subprocess.run(
        ["docker", *verb.split(), *(f"{site.label}-{name}" for name in names)], check=True, capture_output=True, text=True
    ).stdout


def address(site: Site, name: str) -> str:
    return engine(site, "inspect --format {{range.NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name).strip()


@contextlib.contextmanager
def killed(site: Site, *names: str) -> Iterator[None]:
    """Hosts without power for a while.

    Docker gives the lowest free address to a host that starts, so they start in that order.
    """
    before = {name: address(site, name) for name in names}
    engine(site, "kill", *names)
    try:
        yield
    finally:
        for name in sorted(names, key=lambda name: ipaddress.ip_address(before[name])):
            engine(site, "start", name)
    assert {name: address(site, name) for name in names} == before


def members(site: Site) -> set[str]:
    """The voting members of etcd that have started."""
    said = site.kubectl(f"--namespace kube-system exec etcd-cp1 {ETCDCTL} member list")
    lines = [line.split(", ") for line in said.splitlines()]
    return {name for _number, state, name, *_addresses, learner in lines if state == "started" and learner == "false"}


def words(text: str) -> str:
    """What a run said, without line ends and without what YAML makes of an apostrophe."""
    return " ".join(text.split()).replace("''", "'")


@pytest.fixture
def now(site: Site):
    return variables(site, version(site))


@pytest.fixture(scope="module")
def working(site: Site):
    site.start("working", "sleep 36000", gpus=1, node="gpu1")
    site.phase("working", "Running")
    yield container(site, "working")
    site.remove("working")


def test_three_hosts_are_one_control_plane(site: Site, working: str):
    assert members(site) == set(CONTROL)
    addresses = {node["metadata"]["name"]: node["status"]["addresses"][0]["address"] for node in site.get("nodes")["items"]}
    for host in HOSTS:
        for file in ("kubelet", "admin") if host in CONTROL else ("kubelet",):
            server = site.out(host, f"sed --quiet 's/^ *server: //p' /etc/kubernetes/{file}.conf")
            # kubeadm lets kubelet of a control plane ask the API server beside it, which has the same version.
            wanted = f"https://{addresses[host]}:6443" if (host in CONTROL and file == "kubelet") else "https://127.0.0.1:7443"
            assert (server, asked(site, host, f"{server}/livez")) == (wanted, "ok"), (host, file)
    records = {site.out(host, "cat /var/lib/deephdc/kubernetes_accelerators /var/lib/deephdc/kubernetes_control_plane") for host in CONTROL}
    assert len(records) == 1, "each has the same record"


def test_no_key_is_left_where_it_is_not_needed(site: Site):
    for host in CONTROL:
        assert site.run(host, "ls /etc/kubernetes/deephdc-join.yaml").returncode != 0
        modes = site.out(host, "stat --format='%a %U' /etc/kubernetes/pki/*.key /etc/kubernetes/pki/etcd/*.key").splitlines()
        assert set(modes) == {"600 root"}, host
    assert "kubeadm-certs" not in site.kubectl("--namespace kube-system get secrets -o name")
    assert site.run("gpu1", "ls /etc/kubernetes/pki/ca.key").returncode != 0


def test_one_host_is_lost_and_all_goes_on(site: Site, working: str, now: dict[str, object]):
    """The first one, which a run would ask by default."""
    with killed(site, "cp1"):
        site.until("cp2", f"{KUBECTL} get --raw /readyz", "ok", 120)
        output = site.playbook(PLAYBOOK, variables=now, succeeds=False)
        said = words(output)
        assert "cp1 can't be reached" in said, said[-6000:]
        for host in ("cp2", "cp3", "gpu1"):
            assert "failed=0" in recap(output, host)
        assert "gpu1: nvidia.com/gpu: " in said, said[-3000:]  # pods prove the GPUs, by a host that answers
        pod = site.out("cp2", f"{KUBECTL} get pod working -o jsonpath={{.status.containerStatuses[0].containerID}}")
        assert pod == working
    site.until("cp1", f"{OWN} /readyz", "ok", 180)


def test_the_loss_of_two_is_one_sentence(site: Site, working: str, now: dict[str, object]):
    with killed(site, "cp2", "cp3"):
        said = words(site.playbook(PLAYBOOK, variables=now, succeeds=False))
        assert "etcd has lost its quorum: it needs 2 of its 3 hosts" in said, said[-3000:]
        assert "cp1 is up, but its API server does not answer" in said and "cp2 can't be reached" in said and "cp3 can't be reached" in said
        assert site.out("gpu1", "ctr --namespace k8s.io tasks list | grep --count RUNNING") != "0", "pods go on"
    for host in CONTROL:
        site.until(host, f"{OWN} /readyz", "ok", 240)
    assert container(site, "working") == working


def test_a_host_that_lost_everything_joins_again(site: Site, working: str, now: dict[str, object]):
    site.out("cp1", LOSE)
    site.playbook(PLAYBOOK, variables=now)
    assert members(site) == set(CONTROL) and container(site, "working") == working
    share = site.node("cp1")["spec"]["podCIDR"]
    assert share in site.out("gpu1", "ip route show proto 137"), "it has other addresses for its pods now, and all know the way"
    proxy = f"{KUBECTL} --namespace kube-system get pods --no-headers --selector=k8s-app=kube-proxy --field-selector=spec.nodeName=cp1"
    site.until("cp1", proxy, "Running", 120)
    output = site.playbook(PLAYBOOK, variables=now)
    for host in HOSTS:
        assert "changed=0" in recap(output, host), output[-4000:]


def servers(site: Site) -> list[str]:
    """The version of each API server."""
    return [site.out(host, f"{OWN} /version | sed --quiet 's/.*gitVersion.*\"v\\(.*\\)\".*/\\1/p'") for host in CONTROL]


def test_an_upgrade_that_fails_on_the_second_host_goes_back_there(site: Site, working: str):
    """The new image of its API server has no API server.

    The first host was upgraded, the third one is left alone.
    """
    names = " ".join(f"registry.k8s.io/{name}:v{NEW}" for name in IMAGES)
    site.out("cp2", f"for name in {names}; do {CTR} tag --force docker.io/library/busybox:1.37 $name; done")
    try:
        said = words(site.playbook(UPGRADE, variables=variables(site, NEW, kubernetes_upgrade_patience=200), succeeds=False))
        assert f"The upgrade to {NEW} failed on cp2 and was taken back: its API server has {OLD} as before" in said, said[-3000:]
        assert servers(site) == [NEW, OLD, OLD] and container(site, "working") == working
        assert OLD in site.out("cp2", "dpkg-query --show kubeadm; test ! -e /var/lib/deephdc/kubernetes_upgrading")
    finally:
        site.out("cp2", f"{CTR} rm {names}")


def test_the_same_command_completes_the_upgrade(site: Site, working: str):
    site.playbook(UPGRADE, variables=variables(site, NEW))
    assert servers(site) == [NEW] * 3 and kubelets(site) == {f"v{NEW}"} and members(site) == set(CONTROL)
    assert container(site, "working") == working, "the same container as before"
    proxy = site.get("--namespace kube-system daemonset kube-proxy")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert proxy.endswith(f":v{NEW}")
    assert not any(node["spec"].get("unschedulable") for node in site.get("nodes")["items"])
    address = site.kubectl("get service kubernetes -o jsonpath={.spec.clusterIP}")
    for host in HOSTS:
        assert asked(site, host, f"https://{address}/livez") == "ok", host


@pytest.fixture(scope="module")
def saved(site: Site, working: str, tmp_path_factory) -> Path:
    """A backup on the control node, with an object of before it and one of after it."""
    directory = tmp_path_factory.mktemp("backups")
    site.kubectl("create configmap before --from-literal=a=1")
    site.playbook(BACKUP, variables={**variables(site, version(site)), "kubernetes_backup_fetch": str(directory)})
    site.kubectl("create configmap after --from-literal=a=1")
    (path,) = directory.iterdir()
    return path


@pytest.fixture(scope="module")
def alone(site: Site, tmp_path_factory) -> str:
    """The inventory with one host in the control plane."""
    inventory = yaml.safe_load((site.inventory / "hosts.yml").read_text())
    inventory["all"]["children"]["kubernetes_control_plane"]["hosts"] = {"cp1": {}}
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory))
    return str(path)


def test_a_restore_stops_before_there_are_two_control_planes(site: Site, saved: Path, now: dict[str, object]):
    given = {**now, "kubernetes_restore_from": str(saved), "kubernetes_restore_overwrite": "kubernetes"}
    said = words(site.playbook(RESTORE, variables=given, succeeds=False))
    assert "cp2, cp3 still have the control plane of before" in said and "Nothing was changed" in said
    assert site.kubectl("get configmap after -o name") == "configmap/after"


def test_two_are_lost_for_good_and_one_is_restored(site: Site, saved: Path, alone: str, working: str, now: dict[str, object]):
    for host in ("cp2", "cp3"):
        site.out(host, LOSE)
    given = {**now, "kubernetes_restore_from": str(saved), "kubernetes_restore_overwrite": "kubernetes"}
    said = words(site.playbook(RESTORE, variables=given, inventories=(alone,)))
    assert "The former state is kept in /var/lib/etcd/before-restore-" in said
    assert members(site) == {"cp1"} and container(site, "working") == working
    assert site.kubectl("get configmap before -o name") == "configmap/before"
    assert "not found" in site.kubectl("get configmap after", succeeds=False)


def test_one_host_grows_to_three(site: Site, working: str, now: dict[str, object]):
    site.playbook(PLAYBOOK, variables=now)
    assert members(site) == set(CONTROL) and container(site, "working") == working
    site.kubectl("wait --for=condition=Ready node --all --timeout=120s")
    # None of them is needed: what was made before is there without the first one.
    assert [site.out(host, f"{OWN} /api/v1/namespaces/default/configmaps/before >/dev/null && echo has") for host in CONTROL] == ["has"] * 3
    records = {site.out(host, "cat /var/lib/deephdc/kubernetes_accelerators /var/lib/deephdc/kubernetes_control_plane") for host in CONTROL}
    assert len(records) == 1, "each has the same record"
