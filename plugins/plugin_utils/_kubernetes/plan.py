# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The plan of a Kubernetes cluster, computed from data of its hosts: pure functions, linear in the hosts."""

from __future__ import annotations

import ipaddress
import re
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises, units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import Promises
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import (
    device_plugin,
    kubeadm,
    manifests,
)
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import inventory as kubernetes_inventory
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import settings as kubernetes_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

# What the control plane's host keeps of the workers' devices, so that the next run sees which are lost.
PROMISES = Promises(
    "/var/lib/deephdc/kubernetes_accelerators",
    "# Made by deephdc.accelerators: the accelerators that each worker offered to pods at the last run.\n",
)

SUPPORTED = (("Debian", "12"), ("Debian", "13"))
CONTAINERD = (1, 6)
# What kubeadm asks of a host with a control plane.
CONTROL_CPUS = 2
CONTROL_MIB = 1700
ONLY_NVIDIA = "only NVIDIA's device plugin is built"

_RELEASE = re.compile(r"v?([0-9]+)\.([0-9]+)")
_ENDS = "_.-"  # no value or name of a label begins or ends with one


class Worker(t.NamedTuple):
    """A worker as the plan has it.

    :param devices: its own accelerators that pods can be given, those that are lost included.
    :param offers: how many of each extended resource, as the node's allocatable shows them.
    :param config: of the device plugin; None where the node needs none.
    """

    host: kubeadm.Host
    devices: list[dict[str, t.Any]]
    offers: dict[str, int]
    replicas: int
    config: dict[str, t.Any] | None


def unread(host: str, facts: t.Mapping[str, t.Any], state: t.Mapping[str, t.Any], worker: bool) -> list[Finding]:
    """A host whose facts are not there, or only some of them."""
    needed = ["hostname", "distribution", "distribution_major_version", *(["accelerators"] if worker else [])]
    if all(name in facts for name in needed) and as_number(state.get("cgroup")) in (1, 2):
        return []
    group = kubernetes_inventory.WORKERS if worker else kubernetes_inventory.CONTROL_PLANE
    return [wrong(f"{host} was not read", f"bring it up, or take it out of {group}, then run again", host)]


def host_errors(
    cluster: t.Mapping[str, t.Any], host: str, facts: t.Mapping[str, t.Any], state: t.Mapping[str, t.Any], worker: bool
) -> list[Finding]:
    """What a host has that Kubernetes, or this collection, does not take."""
    found = []
    platform = (str(facts["distribution"]), str(facts["distribution_major_version"]))
    if platform not in SUPPORTED and not kubernetes_settings.is_true(cluster["untested_platforms"]):
        known = ", ".join(" ".join(one) for one in SUPPORTED)
        found.append(
            wrong(
                f"{host} runs {' '.join(platform)}, which is not supported (supported: {known})",
                f"reinstall it, or set {PREFIX}untested_platforms to true to try it all the same",
                host,
            )
        )
    if facts.get("swaptotal_mb") and cluster["kubelet"].get("failSwapOn") is not False:
        found.append(
            wrong(
                f"{host} has {facts['swaptotal_mb']} MiB of swap, with which kubelet does not start",
                f"turn swap off there, or set failSwapOn to false in {PREFIX}kubelet",
                host,
            )
        )
    containerd = str(state.get("containerd") or "")
    release = _RELEASE.match(containerd)
    if containerd and (not release or tuple(map(int, release.groups())) < CONTAINERD):
        needed = ".".join(map(str, CONTAINERD))
        found.append(wrong(f"{host} has containerd {containerd}, but {needed} or newer is needed", "upgrade it", host))
    if not worker:
        cpus, memory = facts.get("processor_vcpus"), facts.get("memtotal_mb")
        if cpus is not None and int(cpus) < CONTROL_CPUS:
            found.append(
                wrong(f"{host} has {cpus} CPU, but a control plane needs {CONTROL_CPUS}", "give it more, or choose another host", host)
            )
        if memory is not None and int(memory) < CONTROL_MIB:
            found.append(
                wrong(
                    f"{host} has {memory} MiB of memory, but a control plane needs {CONTROL_MIB}",
                    "give it more, or choose another host",
                    host,
                )
            )
    return found


