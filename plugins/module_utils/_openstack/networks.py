# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Networks of projects, and those to the outside."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.errors import Refused
from ansible_collections.deephdc.accelerators.plugins.module_utils._openstack.cloud import MARK, Cloud

Entry = t.Mapping[str, t.Any]


def networks(cloud: Cloud, wanted: t.Sequence[Entry]) -> None:
    """Make networks, each with one subnet.

    What is there is compared and never changed, as servers are in it.

    :raises Refused: a network of the name has another subnet.
    """
    api = cloud.sdk.network
    known: dict[str, t.Any] = {network.name: network for network in api.networks()}
    for entry in wanted:
        name = entry["name"]
        network = known.get(name)
        if network is None:
            values: dict[str, t.Any] = {"name": name, "description": f"Made by {MARK}"}
            values.update(is_shared=bool(entry.get("shared")), is_router_external=bool(entry.get("external")))
            if entry.get("project"):
                project = cloud.required("project", entry["project"])
                values["project_id"] = project.id if project else None
            if entry.get("physical_network"):
                values.update(provider_network_type="flat", provider_physical_network=entry["physical_network"])
            network = cloud.change(f"The network {name} is new.", api.create_network, **values)
            if network is None:
                continue
        _subnet(cloud, network, entry)


def _subnet(cloud: Cloud, network: t.Any, entry: Entry) -> None:
    api = cloud.sdk.network
    subnets = list(api.subnets(network_id=network.id))
    if not subnets:
        values: dict[str, t.Any] = {"network_id": network.id, "project_id": network.project_id, "name": entry["name"]}
        values.update(
            ip_version=4, cidr=entry["cidr"], is_dhcp_enabled=entry.get("dhcp", True), dns_nameservers=list(entry.get("dns") or [])
        )
        if entry.get("pool"):
            values["allocation_pools"] = [{"start": entry["pool"][0], "end": entry["pool"][1]}]
        if entry.get("gateway"):
            values["gateway_ip"] = entry["gateway"]
        cloud.change(f"The network {entry['name']} has the addresses {entry['cidr']}.", api.create_subnet, **values)
    elif entry["cidr"] not in [subnet.cidr for subnet in subnets]:
        raise Refused(
            f"The network {entry['name']} has the addresses {subnets[0].cidr}, not {entry['cidr']}: "
            "servers may have some, so give the new one another name."
        )


def routers(cloud: Cloud, wanted: t.Sequence[Entry]) -> None:
    """Make routers between networks of a project and the outside."""
    api = cloud.sdk.network
    known = {router.name: router for router in api.routers()}
    for entry in wanted:
        name = entry["name"]
        router = known.get(name)
        if router is None:
            values: dict[str, t.Any] = {"name": name, "description": f"Made by {MARK}"}
            if entry.get("project"):
                project = cloud.required("project", entry["project"])
                values["project_id"] = project.id if project else None
            if entry.get("external"):
                outside = api.find_network(entry["external"], ignore_missing=True)
                if outside is None and not cloud.is_dry:
                    raise Refused(
                        f"The router {name} is to lead to the network {entry['external']}, which does not exist: "
                        "name it in openstack_cloud_networks."
                    )
                values["external_gateway_info"] = {"network_id": outside.id if outside else None}
            router = cloud.change(f"The router {name} is new.", api.create_router, **values)
            if router is None:
                continue
        ports = {ip["subnet_id"] for port in api.ports(device_id=router.id) for ip in port.fixed_ips}
        for inside in entry.get("networks") or []:
            network = api.find_network(inside, ignore_missing=True)
            if network is None:
                if cloud.is_dry:
                    continue
                raise Refused(
                    f"The router {name} is to have the network {inside}, which does not exist: name it in openstack_cloud_networks."
                )
            for subnet in api.subnets(network_id=network.id):
                if subnet.id not in ports:
                    cloud.change(
                        f"The router {name} joins the network {inside}.",
                        api.add_interface_to_router,
                        router,
                        subnet_id=subnet.id,
                    )
