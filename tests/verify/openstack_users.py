# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What users and the administrator of the scenario openstack ask the cloud: one process of openstacksdk for each question."""

from __future__ import annotations

import base64
import json
import textwrap
import time
from typing import Any

from local import Cluster

# The compute host.
HOST = "lxd1"
# Runs on the controller; a question sets the variable answer.
BEGINNING = """
import json, time
import openstack
cloud = openstack.connect(**{login})

def until(read, wanted, seconds):
    deadline = time.monotonic() + seconds
    while True:
        seen = read()
        if wanted(seen) or time.monotonic() > deadline:
            return seen
        time.sleep(0.5)

def settled(server, seconds=300, wanted=("ACTIVE", "ERROR", "SHUTOFF")):
    def read():
        return cloud.compute.get_server(server)
    return until(read, lambda seen: seen.status in wanted and not seen.task_state, seconds)

def shown(server):
    # openstacksdk 0.101 does not know of faults.
    fault = cloud.compute.get("/servers/" + server.id).json()["server"].get("fault", dict()).get("message", "")
    addresses = [one["addr"] for listed in (server.addresses or dict()).values() for one in listed]
    return dict(id=server.id, status=server.status, fault=fault, addresses=addresses, metadata=server.metadata)

def make(name, flavor, network):
    flavor = cloud.compute.find_flavor(flavor, ignore_missing=False).id
    image = cloud.image.find_image("busybox", ignore_missing=False).id
    networks = [dict(uuid=cloud.network.find_network(network, ignore_missing=False).id)]
    return cloud.compute.create_server(name=name, flavor_id=flavor, image_id=image, networks=networks)

def removed(*servers):
    for server in servers:
        cloud.compute.delete_server(server, ignore_missing=True)
    for server in servers:
        until(lambda: cloud.compute.find_server(server, ignore_missing=True), lambda seen: seen is None, 180)
    return [server for server in servers if cloud.compute.find_server(server, ignore_missing=True)]
"""


class Account:
    """Someone who may enter the cloud."""

    def __init__(self, cluster: Cluster, login: dict[str, Any], network: str = "") -> None:
        self.cluster = cluster
        self.login = login
        self.network = network

    def ask(self, question: str, seconds: float = 480) -> Any:
        """What the variable answer has after a few lines of Python."""
        program = BEGINNING.replace("{login}", repr(self.login)) + textwrap.dedent(question) + "\nprint(json.dumps(answer))\n"
        words = f"echo {base64.b64encode(program.encode()).decode()} | base64 --decode | python3 -W ignore -"
        return json.loads(self.cluster.out("ctl", words, timeout=seconds).splitlines()[-1])

    def start(self, name: str, flavor: str) -> dict[str, Any]:
        """A new server when its making has ended, well or not."""
        return dict(self.ask(f"answer = shown(settled(make({name!r}, {flavor!r}, {self.network!r}).id))"))

    def show(self, server: str) -> dict[str, Any]:
        return dict(self.ask(f"answer = shown(settled({server!r}))"))

    def remove(self, *servers: str) -> None:
        assert self.ask(f"answer = removed(*{list(servers)!r})") == []


def user(cluster: Cluster, name: str, project: str) -> Account:
    """A user of a project, with the password that the inventory made."""
    password = (cluster.secrets / "openstack" / name).read_text(encoding="utf-8").split()[0]
    domains = {"user_domain_name": "Default", "project_domain_name": "Default"}
    auth = {"auth_url": "https://ctl:5000/v3", "username": name, "password": password, "project_name": project, **domains}
    cluster.run(
        "ctl", f"echo {base64.b64encode((cluster.secrets / 'openstack/ca.pem').read_bytes()).decode()} | base64 -d > /run/test-ca.pem"
    )
    return Account(cluster, {"auth": auth, "region_name": "RegionOne", "cacert": "/run/test-ca.pem"}, project)


def administrator(cluster: Cluster) -> Account:
    return Account(cluster, {"cloud": "deephdc-admin"})


def instance(admin: Account, server: str) -> str:
    """LXD's name of a server."""
    return str(admin.ask(f"answer = cloud.compute.get_server({server!r}).instance_name"))


def files(cluster: Cluster, name: str) -> dict[str, str]:
    """The device files of GPUs in an instance, with their numbers."""
    listed = cluster.out(
        HOST, f"lxc exec {name} -- sh -c 'for file in /dev/nvidia*; do [ -c $file ] && stat -c \"%n %t:%T\" $file; done; true'"
    )
    return dict(line.split() for line in listed.splitlines())


def wait_for_host(cluster: Cluster, admin: Account, host: str) -> None:
    """Until a compute host that was started answers, and its compute service and its agent for ports are known to be up.

    What the cloud says of them is old for a minute, so their processes are looked at first.
    """
    deadline = time.monotonic() + 180
    while cluster.run(host, "true").returncode != 0:
        assert time.monotonic() < deadline, f"{host} does not answer"
        time.sleep(0.5)
    for unit in ("nova-compute", "neutron-linuxbridge-agent"):
        cluster.until(host, f"systemctl is-active --quiet {unit} && echo runs", "runs", seconds=180)
    seen = admin.ask(f"""
        def states():
            services = cloud.compute.services(binary="nova-compute")
            agents = cloud.network.get("/agents", params=dict(host={host!r}, binary="neutron-linuxbridge-agent")).json()["agents"]
            return [one.state for one in services if one.host == {host!r}] + [one["alive"] for one in agents]
        answer = until(states, lambda seen: seen == ["up", True], 300)
    """)
    assert seen == ["up", True], seen
