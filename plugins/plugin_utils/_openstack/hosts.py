# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which host has which part of a cloud, and each part's name: pure functions."""

from __future__ import annotations

import typing as t

CONTROLLERS = "openstack_controllers"
COMPUTE = "openstack_lxd_hosts"
NAME = "openstack_control_plane_name"  # of a host, as its certificate has it


class Service(t.NamedTuple):
    """A service of OpenStack with an API.

    :param name: of its project, its account and its database's account.
    :param type: what Keystone's catalogue calls it.
    :param port: of the API, by HTTPS. path: what follows it in the catalogue.
    :param packages: of Debian. units: of systemd, in the order of their start; the first one is the API.
    :param databases: in MariaDB.
    """

    name: str
    type: str
    port: int
    path: str
    packages: tuple[str, ...]
    units: tuple[str, ...]
    databases: tuple[str, ...]


# In the order in which they are made: each needs those before it.
SERVICES = (
    Service("keystone", "identity", 5000, "/v3", ("keystone",), ("keystone",), ("keystone",)),
    Service("glance", "image", 9292, "", ("glance",), ("glance-api",), ("glance",)),
    Service("placement", "placement", 8778, "", ("placement-api",), ("placement-api",), ("placement",)),
    Service("neutron", "network", 9696, "", ("neutron-server",), ("neutron-api", "neutron-rpc-server"), ("neutron",)),
    Service(
        "nova",
        "compute",
        8774,
        "/v2.1",
        ("nova-api", "nova-conductor", "nova-scheduler"),
        ("nova-api", "nova-conductor", "nova-scheduler"),
        ("nova_api", "nova", "nova_cell0"),
    ),
)
BY_NAME = {service.name: service for service in SERVICES}
# A part of the control plane to the group of the inventory that may name its host. Without one it is on the controller.
PARTS = {
    "database": "openstack_databases",
    "messaging": "openstack_messaging",
    "networks": "openstack_networks",
    **{service.name: f"openstack_{service.name}" for service in SERVICES},
}
GROUPS = (CONTROLLERS, *PARTS.values())


def hosts_of(groups: t.Mapping[str, t.Sequence[str]]) -> dict[str, str]:
    """The inventory name of the host of each part; the controller's is "controller"."""
    controller = (list(groups.get(CONTROLLERS) or []) or [""])[0]
    return {"controller": controller, **{part: (list(groups.get(group) or []) or [controller])[0] for part, group in PARTS.items()}}


def control_hosts(groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """All hosts of the control plane, each once, the controller first."""
    return list(dict.fromkeys(host for group in GROUPS for host in groups.get(group) or []))


def url(service: Service, name: str) -> str:
    """The address of an API on the host that is called so."""
    return f"https://{name}:{service.port}{service.path}"
