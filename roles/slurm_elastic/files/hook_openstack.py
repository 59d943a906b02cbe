#!/usr/bin/python3
# Made by deephdc.accelerators. SPDX-License-Identifier: Apache-2.0
"""Hook that makes and deletes servers of an OpenStack cloud, one per node.

usage: hook resume|suspend|fail NAME...

A server has its node's name. The hook only ever deletes servers that carry the cluster's mark.
So a server that happens to have a node's name is safe.
Resuming a node that has a server already, or suspending one that has none, is right.
"""

from __future__ import annotations

import base64
import json
import sys
import time

import keystoneauth1.exceptions
import openstack
import openstack.config
import openstack.exceptions

CONFIG = "/etc/deephdc/slurm_elastic/nodes.json"
CLOUDS = "/etc/deephdc/slurm_elastic/clouds.yaml"
MARK = "deephdc-slurm-cluster"
POLL_SECONDS = 2


class Trouble(Exception):
    """One sentence that names what is wrong."""


def sentence_of(error: Exception) -> str:
    """Return in one line what an error of the cloud or of the way to it means.

    It never has a password in it.
    """
    if isinstance(error, Trouble):
        return str(error)
    if isinstance(error, keystoneauth1.exceptions.Unauthorized):
        return "OpenStack refuses the credentials in slurm_elastic_openstack_clouds"
    if isinstance(error, keystoneauth1.exceptions.ConnectFailure):
        # The rest are the innards of the client.
        return "OpenStack does not answer: " + " ".join(str(error).split()).split(": HTTP", maxsplit=1)[0]
    if isinstance(error, openstack.exceptions.HttpException):
        return "OpenStack refuses: " + " ".join(str(error.details or error.message or error).split())
    return " ".join(str(error).split()) or type(error).__name__


def one(found, what: str, name: str):
    if found is None:
        raise Trouble(f"OpenStack has no {what} {name!r}, which the node's server in slurm_cluster_cloud_nodes names")
    return found


class Cloud:
    """One entry of clouds.yaml."""

    def __init__(self, cloud: str, cluster: str) -> None:
        settings = openstack.config.OpenStackConfig(config_files=[CLOUDS], load_envvars=False)
        self.connection = openstack.connection.Connection(config=settings.get_one(cloud=cloud))
        self.cluster = cluster

    def servers(self, name: str) -> list:
        """Return the node's servers that are ours.

        Two are left where a run was killed at a bad moment.
        """
        named = [server for server in self.connection.compute.servers(details=True, name=f"^{name}$") if server.name == name]
        return [server for server in named if (server.metadata or {}).get(MARK) == self.cluster]

    def start(self, name: str, wanted: dict):
        """The node's server: the one that is there already, or a new one."""
        there = self.servers(name)
        if there:
            return there[0]
        compute, network = self.connection.compute, self.connection.network
        more = {}
        if wanted.get("key_name"):
            more["key_name"] = wanted["key_name"]
        if wanted.get("security_groups"):
            more["security_groups"] = [{"name": group} for group in wanted["security_groups"]]
        if wanted.get("user_data"):
            more["user_data"] = base64.b64encode(wanted["user_data"].encode()).decode()
        return compute.create_server(
            name=name,
            image_id=one(self.connection.image.find_image(wanted["image"]), "image", wanted["image"]).id,
            flavor_id=one(compute.find_flavor(wanted["flavor"]), "flavor", wanted["flavor"]).id,
            networks=[{"uuid": one(network.find_network(wanted["network"]), "network", wanted["network"]).id}],
            metadata={MARK: self.cluster},
            **more,
        )

    def wait_until_active(self, server) -> None:
        while True:
            server = self.connection.compute.get_server(server.id)
            if server.status == "ACTIVE":
                return
            if server.status == "ERROR":
                # Older releases of the SDK drop the fault from what they read.
                fault = self.connection.compute.get(f"/servers/{server.id}").json()["server"].get("fault") or {}
                self.connection.compute.delete_server(server.id)
                raise Trouble(f"OpenStack could not make the server: {fault.get('message') or 'it tells no cause'}")
            time.sleep(POLL_SECONDS)

    def stop(self, name: str) -> None:
        for server in self.servers(name):
            self.connection.compute.delete_server(server.id)
        while self.servers(name):
            time.sleep(POLL_SECONDS)


def attempt(failed: dict[str, str], name: str, what, *arguments):
    try:
        return what(*arguments)
    except Exception as error:  # whatever it is, the other nodes are served and this one's cause is reported
        failed[name] = sentence_of(error)
        return None


def main(action: str, names: list[str]) -> int:
    with open(CONFIG, encoding="utf-8") as file:
        config = json.loads(file.read().split("\n", 1)[1])  # after the comment
    wanted = {name: entry["server"] for entry in config["sets"] for name in entry["names"]}
    failed: dict[str, str] = {}
    clouds: dict[str, Cloud] = {}
    started = []
    for name in names:
        cloud = wanted[name].get("cloud") or "openstack"
        if cloud not in clouds:
            clouds[cloud] = attempt(failed, name, Cloud, cloud, config["cluster"])
        if clouds[cloud] is None:
            failed.setdefault(name, f"the cloud {cloud!r} in slurm_elastic_openstack_clouds can't be used")
        elif action == "resume":
            server = attempt(failed, name, clouds[cloud].start, name, wanted[name])
            if server is not None:
                started.append((name, clouds[cloud], server))
        else:
            attempt(failed, name, clouds[cloud].stop, name)
    # All are on their way before the first is waited for.
    for name, cloud, server in started:
        attempt(failed, name, cloud.wait_until_active, server)
    for name, sentence in failed.items():
        print(f"failed {name}: {sentence}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
