# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The plan of a Kubernetes cluster, computed from data of its hosts.

Pure functions, linear in the hosts.
"""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.lost import reason
from ansible_collections.deephdc.accelerators.plugins.module_utils._model import promises, units
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import Promises
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import (
    access,
    control_plane,
    device_plugin,
    dra,
    kubeadm,
    manifests,
    policy_settings,
    queue,
    runtimes,
    sharing,
    vendor_plugins,
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
# What kubeadm asks of a host with a control plane.
CONTROL_CPUS = 2
CONTROL_MIB = 1700

_ENDS = "_.-"  # no value or name of a label begins or ends with one


class Worker(t.NamedTuple):
    """A worker as the plan has it.

    :param devices: its own accelerators that pods can be given, those that are lost included.
    :param offers: how many of each extended resource pods may ask for.
    :param config: of NVIDIA's device plugin; None where the node needs none.
    :param parts: what a DRA driver must publish of it, empty in another mode.
    """

    host: kubeadm.Host
    devices: list[dict[str, t.Any]]
    offers: dict[str, int]
    config: dict[str, t.Any] | None
    parts: t.Sequence[dra.Part] = ()

    def taints(self) -> list[dict[str, str]]:
        """What keeps pods off that ask for none of its devices."""
        resources = [resource for resource in vendor_plugins.RESOURCES if resource in self.offers]
        is_nvidia = len(self.offers) > len(resources)
        return [*([dict(manifests.TAINT)] if is_nvidia else []), *map(manifests.taint, resources)]


def unread(host: str, facts: t.Mapping[str, t.Any], state: t.Mapping[str, t.Any], worker: bool) -> list[Finding]:
    """A host whose facts are not there, or only some of them."""
    needed = ["hostname", "distribution", "distribution_major_version", *(["accelerators"] if worker else [])]
    if all(name in facts for name in needed) and as_number(state.get("cgroup")) in (1, 2):
        return []
    group = kubernetes_inventory.WORKERS if worker else kubernetes_inventory.CONTROL_PLANE
    return [wrong(f"{host} was not read", f"bring it up, or take it out of {group}, then run again", host)]


def host_errors(
    cluster: t.Mapping[str, t.Any],
    host: str,
    facts: t.Mapping[str, t.Any],
    state: t.Mapping[str, t.Any],
    worker: bool,
    packages: t.Any = None,
) -> list[Finding]:
    """What a host has that Kubernetes, or this collection, does not take.

    :param packages: those of the container runtime, where the site names them.
    """
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
    containerd = str(state.get("containerd") or "") or runtimes.coming(platform, packages)
    found += runtimes.host_errors(cluster, host, containerd, as_number(state.get("cgroup")), worker)
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
    """Return what is wrong with the addresses of hosts.

    An address is missing, not unique, not the host's, or inside of the cluster's own networks.

    :param addresses: by host, empty where it has no address. given: hosts whose address the inventory gives.
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
    shared: sharing.Sharing,
) -> tuple[Worker, list[Finding]]:
    """Return a worker with what it offers, and what is wrong with promised devices.

    :raises ValueError: two of its devices share a device file, one sentence.
    """
    if cluster["gpus"] == "none":
        return Worker(host, list(promised), {}, None), []  # the record stays as it is
    offered = (NVIDIA.name, *cluster["device_plugins"])
    mine, before = ([device for device in devices if device.get("vendor") in offered] for devices in (accelerators, promised))
    whole, lost = promises.with_lost(mine, before, host.host)
    devices = [dict(device) for device in units.schedulable(whole)]
    try:
        units.units(devices)
    except ValueError as error:
        raise ValueError(f"{host.host}: {error}") from error
    offers = {name: count * shared.replicas for name, count in device_plugin.resources(devices).items()}
    if cluster["gpus"] == "device_plugin" and device_plugin.unnameable(devices):
        offers = {}  # left_out() says why; the plugin has no list of what to offer
    config, parts = None, []
    if cluster["gpus"] == "dra":
        parts = dra.parts(devices)
    elif offers:
        config = device_plugin.device_plugin_config(devices, shared.replicas, shared.is_mps)
    return Worker(host, devices, {**offers, **vendor_plugins.resources(cluster, devices)}, config, parts), lost


def watched(worker: Worker) -> dict[str, t.Any]:
    """What the check on the worker itself compares its devices with, between two runs.

    It has the name of NVIDIA's device plugin where that may be started again when a device is back: with MPS that would end pods.
    """
    return {
        "node": worker.host.name,
        "host": worker.host.host,
        "devices": [{key: device.get(key) for key in PROMISES.keys} for device in worker.devices],
        "plugin": manifests.name_of(worker.config) if worker.config is not None and not manifests.is_mps(worker.config) else "",
        "offers": {name: count for name, count in worker.offers.items() if name.startswith("nvidia.com/")},
    }