def address_errors(
    cluster: t.Mapping[str, t.Any], addresses: t.Mapping[str, str], given: t.Collection[str], facts: t.Mapping[str, t.Mapping[str, t.Any]]
) -> list[Finding]:
    """Addresses that are missing, not unique, not the host's or inside of the cluster's own networks.

    :param addresses: by host, empty where there is none. given: hosts whose address the inventory gives.
    """
    named = kubernetes_inventory.ADDRESS
    found = [
        wrong(f"{host} has no default IPv4 address", f"set {named} for it", host) for host, address in addresses.items() if not address
    ]
    found += kubernetes_inventory.same({host: address for host, address in addresses.items() if address}, "address")
    for host, address in addresses.items():
        inside = kubernetes_settings.network_of(cluster, address)
        if inside:
            network = cluster[inside[len(PREFIX) :]]
            found.append(wrong(f"The address {address} of {host} is inside {inside} {network}", f"change {inside}", host))
        own = facts[host].get("all_ipv4_addresses") or []
        if host in given and own and ipaddress.IPv4Address(address) not in map(ipaddress.IPv4Address, own):
            found.append(wrong(f"{named} of {host} is {address}, but {host} has {', '.join(own)}", "correct it", host))
    return found


def settled(
    cluster: t.Mapping[str, t.Any],
    host: kubeadm.Host,
    accelerators: t.Sequence[dict[str, t.Any]],
    promised: t.Sequence[dict[str, t.Any]],
    replicas: int,
) -> tuple[Worker, list[Finding]]:
    """A worker with what it offers, and what is wrong with the devices that it was promised to have.

    :raises ValueError: two of its devices share a device file, one sentence.
    """
    if cluster["gpus"] == "none":
        return Worker(host, list(promised), {}, replicas, None), []  # the record stays as it is
    mine = [device for device in accelerators if device.get("vendor") == NVIDIA.name]
    whole, lost = promises.with_lost(mine, list(promised), host.host)
    devices = [dict(device) for device in units.schedulable(whole)]
    try:
        units.units(devices)
    except ValueError as error:
        raise ValueError(f"{host.host}: {error}") from error
    offers = {name: count * replicas for name, count in device_plugin.resources(devices).items()}
    config = device_plugin.device_plugin_config(devices, replicas) if offers else None
    return Worker(host, devices, offers, replicas, config), lost


def shared_errors(
    cluster: t.Mapping[str, t.Any], host: str, accelerators: t.Sequence[dict[str, t.Any]], mine: t.Sequence[dict[str, t.Any]]
) -> list[Finding]:
    """Devices of other managers that the device plugin would offer all the same: it takes no list of devices.

    :param mine: the accelerators of the host that are Kubernetes' own.
    """
    if cluster["gpus"] == "none":
        return []
    remedy = f"give all of them to kubernetes in {_allotment.VARIABLE}, or take the host out of {kubernetes_inventory.WORKERS}"
    return [
        Finding(
            "inventory",
            f"{host}: {promises.describe(device)} is not given to kubernetes, but NVIDIA's device plugin offers all GPUs: {remedy}.",
            host,
            device.get("pci_address"),
            remedy,
        )
        for device in units.schedulable(accelerators)
        if device.get("vendor") == NVIDIA.name and device not in mine
    ]


def repairable(problem: Finding) -> Finding:
    """What is wrong with a promised device, with its host and what to do in the sentence."""
    remedy = f"repair it, or name {problem.host} in {PREFIX}accept_hardware if it is gone for good"
    return problem._replace(sentence=f"{problem.host}: {problem}: {remedy}.", remedy=remedy)


def left_out(
    cluster: t.Mapping[str, t.Any], host: str, accelerators: t.Sequence[dict[str, t.Any]], known: t.Collection[str]
) -> list[Finding]:
    """What pods can't use although nobody promised it, and what the tools that read the devices complain of."""
    if cluster["gpus"] == "none":
        return []
    found = [
        Finding("manager", f"{host}: {promises.describe(device)} is not offered: {ONLY_NVIDIA}.", host, device.get("pci_address"))
        for device in units.schedulable(accelerators)
        if device.get("vendor") != NVIDIA.name
    ]
    found += [
        problem._replace(sentence=f"{host}: {problem}")
        for device in accelerators
        if device.get("vendor") == NVIDIA.name and device.get("pci_address") not in known
        for problem in units.problems(device, host)
    ]
    advice = {p["message"] for device in accelerators for p in device.get("health") or [] if p["problem"] in promises.ADVISORY}
    return found + [Finding("tool", f"{host}: {message}", host) for message in sorted(advice)]


