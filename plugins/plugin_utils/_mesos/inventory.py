# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What inventory and facts say of the hosts of a Mesos cluster: pure functions."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.promises import SILENCE
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number, is_mig
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import settings as mesos_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.hosts import ADDRESS, AGENTS, MASTERS, NAME, hosts_of
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.settings import PREFIX, listed, truth, wrong

HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
CERTIFICATE, KEY = f"{PREFIX}certificate", f"{PREFIX}key"
# Attributes and resources of an agent: the grammar of Mesos, docs/attributes-resources.md.
ATTRIBUTE = re.compile(r"[a-zA-Z0-9_/.-]+")
RESOURCE = re.compile(r"[0-9]+(\.[0-9]+)?|\[[0-9]+-[0-9]+(,[0-9]+-[0-9]+)*\]")
ISOLATOR = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")
CAPABILITY = re.compile(r"[A-Z][A-Z_]+")
CONTAINERIZERS = ("mesos", "docker")
AGENT_PREFIX = "mesos_agent_"
AGENT_DEFAULTS: dict[str, t.Any] = {
    "attributes": {},
    "resources": {},
    "reserved_memory_mib": 1024,
    "devices": [],
    "isolation": [],
    "capabilities": [],
    "containerizers": ["mesos"],
    "docker_registry": "",
    "docker_config": "",
    "systemd": True,
    "device_root": "/",
}
# The first version of Mesos whose source knows control groups of version 2.
CGROUP2_VERSION = (1, 12)
V2_REMEDY = (
    "boot it with the kernel argument systemd.unified_cgroup_hierarchy=0 (role nvidia_driver and others leave kernel arguments of a site "
    "as they are), or give a build of a later source"
)


def errors(cluster: t.Mapping[str, t.Any], site: Site) -> list[Finding]:
    """What is wrong with groups, names, certificates and the variables of agents."""
    parts = hosts_of(site.groups)
    found = []
    if not parts["masters"]:
        found.append(wrong(f"The group {MASTERS} has no host", "name the masters there: one, three or five"))
    for group, part, what in ((MASTERS, "masters", "masters"), ("zookeeper", "zookeeper", "servers of ZooKeeper")):
        number = len(parts[part])
        if number and number % 2 == 0 and not (part == "zookeeper" and parts[part] == parts["masters"]):
            tolerated = (number - 1) // 2
            what_wrong = f"The group {group} has {number} hosts, but with {number} {what} the cluster outlives the loss of {tolerated} only"
            found.append(wrong(what_wrong, f"name {number - 1} or {number + 1}, an odd number"))
    tls = truth(cluster["tls"])
    for host in dict.fromkeys(host for hosts in parts.values() for host in hosts):
        found += _host_errors(host, site.hostvars[host], tls and _needs_certificate(host, parts))
    for host in parts["agents"]:
        found += _agent_errors(host, site.hostvars[host], tls)
    strange = [name for name in listed(cluster["accept_hardware"]) if name not in parts["agents"]]
    if strange:
        what_wrong = f"{PREFIX}accept_hardware names {', '.join(strange)}, which is not in {AGENTS}"
        found.append(wrong(what_wrong, "name agents as the inventory does"))
    return found


def _needs_certificate(host: str, parts: t.Mapping[str, t.Sequence[str]]) -> bool:
    return any(host in parts[part] for part in ("masters", "agents", "marathon", "chronos", "zookeeper"))


