# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a Mesos cluster is made of and which GPUs its agents offer: pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import Promises, with_lost
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import agent as mesos_agent
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import chronos, marathon, zookeeper
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import master as mesos_master
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import settings as mesos_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.hosts import quorum

# What the first master keeps of the offered devices, so that the next run sees which are missing.
PROMISES = Promises(
    "/var/lib/deephdc/mesos_accelerators",
    "# Made by deephdc.accelerators: the accelerators that each agent offered to frameworks at the last run.\n",
)


class Agent(t.NamedTuple):
    """An agent: its devices, lost ones included, and what becomes of them.

    :param own: the variables of the role mesos_agent, cpus and memory.
    :param lost: what is wrong with devices that were offered. strange: GPUs that Mesos can't offer.
    """

    host: str
    own: dict[str, t.Any]
    devices: list[dict[str, t.Any]]
    gpus: dict[str, str]
    attributes: str
    lost: list[Finding]
    strange: list[Finding]


def nothing(errors: t.Sequence[Finding], warnings: t.Sequence[Finding] = ()) -> dict[str, t.Any]:
    """A plan that stops the run."""
    return {
        "errors": [str(found) for found in errors],
        "warnings": [str(found) for found in warnings],
        "findings": [found.as_dict() for found in (*errors, *warnings)],
        "offers": {},
        "record": "",
        "lost": [],
        "files": {},
        "probes": [],
    }


def agent(
    host: str,
    given: t.Mapping[str, t.Any],
    facts: t.Mapping[str, t.Any],
    mine: list[dict[str, t.Any]],
    promised: list[dict[str, t.Any]],
) -> Agent:
    """An agent and what it has lost of what was promised.

    :raises ValueError: a device can't be read.
    """
    usable = [device for device in mine if device.get("driver") in NVIDIA.drivers]
    devices, lost = with_lost(usable, promised, host)
    before = {device["pci_address"] for device in promised}
    # What NVML does not list can't be offered; what was promised of it is lost.
    devices = [device for device in devices if device["pci_address"] in before or mesos_agent.is_listed(device)]
    present = {device["pci_address"] for device in mesos_agent.whole(usable) if mesos_agent.is_listed(device)}
    gone = [device for device in mesos_agent.whole(devices) if device["pci_address"] not in present]
    gpus = mesos_agent.gpu_flags(facts["accelerators"], present, len(gone))
    reserved = int(given["reserved_memory_mib"])
    own = {
        **given,
        "cpus": int(facts.get("processor_vcpus") or 0),
        "memory_mib": mesos_agent.memory_mib(int(facts.get("memtotal_mb") or 0), reserved),
        "disk_mib": mesos_agent.disk_mib(facts.get("mounts") or []),
    }
    return Agent(host, own, devices, gpus, mesos_agent.attributes(devices), lost, _strange(host, mine, before))


def _strange(host: str, mine: t.Sequence[dict[str, t.Any]], promised: t.Collection[str]) -> list[Finding]:
    """GPUs that are Mesos' own and can't be offered."""
    found = []
    for device in mine:
        if device.get("driver") in NVIDIA.drivers or not device.get("driver"):
            found += units.problems(device, host) if device["pci_address"] not in promised else []
        else:
            name = device.get("model") or device.get("type") or "The device"
            sentence = f"{name} at {device['pci_address']} is not offered: Mesos has an isolator for GPUs of NVIDIA's driver only."
            found.append(Finding("runtime", sentence, host, device["pci_address"]))
    return found


def offered(one: Agent) -> int:
    """How many GPUs an agent offers, lost ones included."""
    return len(mesos_agent.whole(one.devices))


def plan(
    cluster: t.Mapping[str, t.Any],
    parts: t.Mapping[str, t.Sequence[str]],
    names: t.Mapping[str, str],
    addresses: t.Mapping[str, str],
    agents: t.Sequence[Agent],
) -> dict[str, t.Any]:
    """The cluster. parts: as hosts.hosts_of gives them; names and addresses: by host."""
    ports, tls = mesos_settings.ports_of(cluster), mesos_settings.truth(cluster["tls"])
    has_chronos = bool(parts["chronos"])
    ensemble = zookeeper.ensemble(zookeeper.ids_of(cluster["zookeeper_ids"], parts["zookeeper"]), addresses, has_chronos)
    of_master = {
        "name": cluster["name"],
        "port": ports["master"],
        "tls": tls,
        "root_submissions": mesos_settings.truth(cluster["root_submissions"]),
    }
    of_agent = {"port": ports["agent"], "tls": tls, "url": ensemble["url"]}
    lost = {one.host: [str(found) for found in one.lost] for one in agents if one.lost}
    warnings = [found for one in agents for found in (*one.lost, *one.strange)] + _warnings(tls)
    planned = {
        **nothing((), warnings),
        "offers": {one.host: {"gpus": offered(one)} for one in agents},
        "record": PROMISES.text({one.host: one.devices for one in agents}),
        "lost": [f"{host}: {sentence}" for host, sentences in lost.items() for sentence in sentences],
        "lost_hosts": lost,
        "expected": [{"host": one.host, "name": names[one.host], "gpus": offered(one)} for one in agents],
        "hosts": {part: list(hosts) for part, hosts in parts.items()},
        "names": dict(names),
        "addresses": dict(addresses),
        "quorum": quorum(parts["masters"]),
        "zookeeper": ensemble,
        "masters": [f"{addresses[host]}:{ports['master']}" for host in parts["masters"]],
        "ports": ports,
        "tls": tls,
        "ca": str(cluster["ca"]),
        "name": str(cluster["name"]),
        "users": mesos_settings.listed(cluster["users"]),
        "sources": {name: dict(cluster[f"{name}_source"]) for name in ("mesos", "marathon", "chronos") if cluster[f"{name}_source"]},
        "master": {
            host: mesos_master.environment(of_master, names[host], addresses[host], len(parts["masters"]), len(parts["agents"]))
            for host in parts["masters"]
        },
        "agent": {
            one.host: mesos_agent.environment(
                {**one.own, "name": names[one.host], "address": addresses[one.host]}, of_agent, one.gpus, one.attributes
            )
            for one in agents
        },
    }
    planned["marathon"] = {host: marathon.flags(planned, host) for host in parts["marathon"]}
    planned["chronos"] = {host: chronos.flags(planned, host) for host in parts["chronos"]}
    return planned


def _warnings(tls: bool) -> list[Finding]:
    """What a site should know before it goes on."""
    found = [
        Finding(
            "manager",
            "Mesos, Marathon and Chronos have ended, and faults in them stay: plan the way out, docs/mesos.md has it.",
        )
    ]
    if not tls:
        found.append(
            Finding(
                "manager",
                "mesos_cluster_tls is false, so secrets and tasks go over the network as they are: set it to true.",
            )
        )
    return found
