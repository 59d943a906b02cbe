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


def present(recorded: t.Mapping[str, t.Any], compute: t.Mapping[str, str]) -> tuple[dict[str, list[dict[str, t.Any]]], list[Finding]]:
    """Return the recorded devices of each compute host, and hosts that are left out.

    The name in Nova says which host it is; in the inventory it may have another name now.

    :param recorded: what Promises.read() gives. compute: of each compute host its name in Nova.
    """
    names = {host: str(name) for host, name in dict(recorded.get("names") or {}).items()}
    now = {name: host for host, name in compute.items()}
    there: dict[str, list[dict[str, t.Any]]] = {}
    left_out = []
    for host, devices in recorded["nodes"].items():
        if names.get(host) in now:
            there[now[names[host]]] = devices
        # A record without names, or a machine with another name of its own.
        elif host in compute and compute[host] not in names.values():
            there[host] = devices
        else:
            left_out.append(_left_out(host))
    return there, left_out


def _left_out(host: str) -> Finding:
    remedy = (
        f"put it into {COMPUTE} again, or give a host that has another name in the inventory its former one; to take it away, run the "
        "playbook openstack_remove_compute first"
    )
    what = (
        f"{host} is a compute host of the cloud, but it is not in {COMPUTE}: its servers would go on and new ones come, and a GPU that it "
        "loses would not be seen"
    )
    return Finding("inventory", f"{what}: {remedy}.", host, remedy=remedy)


def leaving(promised: t.Iterable[t.Mapping[str, t.Any]], owned: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Name the devices that were offered, and that the site gives to another manager.

    They count also while they can't be read: a server may have them.

    :param owned: those of the promised devices that are still given to OpenStack.
    """
    return sorted(_ids(promised) - _ids(owned))


def _ids(devices: t.Iterable[t.Mapping[str, t.Any]]) -> set[str]:
    """Return what providers of Placement are called by.

    It is the PCI address of a whole device, and the UUID of each MIG instance of a divided one.
    """
    found: set[str] = set()
    for device in devices:
        instances = (device.get("mig") or {}).get("devices") or []
        found |= {str(instance.get("uuid")) for instance in instances} or {str(device["pci_address"])}
    return found


def offered(device_list: list[dict[str, t.Any]]) -> dict[str, int]:
    """How many units of each resource class."""
    return dict(Counter(str(entry["resource_class"]) for entry in gpu_inventory(units.schedulable(device_list))["devices"]))


def floating_addresses(cloud: t.Mapping[str, t.Any]) -> int:
    """How many floating addresses a project may have.

    It is what the inventory has, and not more than Neutron's own 50.
    """
    there = 0
    for network in (one for one in cloud["networks"] if one.get("external")):
        try:
            cidr, pool = ipaddress.IPv4Network(str(network["cidr"])), network.get("pool")
            # Without a pool: but the network's own address, the gateway and the broadcast address.
            begin, end = map(int, map(ipaddress.IPv4Address, pool)) if pool else (int(cidr[0]) + 2, int(cidr[-1]) - 1)
        except ValueError:
            return 50  # of another version of IP, or made by hand
        routers = [router for router in cloud["routers"] if router.get("external") == network["name"]]
        there += max(0, end - begin + 1 - len(routers))
    return min(50, there) if there else 50


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

    hosts, names and addresses: by part, see hosts.py. leaving: by host, what leaving() gives.
    federation: see federation_front.py.
    """
    offers = {one.host: offered(one.devices) for one in computes}
    return {
        **nothing((), lost),
        "offers": offers,
        "record": PROMISES.text({one.host: one.devices for one in computes}, names={one.host: one.name for one in computes}),
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