def _host_errors(host: str, own: t.Mapping[str, t.Any], needs_certificate: bool) -> list[Finding]:
    found = []
    name = own.get(NAME) or host
    if not HOST_NAME.fullmatch(str(name)):
        found.append(wrong(f"{NAME} of {host} is {shown(name)}", "write the name that its certificate has", host))
    if own.get(ADDRESS):
        try:
            ipaddress.ip_address(str(own[ADDRESS]))
        except ValueError:
            remedy = "write an IP address of the host, or leave it out for the default one"
            found.append(wrong(f"{ADDRESS} of {host} is {shown(own[ADDRESS])}", remedy, host))
    if needs_certificate:
        for variable, begin in ((CERTIFICATE, "BEGIN CERTIFICATE"), (KEY, "BEGIN PRIVATE KEY")):
            given = str(own.get(variable) or "")
            if f"-----{begin}-----" not in given:
                what = f"{variable} of {host} is {'missing' if not given else f'no text in PEM with {begin}'}"
                found.append(wrong(what, "give the text, not the path of its file: docs/mesos.md says how one is made", host))
    return found


def agent_settings(own: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the host's variables of role mesos_agent, without prefix, with defaults."""
    return {key: own.get(AGENT_PREFIX + key, default) for key, default in AGENT_DEFAULTS.items()}


def _agent_errors(host: str, own: t.Mapping[str, t.Any], tls: bool) -> list[Finding]:
    given = agent_settings(own)
    found = []
    for key, pattern, example in (
        ("attributes", ATTRIBUTE, "{rack: r1}"),
        ("resources", RESOURCE, '{cpus: 30, mem: 120000, ports: "[31000-32000]"}'),
    ):
        value, where = given[key], f"{AGENT_PREFIX}{key} of {host}"
        if not isinstance(value, t.Mapping):
            found.append(wrong(f"{where} is {shown(value)}", f"write a dictionary, such as {example}", host))
            continue
        for name, one in value.items():
            if not ATTRIBUTE.fullmatch(str(name)) or not pattern.fullmatch(str(one)):
                remedy = f"write letters, digits, '_', '/', '.' and '-', such as {example}"
                found.append(wrong(f"{where} has {shown(name)}: {shown(one)}, which Mesos can't read", remedy, host))
            elif key == "resources" and name == "gpus":
                remedy = "leave it out; accelerator_allotment says which GPUs of a host are for Mesos"
                found.append(wrong(f"{where} has gpus, which are read from the host", remedy, host))
            elif key == "attributes" and str(name).startswith(("gpu_", "gpus_")):
                found.append(wrong(f"{where} has {name}, but these names are for what is read from the GPUs", "choose another one", host))
    for key, pattern, example in (
        ("devices", re.compile(r"/dev/[A-Za-z0-9_/.-]+"), "[/dev/infiniband/uverbs0]"),
        ("isolation", ISOLATOR, "[network/cni]"),
        ("capabilities", CAPABILITY, "[CHOWN, SETGID, SETUID]"),
    ):
        value, where = given[key], f"{AGENT_PREFIX}{key} of {host}"
        if not isinstance(value, (list, tuple)) or not all(pattern.fullmatch(str(one)) for one in value):
            found.append(wrong(f"{where} is {_short(value)}", f"write a list, such as {example}", host))
    return found + _containerizer_errors(host, given, tls) + _more_agent_errors(host, given)


def _short(value: t.Any) -> str:
    return shown(value) if not isinstance(value, (list, tuple)) else f"a list with {', '.join(shown(one) for one in value[:4])}"


def _containerizer_errors(host: str, given: t.Mapping[str, t.Any], tls: bool) -> list[Finding]:
    where = f"{AGENT_PREFIX}containerizers of {host}"
    chosen = given["containerizers"]
    if not isinstance(chosen, (list, tuple)) or "mesos" not in chosen or not set(map(str, chosen)) <= set(CONTAINERIZERS):
        return [
            wrong(f"{where} is {_short(chosen)}", "write [mesos], or [mesos, docker]; GPUs are given to containers of mesos only", host)
        ]
    if "docker" in chosen and tls:
        remedy = f"write [mesos], which runs images of Docker, too, or set {PREFIX}tls to false"
        return [wrong(f"{where} has docker, whose executor would need a key that tasks can read under {PREFIX}tls", remedy, host)]
    return []


def _more_agent_errors(host: str, given: t.Mapping[str, t.Any]) -> list[Finding]:
    found = []
    reserved = as_number(given["reserved_memory_mib"])
    if reserved is None or reserved < 0:
        what = f"{AGENT_PREFIX}reserved_memory_mib of {host} is {shown(given['reserved_memory_mib'])}"
        found.append(wrong(what, "write 0 or more MiB", host))
    registry = str(given["docker_registry"] or "")
    if registry and not re.fullmatch(r"(https?://)?[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._/-]*)?", registry):
        remedy = "write its address without user and password, which belong in mesos_agent_docker_config"
        found.append(wrong(f"{AGENT_PREFIX}docker_registry of {host} is no address", remedy, host))
    return found


def unread(host: str, facts: t.Mapping[str, t.Any], is_agent: bool) -> list[Finding]:
    """What is missing of the facts of a host."""
    wanted = ["distribution", "default_ipv4", *(["accelerators", "mesos_host"] if is_agent else [])]
    missing = [name for name in wanted if name not in facts]
    if missing:
        return [wrong(f"The facts of {host} lack {', '.join(missing)}", "run without --limit, or once over all hosts", host)]
    return []


def unfit(host: str, source: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> list[Finding]:
    """Why an agent of this version would not start on the host."""
    own, version = facts["mesos_host"], mesos_settings.version_of(source)
    if own["cgroup"] == 2 and version < CGROUP2_VERSION:
        what = f"{host} has control groups of version 2, which Mesos {source['version']} does not know"
        return [Finding("runtime", f"{what}: {V2_REMEDY}.", host, None, V2_REMEDY)]
    if own["cgroup"] == 1:
        missing = [name for name in ("cpu", "memory", "devices", "freezer") if name not in own["controllers"]]
        if missing:
            remedy = "mount them below /sys/fs/cgroup, as systemd does in its legacy mode"
            return [Finding("runtime", f"{host} has no control groups for {', '.join(missing)}: {remedy}.", host, None, remedy)]
    return []


def gpu_errors(host: str, mine: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], is_simulated: bool) -> list[Finding]:
    """What keeps Mesos from giving the GPUs that it owns on a host."""
    found = []
    for accelerator in mine:
        if is_mig(accelerator):
            address, remedy = (
                str(accelerator.get("pci_address")),
                "switch MIG off, or give the GPU to another manager in accelerator_allotment",
            )
            what = f"{accelerator.get('model') or 'The GPU'} at {address} of {host} is divided by MIG, but Mesos gives whole GPUs only"
            found.append(Finding("division", f"{what}: {remedy}.", host, address, remedy))
    # NVML numbers what the driver could start. Where nothing said which GPUs these are, a number may be another manager's GPU.
    own = {accelerator.get("pci_address") for accelerator in mine}
    others = [device for device in facts["accelerators"] if device.get("driver") in NVIDIA.drivers and device.get("pci_address") not in own]
    silent = [one for device in mine for one in device.get("health") or [] if one.get("problem") in SILENCE]
    if others and silent:
        remedy = "make nvidia-smi answer on this host, or take the host out of mesos_agents"
        what = f"{host} has GPUs of other managers, and which number each GPU has for Mesos is not known ({silent[0].get('message')})"
        found.append(Finding("tool", f"{what}: {remedy}.", host, remedy=remedy))
    if mine and not is_simulated and not facts["mesos_host"]["nvml"]:
        remedy = "install the driver with libnvidia-ml.so.1 (role nvidia_driver)"
        found.append(
            Finding("driver", f"{host} has GPUs, but no libnvidia-ml.so.1, without which the agent does not start: {remedy}.", host)
        )
    return found


def name_of(site: Site, host: str) -> str:
    """What the others call a host, and its certificate."""
    return str(site.hostvars[host].get(NAME) or host)


def address_of(site: Site, host: str) -> str:
    """The address by which the others reach a host."""
    return str(site.hostvars[host].get(ADDRESS) or (site.facts(host).get("default_ipv4") or {}).get("address") or "")
