# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A control plane of three: one host is lost, then two, then one is made again. A test begins with what the one before left."""

from __future__ import annotations

import subprocess

import pytest
from kubernetes_site import KUBECTL, PLAYBOOK, Site, recap
from kubernetes_versions import asked, container, variables, version

ETCDCTL = (
    "-- etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)


def engine(site: Site, verb: str, *names: str) -> None:
    subprocess.run(["docker", verb, *(f"{site.label}-{name}" for name in names)], check=True, capture_output=True)


def members(site: Site) -> set[str]:
    """The voting members of etcd that have started."""
    said = site.kubectl(f"--namespace kube-system exec etcd-cp1 {ETCDCTL} member list")
    lines = [line.split(", ") for line in said.splitlines()]
    return {name for _number, state, name, *_addresses, learner in lines if state == "started" and learner == "false"}


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
    assert members(site) == {"cp1", "cp2", "cp3"}
    for host in ("cp1", "cp2", "cp3", "gpu1"):
        server = site.out(host, "sed --quiet 's/^ *server: //p' /etc/kubernetes/kubelet.conf")
        assert (server, asked(site, host, f"{server}/livez")) == ("https://127.0.0.1:7443", "ok"), host
    records = {
        site.out(host, "cat /var/lib/deephdc/kubernetes_accelerators /var/lib/deephdc/kubernetes_control_plane")
        for host in ("cp1", "cp2", "cp3")
    }
    assert len(records) == 1, "each has the same record"


def test_no_key_is_left_where_it_is_not_needed(site: Site):
    for host in ("cp1", "cp2", "cp3"):
        assert site.run(host, "ls /etc/kubernetes/deephdc-join.yaml").returncode != 0
        modes = site.out(host, "stat --format='%a %U' /etc/kubernetes/pki/*.key /etc/kubernetes/pki/etcd/*.key").splitlines()
        assert set(modes) == {"600 root"}, host
    assert "kubeadm-certs" not in site.kubectl("--namespace kube-system get secrets -o name")
    assert site.run("gpu1", "ls /etc/kubernetes/pki/ca.key").returncode != 0


def test_a_second_run_changes_nothing(site: Site, now: dict[str, object]):
    said = site.playbook(PLAYBOOK, variables=now)
    for host in ("cp1", "cp2", "cp3", "gpu1"):
        assert "changed=0" in recap(said, host), said[-4000:]


def test_one_host_is_lost_and_all_goes_on(site: Site, working: str, now: dict[str, object]):
    """The first one, which a run would ask by default."""
    engine(site, "kill", "cp1")
    try:
        site.until("cp2", f"{KUBECTL} get --raw /readyz", "ok", 120)
        output = site.playbook(PLAYBOOK, variables=now, succeeds=False)
        said = " ".join(output.split())
        assert "cp1 can't be reached" in said
        for host in ("cp2", "cp3", "gpu1"):
            assert "failed=0" in recap(output, host)
        assert "gpu1: nvidia.com/gpu: " in said, "pods prove the GPUs, by a host that answers"
        pod = site.out("cp2", f"{KUBECTL} get pod working -o jsonpath={{.status.containerStatuses[0].containerID}}")
        assert pod == working
    finally:
        engine(site, "start", "cp1")
    site.until("cp1", f"{KUBECTL} get --raw /readyz", "ok", 180)


def test_the_loss_of_two_is_one_sentence(site: Site, working: str, now: dict[str, object]):
    engine(site, "kill", "cp2", "cp3")
    try:
        said = " ".join(site.playbook(PLAYBOOK, variables=now, succeeds=False).split())
        assert "etcd has lost its quorum: it needs 2 of its 3 hosts" in said
        assert "cp1 is up, but its API server does not answer" in said and "cp2 can't be reached" in said and "cp3 can't be reached" in said
        assert site.out("gpu1", "ctr --namespace k8s.io tasks list | grep --count RUNNING") != "0", "pods go on"
    finally:
        engine(site, "start", "cp2", "cp3")
    site.until("cp1", f"{KUBECTL} get --raw /readyz", "ok", 240)
    assert container(site, "working") == working


def test_a_host_that_lost_everything_joins_again(site: Site, working: str, now: dict[str, object]):
    site.until("cp2", f"{KUBECTL} get --raw /readyz", "ok", 120)
    site.out("cp1", "kubeadm reset --force --skip-phases=remove-etcd-member >/dev/null 2>&1")
    site.out("cp1", "rm -rf /etc/kubernetes /var/lib/etcd/member /var/lib/deephdc")
    site.playbook(PLAYBOOK, variables=now)
    assert members(site) == {"cp1", "cp2", "cp3"} and container(site, "working") == working
    assert "changed=0" in recap(site.playbook(PLAYBOOK, variables=now), "cp1")
