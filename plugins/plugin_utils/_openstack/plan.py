# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a cloud is made of, and which GPUs its compute hosts offer: pure functions."""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import Promises, with_lost
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.control_conf import urls
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.devices import gpu_inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.hosts import BY_NAME, COMPUTE, PARTS, SERVICES

# What the controller keeps of the offered devices, so that the next run sees which are missing.
PROMISES = Promises(
    "/var/lib/deephdc/openstack_accelerators",
    "# Made by deephdc.accelerators: the accelerators that each compute host offered to instances at the last run.\n",
)


class Compute(t.NamedTuple):
    """A compute host: its name in Nova, and the devices offered of it, lost ones too."""

    host: str
    name: str
    devices: list[dict[str, t.Any]]


def nothing(errors: t.Sequence[Finding], warnings: t.Sequence[Finding] = ()) -> dict[str, t.Any]:
    """A plan that stops the run."""
    return {
        "errors": [str(found) for found in errors],
        "warnings": [str(found) for found in warnings],
        "findings": [found.as_dict() for found in (*errors, *warnings)],
        "offers": {},
        "record": "",
        "files": {},
        "probes": [],
    }


def compute(host: str, name: str, found: list[dict[str, t.Any]], promised: list[dict[str, t.Any]]) -> tuple[Compute, list[Finding]]:
    """A compute host and what it has lost of what was promised.

    :raises ValueError: a device can't be read.
    """
    devices, lost = with_lost(found, promised, host)
    return Compute(host, name, devices), lost


def left_out(recorded: t.Sequence[str], compute: t.Sequence[str]) -> list[Finding]:
    """Hosts that offered GPUs at the last run, and that the inventory lacks."""
    remedy = f"put it into {COMPUTE} again; to take it away, run the playbook openstack_remove_compute first"
    return [
        Finding(
            "inventory",
            f"{host} is a compute host of the cloud, but it is not in {COMPUTE}: its servers would go on and new ones come, and a GPU "
            f"that it loses would not be seen: {remedy}.",
            host,
            remedy=remedy,
        )
        for host in recorded
        if host not in compute
    ]


def leaving(one: Compute, promised: t.Sequence[t.Mapping[str, t.Any]], found: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """PCI addresses of devices that were offered, are there, and are offered no more.

    The site gives them to another manager.
    """
    kept = {device["pci_address"] for device in one.devices}
    there = {device["pci_address"] for device in found}
    return sorted({str(device["pci_address"]) for device in promised if device["pci_address"] in there - kept})


def offered(device_list: list[dict[str, t.Any]]) -> dict[str, int]:
    """How many units of each resource class."""
    return dict(Counter(str(entry["resource_class"]) for entry in gpu_inventory(units.schedulable(device_list))["devices"]))


def floating_addresses(cloud: t.Mapping[str, t.Any]) -> int:
    """How many floating addresses a project may have: an even part of what the inventory has, at most Neutron's own 50."""
    there = 0
    for network in (one for one in cloud["networks"] if one.get("external")):
        cidr, pool = ipaddress.IPv4Network(str(network["cidr"])), network.get("pool")
        # Without a pool: but the network's own address, the gateway and the broadcast address.
        begin, end = map(int, map(ipaddress.IPv4Address, pool)) if pool else (int(cidr[0]) + 2, int(cidr[-1]) - 1)
        routers = [router for router in cloud["routers"] if router.get("external") == network["name"]]
        there += max(0, end - begin + 1 - len(routers))
    return min(50, max(1, there // max(1, len(cloud["projects"])))) if there else 50


def plan(
    cloud: t.Mapping[str, t.Any],
    hosts: t.Mapping[str, str],
    names: t.Mapping[str, str],
    addresses: t.Mapping[str, str],
    computes: t.Sequence[Compute],
    lost: t.Sequence[Finding],
    leaving: t.Mapping[str, t.Sequence[str]],
    federation: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the cloud.

    hosts, names and addresses: by part, see hosts.py. leaving: by host, PCI addresses of devices that are offered no more.
    federation: see federation_front.py.
    """
    offers = {one.host: offered(one.devices) for one in computes}
    return {
        **nothing((), lost),
        "offers": offers,
        "record": PROMISES.text({one.host: one.devices for one in computes}),
        "lost": [str(found) for found in lost],
        "leaving": [{"host": one.host, "name": one.name, "devices": list(leaving[one.host])} for one in computes if leaving.get(one.host)],
        "expected": [{"host": one.host, "name": one.name, "classes": offers[one.host]} for one in computes],
        "hosts": dict(hosts),
        "names": dict(names),
        "addresses": dict(addresses),
        "urls": urls({name: names[name] for name in BY_NAME}),
        "services": [{**one._asdict(), **{key: list(getattr(one, key)) for key in ("packages", "units", "databases")}} for one in SERVICES],
        "databases": {one.name: list(one.databases) for one in SERVICES},
        "parts": {host: [part for part in PARTS if hosts[part] == host] for host in dict.fromkeys(hosts.values())},
        "region": str(cloud["region"]),
        "ca": str(cloud["ca"]),
        "workers": int(cloud["workers"]),
        "mtu": int(cloud["mtu"]),
        "physical_networks": dict(cloud["physical_networks"]),
        "floating_addresses": floating_addresses(cloud),
        "settings": {name: dict(sections) for name, sections in cloud["settings"].items()},
        "federation": dict(federation),
    }
