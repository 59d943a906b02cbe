# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""ZooKeeper restarts one server at a time; a wrong certificate is refused; what does not start gets its former configuration back."""

from __future__ import annotations

import subprocess
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from local import Cluster, changed
from mesos_site import LOOK, MASTERS, STAY, all_there, app, start, tasks

OWNS = (
    "roles/mesos_cluster/tasks/certificates.yml",
    "roles/zookeeper/tasks/main.yml",
    "roles/zookeeper/vars/main.yml",
)

PLAYBOOK = "playbooks/mesos.yml"
# Begins a line for each look: the servers that are a part of a majority.
WATCH = (
    "rm -f /root/seen; systemd-run --unit=watch --collect bash -c 'while sleep 0.2; do n=0; for h in {addresses}; do "
    'exec 3<>/dev/tcp/$h/2181 && echo mntr >&3 && timeout 2 grep -Eq "^zk_server_state.(leader|follower)" <&3 && n=$((n+1)); exec 3>&-; '
    "done 2>/dev/null; echo $n >>/root/seen; done'"
)

pytestmark = pytest.mark.usefixtures("clean")


def began(cluster: Cluster, unit: str, hosts: tuple[str, ...]) -> dict[str, str]:
    """When a unit was started on each host."""
    return {host: cluster.out(host, f"systemctl show --property=ExecMainStartTimestampMonotonic --value {unit}") for host in hosts}


def test_zookeeper_keeps_its_majority_through_its_restarts(cluster: Cluster) -> None:
    before = began(cluster, "zookeeper", MASTERS)
    addresses = " ".join(cluster.out(host, "hostname --ip-address") for host in MASTERS)
    cluster.out("lb", WATCH.format(addresses=addresses))
    cluster.until("lb", "cat /root/seen", "3")
    cluster.playbook(PLAYBOOK, "--tags", "zookeeper", variables={"zookeeper_heap_mib": 500})
    cluster.out("lb", "systemctl stop watch")
    seen = [int(line) for line in cluster.out("lb", "cat /root/seen").split()]
    after = began(cluster, "zookeeper", MASTERS)
    assert all(int(after[host]) > int(before[host]) for host in MASTERS)
    moments = sorted(int(moment) / 1e6 for moment in after.values())
    assert min(later - earlier for earlier, later in pairwise(moments)) > 1, moments
    # Without the leader the two others elect one, for a moment; one alone does not serve.
    longest = max((len(list(looks)) for number, looks in groupby(seen) if number == 0), default=0)
    assert seen.count(1) <= 2 and longest < 15 and seen.count(2) > 5, seen
    cluster.playbook(PLAYBOOK, "--tags", "zookeeper")


def test_a_server_that_does_not_start_gets_its_former_configuration_and_the_run_ends_there(cluster: Cluster) -> None:
    before = began(cluster, "zookeeper", MASTERS)
    output = cluster.playbook(PLAYBOOK, "--tags", "zookeeper", variables={"zookeeper_heap_mib": 1}, succeeds=False)
    assert "zookeeper" in output
    for host in MASTERS:
        assert "-Xmx1m" not in cluster.out(host, "cat /etc/systemd/system/zookeeper.service")
        cluster.until(host, "systemctl is-active zookeeper", "active")
    after = began(cluster, "zookeeper", MASTERS)
    assert [host for host in MASTERS if after[host] != before[host]] == ["m1"]
    assert changed(cluster.playbook(PLAYBOOK)) == []


@pytest.fixture
def other(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """A key, a certificate of it that no host trusts, and one of the site's authority for an address that no host has."""
    site = cluster.secrets / "mesos"
    made = f"""
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key
        openssl req -x509 -key key -days 9 -subj /CN=other -out authority
        openssl req -x509 -key key -days 9 -subj /CN=other -addext subjectAltName=IP:192.0.2.1 -addext basicConstraints=CA:FALSE \
            -CA {site}/ca.pem -CAkey {site}/ca.key -out address
    """
    subprocess.run(made, cwd=tmp_path, shell=True, check=True, capture_output=True)
    return {name: (tmp_path / name).read_text() for name in ("key", "authority", "address")}


def test_a_wrong_certificate_is_refused_before_it_is_written(cluster: Cluster, other: dict[str, str]) -> None:
    files = "sha256sum /etc/mesos/tls.key /etc/mesos/tls.crt /etc/mesos/ca.pem /etc/zookeeper/deephdc/*"
    before = {host: cluster.out(host, files) for host in MASTERS}
    strange = "clients that trust the site's authority would refuse the certificate"
    for certificate, sentence, more in (
        ("", "certificate and key do not belong together", ()),
        ("authority", strange, ("--check",)),
        ("address", f"{strange} as that of {cluster.out('m1', 'hostname --ip-address')}: IP address mismatch", ()),
    ):
        variables = {"mesos_cluster_key": other["key"]} | ({"mesos_cluster_certificate": other[certificate]} if certificate else {})
        output = cluster.playbook(PLAYBOOK, *more, variables=variables, succeeds=False)
        assert sentence in " ".join(output.split()) and other["key"].split("\n")[1] not in output and changed(output) == []
    assert {host: cluster.out(host, files) for host in MASTERS} == before


def test_an_agent_that_does_not_start_gets_its_former_environment(cluster: Cluster) -> None:
    """Its tasks live."""
    start(cluster, app("stays", LOOK + STAY, gpus=1))
    (before,) = tasks(cluster, "stays")
    output = cluster.playbook(PLAYBOOK, variables={"mesos_agent_isolation": ["no/such"]}, succeeds=False)
    output = " ".join(output.split())
    assert "Unknown or unsupported isolator" in output
    assert "The former /etc/default/mesos-agent is back, and mesos-agent.service runs with it" in output
    all_there(cluster)
    assert [one["id"] for one in tasks(cluster, "stays")] == [before["id"]]
    assert changed(cluster.playbook(PLAYBOOK)) == []