def labels(worker: Worker) -> dict[str, str]:
    """The labels of a node: how many GPUs of each type, and which configuration of the device plugin it has."""
    if worker.config is None:
        return {}
    found = {
        f"{manifests.DOMAIN}/{gpu_type[:63].strip(_ENDS)}": str(count)
        for gpu_type, count in Counter(unit.type for unit in units.units(worker.devices)).items()
    }
    return dict(sorted({**found, manifests.PLUGIN_LABEL: manifests.name_of(worker.config)}.items()))


def probes(workers: t.Iterable[Worker], unfit: t.Container[str]) -> list[dict[str, t.Any]]:
    """The pods that prove the cluster: one of each resource on each node that is fit; count is how many the node must offer."""
    return [
        {"node": worker.host.name, "resource": resource, "count": count}
        for worker in workers
        if worker.host.host not in unfit
        for resource, count in worker.offers.items()
    ]


def nothing(errors: t.Sequence[Finding], warnings: t.Sequence[Finding] = ()) -> dict[str, t.Any]:
    """The plan of a cluster that must not be changed."""
    return {
        "errors": [str(error) for error in errors],
        "findings": [found.as_dict() for found in (*errors, *warnings)],
        "warnings": [str(warning) for warning in warnings],
        "offers": {},
        "record": "",
        "unfit": {},
        "lost": [],
        "names": {},
        "addresses": {},
        "endpoint": "",
        "version": "",
        "network": "",
        "pod_network": "",
        "kubelet": {},
        "nodes": [],
        "manifests": [],
        "probes": [],
        "kubeadm": {"init": [], "join": {}},
    }


def plan(
    cluster: t.Mapping[str, t.Any],
    control: kubeadm.Host,
    workers: t.Sequence[Worker],
    lost: t.Sequence[Finding],
    warnings: t.Sequence[Finding],
) -> dict[str, t.Any]:
    """Everything a run needs to know of the cluster.

    :param lost: what is wrong with promised devices. warnings: what is not offered though nobody promised it.
    """
    hosts = [control, *(worker.host for worker in workers)]
    endpoint = cluster["endpoint"] or f"{control.address}:{kubeadm.PORT}"
    reasons: dict[str, list[str]] = {}
    for problem in lost:
        reasons.setdefault(str(problem.host), []).append(f"{problem} ({problem.layer})")
    unfit = {host: "; ".join(sentences) for host, sentences in reasons.items()}
    tainted = kubernetes_settings.is_true(cluster["taint_gpus"])
    taints = {worker.host.host: [manifests.TAINT] if tainted and worker.offers else [] for worker in workers}
    configs = {manifests.name_of(worker.config): worker.config for worker in workers if worker.config is not None}
    old = [host.host for host in hosts if host.cgroup == 1]
    notes = list(warnings)
    problems = [repairable(problem) for problem in lost]
    if old:
        what = f"Control groups of version 1, which later releases of Kubernetes do not take, are on {', '.join(old)}"
        remedy = "boot with version 2"
        notes.append(Finding("runtime", f"{what}: {remedy}.", old[0] if len(old) == 1 else None, None, remedy))
    if cluster["gpus"] != "none" and not configs:
        notes.append(
            Finding("manager", "No worker has a GPU that pods can be given. If there should be one, look at it with the module gpu_facts.")
        )
    return {
        "errors": [],
        "findings": [found.as_dict() for found in (*problems, *notes)],
        "warnings": [str(note) for note in notes],
        "offers": {worker.host.host: worker.offers for worker in workers},
        "record": PROMISES.text({worker.host.host: worker.devices for worker in workers}),
        "unfit": unfit,
        "lost": [str(problem) for problem in problems],
        "names": {host.host: host.name for host in hosts},
        "addresses": {host.host: host.address for host in hosts},
        "endpoint": endpoint,
        "version": cluster["version"],
        "network": cluster["network"],
        "pod_network": cluster["pod_network"],
        "kubelet": {host.host: kubeadm.kubelet(cluster, host) for host in hosts},
        "nodes": [
            {
                "name": worker.host.name,
                "host": worker.host.host,
                "labels": labels(worker),
                "taints": [dict(taint) for taint in taints[worker.host.host]],
            }
            for worker in workers
        ],
        "manifests": manifests.objects(cluster, configs),
        "probes": probes(workers, unfit),
        "kubeadm": {
            "init": kubeadm.init(cluster, control, endpoint),
            "join": {worker.host.host: kubeadm.join(cluster, worker.host, endpoint, taints[worker.host.host]) for worker in workers},
        },
    }