def shared_errors(
    cluster: t.Mapping[str, t.Any], host: str, accelerators: t.Sequence[dict[str, t.Any]], mine: t.Sequence[dict[str, t.Any]]
) -> list[Finding]:
    """Return other managers' devices that the device plugin would offer nevertheless.

    The plugin takes no list of devices.

    :param mine: the accelerators of the host that are Kubernetes' own.
    """
    if cluster["gpus"] != "device_plugin":
        return []
    ways = f"give all of them to kubernetes in {_allotment.VARIABLE}, or take the host out of {kubernetes_inventory.WORKERS}"
    remedy = f"set {PREFIX}gpus to dra, {ways}"
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
    """Return a promised device's problem; its sentence has the host and what to do."""
    remedy = f"repair it, or name {problem.host} in {PREFIX}accept_hardware if it is gone for good"
    return problem._replace(sentence=f"{problem.host}: {problem}: {remedy}.", remedy=remedy)


def left_out(
    cluster: t.Mapping[str, t.Any], host: str, accelerators: t.Sequence[dict[str, t.Any]], known: t.Collection[str]
) -> list[Finding]:
    """Return the devices that pods can't use and that were not promised.

    Also return what the tools that read the devices complain about.
    """
    if cluster["gpus"] == "none":
        return []
    found = [
        Finding("manager", f"{host}: {promises.describe(device)} is not offered: {_why_not(device)}.", host, device.get("pci_address"))
        for device in units.schedulable(accelerators)
        if device.get("vendor") not in (NVIDIA.name, *cluster["device_plugins"])
    ]
    if cluster["gpus"] == "device_plugin" and device_plugin.unnameable(accelerators):
        sizes = ", ".join(f"{profile} at {address}" for address, profile in device_plugin.unnameable(accelerators))
        what = f"{host}: its GPUs are not offered, as NVIDIA's device plugin offers some MIG instances under another's name ({sizes})"
        remedy = f"give it a layout of sizes such as 1g.10gb, or set {PREFIX}gpus to dra"
        found.append(Finding("division", f"{what}: {remedy}.", host, None, remedy))
    found += [
        problem._replace(sentence=f"{host}: {problem}")
        for device in accelerators
        if device.get("vendor") == NVIDIA.name and device.get("pci_address") not in known
        for problem in units.problems(device, host)
    ]
    advice = {p["message"] for device in accelerators for p in device.get("health") or [] if p["problem"] in promises.ADVISORY}
    return found + [Finding("tool", f"{host}: {message}", host) for message in sorted(advice)]


def _why_not(device: t.Mapping[str, t.Any]) -> str:
    """Why pods are not given a device of another vendor than NVIDIA."""
    vendor = str(device.get("vendor"))
    if vendor in vendor_plugins.PLUGINS:
        return f"{vendor_plugins.VARIABLE} names no plugin for {vendor_plugins.display_name(vendor)}"
    return "no device plugin is known for its vendor"


def labels(worker: Worker) -> dict[str, str]:
    """Return a node's labels: numbers of GPUs by type, and their plugins or drivers."""
    if not worker.offers:
        return {}
    found = {
        f"{manifests.DOMAIN}/{gpu_type[:63].strip(_ENDS)}": str(count)
        for gpu_type, count in Counter(unit.type for unit in units.units(worker.devices)).items()
    }
    if worker.config is not None:
        found[manifests.PLUGIN_LABEL] = manifests.name_of(worker.config)
    if worker.parts:
        found[dra.LABEL] = NVIDIA.name
    found.update(dict.fromkeys(map(vendor_plugins.label, vendor_plugins.vendors_of(worker.offers)), "true"))
    return dict(sorted(found.items()))


def types(workers: t.Iterable[Worker]) -> dict[str, list[str]]:
    """Return each extended resource that pods can ask for, with its types of GPU."""
    found: dict[str, set[str]] = {}
    for worker in workers:
        for resource in worker.offers:
            found.setdefault(resource, set())
        for device in worker.devices if worker.offers else []:
            # A size of MIG instances is its own resource.
            named = {unit.type for unit in units.units([device])}
            for resource in device_plugin.resources([device]):
                profile = resource.partition("mig-")[2]
                found.setdefault(resource, set()).update(name for name in named if not profile or name.endswith(f"_{profile}"))
    return {resource: sorted(names) for resource, names in sorted(found.items())}


def probes(workers: t.Iterable[Worker], unfit: t.Container[str]) -> list[dict[str, t.Any]]:
    """Return the pods that prove the cluster.

    There is one for each of NVIDIA's resources on each node that is fit. Count is how many its allocatable must show: with
    dra none, as the scheduler counts them elsewhere.
    """
    return [
        {"node": worker.host.name, "resource": resource, "count": 0 if worker.parts else count}
        for worker in workers
        if worker.host.host not in unfit
        for resource, count in worker.offers.items()
        if resource not in vendor_plugins.RESOURCES
    ]


def expected(workers: t.Iterable[Worker], unfit: t.Container[str]) -> list[dict[str, t.Any]]:
    """Return what each node that is fit must offer.

    That is allocatable by resource, and the devices that a DRA driver publishes. With dra nothing may offer the same devices
    as allocatable, too.
    """
    return [
        {
            "host": worker.host.host,
            "node": worker.host.name,
            "allocatable": {
                resource: 0 if worker.parts and resource not in vendor_plugins.RESOURCES else count
                for resource, count in worker.offers.items()
            },
            "devices": [{"uuid": part.uuid, "device": part.shown} for part in worker.parts],
        }
        for worker in workers
        if worker.host.host not in unfit and worker.offers
    ]


