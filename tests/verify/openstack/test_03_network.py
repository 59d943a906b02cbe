# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Ports of servers: security rules open and close them, addresses can't be taken, projects don't see each other.

The image's servers answer HTTP on port 80. The DHCP host is the client, as it is in each network.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from local import Cluster
from openstack_users import Account

HOST = "lxd1"


class Server:
    """A server without a GPU, by its owner."""

    def __init__(self, cluster: Cluster, owner: Account, admin: Account, name: str) -> None:
        self.cluster, self.owner = cluster, owner
        made = owner.start(name, "small")
        assert (made["status"], made["fault"]) == ("ACTIVE", "")
        self.id, self.address = made["id"], made["addresses"][0]
        self.instance = str(admin.ask(f"answer = cloud.compute.get_server({self.id!r}).instance_name"))
        self.network = str(owner.ask(f"answer = cloud.network.find_network({owner.network!r}).id"))
        cluster.until(HOST, f"lxc exec {self.instance} -- ip -4 -o addr show eth0", self.address, seconds=60)

    def answers(self) -> bool:
        words = f"ip netns exec qdhcp-{self.network} curl --silent --max-time 2 http://{self.address}/"
        return self.cluster.run("ctl", words).returncode == 0

    def sees(self, address: str) -> bool:
        return self.cluster.run(HOST, f"lxc exec {self.instance} -- ping -c 1 -W 2 {address}").returncode == 0


@pytest.fixture(scope="module")
def mine(cluster: Cluster, ada: Account, admin: Account) -> Iterator[Server]:
    made = Server(cluster, ada, admin, "mine")
    yield made
    ada.remove(made.id)


@pytest.fixture(scope="module")
def mate(cluster: Cluster, ada: Account, admin: Account) -> Iterator[Server]:
    made = Server(cluster, ada, admin, "mate")
    yield made
    ada.remove(made.id)


@pytest.fixture(scope="module")
def foreign(cluster: Cluster, eve: Account, admin: Account) -> Iterator[Server]:
    made = Server(cluster, eve, admin, "foreign")
    yield made
    eve.remove(made.id)


def within(seconds: float, wanted: bool, server: Server) -> float:
    """Seconds until a port is open or closed."""
    began = time.monotonic()
    while server.answers() != wanted:
        assert time.monotonic() - began < seconds, f"the port is still {'closed' if wanted else 'open'} after {seconds} s"
        time.sleep(0.5)
    return time.monotonic() - began


def test_a_removed_rule_closes_the_port(mine: Server, mate: Server, ada: Account) -> None:
    """Also after a port went away, by which Debian 12's ebtables stops the agent."""
    assert not mine.answers()
    ada.ask(f"""
        cloud.compute.reboot_server({mate.id!r}, "HARD")
        time.sleep(1)
        answer = shown(settled({mate.id!r}, wanted=["ACTIVE"]))
    """)
    rule = ada.ask(f"""
        port = next(iter(cloud.network.ports(device_id={mine.id!r})))
        answer = cloud.network.create_security_group_rule(
            security_group_id=port.security_group_ids[0], direction="ingress", ethertype="IPv4", protocol="tcp",
            port_range_min=80, port_range_max=80).id
    """)
    opened = within(20, True, mine)
    ada.ask(f"cloud.network.delete_security_group_rule({rule!r})\nanswer = True")
    closed = within(10, False, mine)
    print(f"opened after {opened:.1f} s, closed after {closed:.1f} s")


def test_a_server_cant_take_another_address(cluster: Cluster, mine: Server, mate: Server) -> None:
    assert mine.sees(mate.address)
    taken = mate.address.rpartition(".")[0] + ".200"
    cluster.out(HOST, f"lxc exec {mine.instance} -- ip addr add {taken}/24 dev eth0")
    try:
        ping = f"lxc exec {mine.instance} -- ping -c 1 -W 2 -I {taken} {mate.address}"
        assert cluster.run(HOST, ping).returncode != 0
        assert cluster.run(HOST, ping.replace(taken, mine.address)).returncode == 0
    finally:
        cluster.out(HOST, f"lxc exec {mine.instance} -- ip addr del {taken}/24 dev eth0")


def test_a_server_cant_send_by_another_hardware_address(cluster: Cluster, mine: Server, mate: Server) -> None:
    """The program that stands for ebtables writes this rule in another form."""
    link = f"lxc exec {mine.instance} -- ip link set eth0 address"
    hardware = cluster.out(HOST, f"lxc exec {mine.instance} -- cat /sys/class/net/eth0/address")
    assert mine.sees(mate.address)
    cluster.out(HOST, f"{link} fa:16:3e:00:00:01")
    try:
        assert not mine.sees(mate.address)
    finally:
        cluster.out(HOST, f"{link} {hardware}")
    cluster.until(HOST, f"lxc exec {mine.instance} -- ping -c 1 -W 2 {mate.address}", " 0% packet loss", seconds=20)


def test_projects_dont_see_each_other(cluster: Cluster, mine: Server, mate: Server, foreign: Server) -> None:
    """Both networks have the same addresses."""
    assert mine.sees(mate.address)
    assert not foreign.sees(mine.address) or foreign.address == mine.address
    hardware = cluster.out(HOST, f"lxc exec {foreign.instance} -- cat /proc/net/arp")
    assert mine.address not in hardware or "00:00:00:00:00:00" in hardware
