# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Ports of servers on a compute host with LXD: security groups, addresses of others, and networks of other projects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local import Cluster
from openstack_users import Account

OWNS = (
    "roles/nova_lxd/files/nova_lxd/network.py",
    "roles/nova_lxd/files/nova_lxd/ports.py",
    "roles/openstack_linuxbridge",
    "roles/openstack_network",
    "plugins/module_utils/_openstack/networks.py",
    "plugins/plugin_utils/_openstack/agents.py",
)

HOST = "lxd1"
OUTSIDE = "198.51.100.1"  # of a host outside of the cloud: the other end of a cable that ctl has in the network outside
ELSEWHERE = "10.10.1.77"  # in both projects' networks, which have the same addresses


@pytest.fixture(scope="module")
def space(ada: Account) -> str:
    """Where Neutron's DHCP is in ada's network: in no security group, so it is a stranger to her servers."""
    return "qdhcp-" + str(ada.ask("answer = cloud.network.find_network('physics').id"))


@pytest.fixture(scope="module")
def servers(cluster: Cluster, admin: Account, ada: Account) -> Iterator[list[dict[str, Any]]]:
    cleanup = "answer = removed(*[server.id for server in cloud.compute.servers()])"
    assert ada.ask(cleanup) == []
    made = [ada.start(f"web{number}", "small") for number in (1, 2)]
    assert [server["status"] for server in made] == ["ACTIVE"] * 2, made
    for server in made:
        name = lxd_name(admin, server["id"])
        cluster.until(HOST, f"lxc exec {name} -- ip -4 -o addr show eth0", server["addresses"][0], seconds=60)
    yield made
    assert ada.ask(cleanup) == []


def lxd_name(admin: Account, server: str) -> str:
    return str(admin.ask(f"answer = cloud.compute.get_server({server!r}).instance_name"))


def opened(ada: Account, protocol: str, port: int | None = None) -> str:
    """A rule that lets strangers in; returns its id."""
    ports = f", port_range_min={port}, port_range_max={port}" if port else ""
    return str(
        ada.ask(f"""
            group = cloud.network.find_security_group("default", project_id=cloud.current_project_id).id
            answer = cloud.network.create_security_group_rule(
                security_group_id=group, direction="ingress", ethertype="IPv4", protocol={protocol!r}{ports}).id
        """)
    )


def closed(ada: Account, rule: str) -> None:
    assert ada.ask(f"cloud.network.delete_security_group_rule({rule!r}); answer = True")


def from_outside(space: str, address: str, port: int = 80) -> str:
    """A command that prints whether a stranger gets in."""
    return f"ip netns exec {space} timeout 2 bash -c '</dev/tcp/{address}/{port}' 2>/dev/null && echo open || echo closed"


def test_a_removed_rule_closes_the_port_also_after_ports_came_and_went(
    cluster: Cluster, ada: Account, servers: list[dict[str, Any]], space: str
) -> None:
    """Debian's ebtables can't delete a rule that the agent replaces when a port is wired again; then the agent changed nothing any more."""
    address = servers[0]["addresses"][0]
    assert cluster.out("ctl", from_outside(space, address)) == "closed"
    rule = opened(ada, "tcp", 80)
    cluster.until("ctl", from_outside(space, address), "open", seconds=20)
    assert cluster.out("ctl", from_outside(space, address, 81)) == "closed"
    ada.ask(f"""
        cloud.compute.reboot_server({servers[0]["id"]!r}, "HARD")
        time.sleep(1)
        answer = shown(settled({servers[0]["id"]!r}))
    """)
    ada.remove(servers.pop()["id"])
    cluster.until("ctl", from_outside(space, address), "open", seconds=40)
    closed(ada, rule)
    cluster.until("ctl", from_outside(space, address), "closed", seconds=10)


def test_a_server_cant_take_another_address(
    cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]], space: str
) -> None:
    name, address, other = lxd_name(admin, servers[0]["id"]), servers[0]["addresses"][0], "10.10.1.200"
    rule = opened(ada, "tcp", 80)
    try:
        cluster.until("ctl", from_outside(space, address), "open", seconds=20)
        cluster.out(HOST, f"lxc exec {name} -- ip addr add {other}/24 dev eth0")
        assert cluster.out("ctl", from_outside(space, other)) == "closed"
        assert cluster.out("ctl", from_outside(space, address)) == "open"
        mac = cluster.out(HOST, f"lxc exec {name} -- cat /sys/class/net/eth0/address")
        cluster.out(HOST, f"lxc exec {name} -- ip link set eth0 address fa:16:3e:00:00:01")
        cluster.run("ctl", f"ip netns exec {space} ip neigh flush all")
        assert cluster.out("ctl", from_outside(space, address)) == "closed"
        cluster.out(HOST, f"lxc exec {name} -- ip link set eth0 address {mac}")
        cluster.until("ctl", from_outside(space, address), "open", seconds=20)
    finally:
        closed(ada, rule)


def test_a_router_leads_out_and_a_floating_address_leads_in(
    cluster: Cluster, admin: Account, ada: Account, servers: list[dict[str, Any]]
) -> None:
    name = lxd_name(admin, servers[0]["id"])
    cluster.until(HOST, f"lxc exec {name} -- ping -c 1 -W 2 {OUTSIDE} >/dev/null && echo answers", "answers", seconds=30)
    floating, address = ada.ask(f"""
        port = next(iter(cloud.network.ports(device_id={servers[0]["id"]!r}))).id
        outside = cloud.network.find_network("outside").id
        made = cloud.network.create_ip(floating_network_id=outside, port_id=port)
        answer = [made.id, made.floating_ip_address]
    """)
    from_there = f"timeout 2 bash -c '</dev/tcp/{address}/80' 2>/dev/null && echo open || echo closed"
    assert address.startswith("198.51.100.") and cluster.out("ctl", from_there) == "closed"
    rule = opened(ada, "tcp", 80)
    try:
        cluster.until("ctl", from_there, "open", seconds=60)
        ada.ask(f"cloud.network.delete_ip({floating!r}); answer = True")
        cluster.until("ctl", from_there, "closed", seconds=30)
    finally:
        closed(ada, rule)


def test_projects_with_the_same_addresses_dont_see_each_other(
    cluster: Cluster, admin: Account, ada: Account, eve: Account, servers: list[dict[str, Any]]
) -> None:
    rule = opened(eve, "tcp", 80)
    server = eve.ask(f"""
        flavor = cloud.compute.find_flavor("small").id
        image = cloud.image.find_image("busybox").id
        networks = [dict(uuid=cloud.network.find_network("biology").id, fixed_ip={ELSEWHERE!r})]
        answer = shown(settled(cloud.compute.create_server(name="secret", flavor_id=flavor, image_id=image, networks=networks).id))
    """)
    try:
        assert server["status"] == "ACTIVE"
        theirs = "qdhcp-" + str(eve.ask("answer = cloud.network.find_network('biology').id"))
        cluster.until("ctl", from_outside(theirs, ELSEWHERE), "open", seconds=60)
        name = lxd_name(admin, servers[0]["id"])
        done = cluster.run(HOST, f"lxc exec {name} -- timeout 5 wget -q -O - http://{ELSEWHERE}/")
        assert done.returncode != 0 and "secret" not in done.stdout
    finally:
        eve.remove(server["id"])
        closed(eve, rule)