def gpu_objects(
    cluster: t.Mapping[str, t.Any], workers: t.Sequence[Worker], configs: t.Mapping[str, t.Mapping[str, t.Any]], is_named: bool
) -> list[dict[str, t.Any]]:
    """Return the objects that offer the GPUs, the namespace first.

    They are device plugins, or classes of devices. A DRA driver is not among them.
    """
    found = manifests.objects(cluster, configs)
    others = vendor_plugins.objects(cluster, {vendor for worker in workers for vendor in vendor_plugins.vendors_of(worker.offers)})
    classes = dra.classes([part for worker in workers for part in worker.parts], is_named)
    if not found and (others or cluster["gpus"] == "dra"):
        found = [manifests.namespace()]
    return [*found, *others, *classes]


def nothing(errors: t.Sequence[Finding], warnings: t.Sequence[Finding] = ()) -> dict[str, t.Any]:
    """The plan of a cluster that must not be changed."""
    return {
        "errors": [str(error) for error in errors],
        "findings": [found.as_dict() for found in (*errors, *warnings)],
        "warnings": [str(warning) for warning in warnings],
        "offers": {},
        "record": "",
        "unfit": {},
        "unsure": [],
        "lost": [],
        "names": {},
        "addresses": {},
        "endpoint": "",
        "version": "",
        "network": "",
        "pod_network": "",
        "kubelet": {},
        "nodes": [],
        "gpus": "",
        "manifests": [],
        "driver": [],
        "named": False,
        "guards": {},
        "watched": {},
        "expected": [],
        "probes": [],
        "balancer": {},
        "members": "",
        "control": {},
        "kubeadm": {"init": [], "join": {}},
        "policy": policy_settings.nothing(),
        "access": dict(access.NOTHING),
    }


def plan(
    cluster: t.Mapping[str, t.Any],
    control: t.Sequence[kubeadm.Host],
    workers: t.Sequence[Worker],
    lost: t.Sequence[Finding],
    warnings: t.Sequence[Finding],
    is_named: bool = False,
) -> dict[str, t.Any]:
    """Everything a run needs to know of the cluster.

    :param control: hosts of the control plane, in the inventory's order.
    :param lost: what is wrong with promised devices. warnings: what is not offered and was not promised.
    :param is_named: whether a worker has devices of another manager, so that classes of dra hold the UUIDs of our own.
    """
    hosts = [*control, *(worker.host for worker in workers)]
    endpoint = control_plane.endpoint(cluster, control)
    gone: dict[str, list[Finding]] = {}
    for problem in lost:
        gone.setdefault(str(problem.host), []).append(problem)
    unfit = {host: reason(problems) for host, problems in gone.items()}
    tainted = kubernetes_settings.is_true(cluster["taint_gpus"])
    taints = {worker.host.host: worker.taints() if tainted else [] for worker in workers}
    configs = {manifests.name_of(worker.config): worker.config for worker in workers if worker.config is not None}
    objects = gpu_objects(cluster, workers, configs, is_named)
    old = [host.host for host in hosts if host.cgroup == 1]
    notes = list(warnings)
    problems = [repairable(problem) for problem in lost]
    if old:
        what = f"Control groups of version 1, which later releases of Kubernetes do not take, are on {', '.join(old)}"
        remedy = "boot with version 2"
        notes.append(Finding("runtime", f"{what}: {remedy}.", old[0] if len(old) == 1 else None, None, remedy))
    if cluster["gpus"] != "none" and not any(worker.offers for worker in workers):
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
        "unsure": sorted(worker.host.host for worker in workers if promises.silent(worker.devices)),
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
        "gpus": cluster["gpus"],
        "balancer": control_plane.balancer(cluster, control),
        "members": control_plane.written(control),
        "manifests": objects,
        "driver": dra.driver_objects(cluster["dra_manifests"]) if cluster["gpus"] == "dra" else [],
        "named": is_named,
        "watched": {worker.host.host: watched(worker) for worker in workers if worker.devices and cluster["gpus"] != "none"},
        "expected": expected(workers, unfit),
        "probes": probes(workers, unfit),
        "control": {host.host: kubeadm.join_control(cluster, host, endpoint) for host in control} if len(control) > 1 else {},
        "kubeadm": {
            "init": kubeadm.init(cluster, control[0], endpoint),
            "join": {worker.host.host: kubeadm.join(cluster, worker.host, endpoint, taints[worker.host.host]) for worker in workers},
        },
        "policy": policy_settings.plan(
            cluster,
            types(workers),
            [one["metadata"]["name"] for one in objects if one["kind"] == "DeviceClass"],
            elsewhere=queue.held_by_it(cluster),
        ),
        "access": access.plan(cluster, endpoint),
    }
