# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The variables of a Kubernetes cluster, and what is wrong with them.

These mistakes do not depend on what the hosts have. Pure functions.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import as_number
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import access, component_fields

PREFIX = "kubernetes_cluster_"
TESTED = ("1.36", "1.37")  # minor releases that the tests make a cluster of
DEFAULTS: dict[str, t.Any] = {
    "name": "kubernetes",
    "version": "1.37.2",
    "endpoint": "",
    "balancer": "none",
    "balancer_port": 7443,
    "pod_network": "10.244.0.0/16",
    "service_network": "10.96.0.0/16",
    "node_prefix": 24,
    "network": "routes",
    "network_manifests": [],
    "gpus": "device_plugin",
    "device_plugin_image": "nvcr.io/nvidia/k8s-device-plugin:v0.18.0",
    "device_plugin_settings": {},
    "device_plugins": {},
    "dra_manifests": [],
    "offer_wait": 300,
    "accept_hardware": [],
    "taint_gpus": True,
    "kubelet": {},
    "kube_proxy": {},
    "proof_image": "docker.io/library/busybox:1.37",
    "image_pull_policy": "IfNotPresent",
    "untested_platforms": False,
    "policy": {},
    "policy_file": "",
    "policy_purge": False,
    "policy_accounts": {},
    "policy_user_prefix": "",
    "policy_pod_security": "baseline",
    "policy_default_request": {},
    "policy_tolerations": [],
    "policy_objects": {},
    "queue": "none",
    "queue_version": "0.15.0",
    "queue_manifests": "",
    "queue_sha256": "",
    "queue_image": "",
    "queue_frameworks": ["batch/job"],
    "queue_uncounted": ["ephemeral-storage", "hugepages-"],
    "queue_settings": {},
    **access.DEFAULTS,
}
CHOICES = {
    "balancer": ("none", "local"),
    "network": ("routes", "manifests"),
    "gpus": ("device_plugin", "dra", "none"),
    "image_pull_policy": ("Always", "IfNotPresent", "Never"),
    "policy_pod_security": ("baseline", "restricted"),
    "queue": ("none", "kueue"),
}
PLUGIN_KEYS = ("env", "mounts")
MOUNT_KEYS = ("host_path", "path")

# What the collection writes itself: the other program of each pair would not know of a change.
OUR_FIELDS = {"kubelet": ("apiVersion", "kind", "cgroupDriver"), "kube_proxy": ("apiVersion", "kind")}
FIELDS = {"kubelet": component_fields.KUBELET, "kube_proxy": component_fields.KUBE_PROXY}
OUR_ENV = ("CONFIG_FILE", "NODE_NAME")

# A name that Kubernetes takes for a node and for whatever is called after one (RFC 1123), at most 63 characters.
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VERSION = re.compile(r"([0-9]+\.[0-9]+)\.[0-9]+")
ENDPOINT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:([0-9]{1,5})")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PATH = re.compile(r"(/[^/\x00]+)+")

# What kubeadm takes as the network of Services, and how many more bits the share of a node may have than the pods' network.
SERVICE_PREFIX = range(12, 29)
SHARE_BITS = 16


def wrong(what: str, remedy: str, host: str | None = None) -> Finding:
    """One mistake: what is wrong and where, then what to do."""
    return Finding("inventory", f"{what}: {remedy}.", host, None, remedy)


def listed(value: t.Any) -> list[str]:
    """A list, also from the text that -e name=value gives."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or []]


def settings_of(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the variables without their prefix, with defaults for those not given.

    :raises ValueError: they are no dictionary, or one has an unknown name.
    """
    if not isinstance(given, t.Mapping):
        raise ValueError("The settings of the cluster must be a dictionary, such as {name: kubernetes}.")
    for sentence in unknown_keys("The cluster", given, DEFAULTS):
        raise ValueError(sentence)
    return {**DEFAULTS, **given}


def is_true(value: t.Any) -> bool:
    return bool(boolean(value, strict=False))


def ipv4_network(value: t.Any) -> ipaddress.IPv4Network | None:
    """A network as it is written in the inventory, None where it is not one."""
    try:
        return ipaddress.IPv4Network(value) if isinstance(value, str) and "/" in value else None
    except ValueError:
        return None


def network_of(cluster: t.Mapping[str, t.Any], address: t.Any) -> str | None:
    """Return the variable of the cluster's inner network that has an address, or None."""
    try:
        found = ipaddress.IPv4Address(str(address))
    except ValueError:
        return None
    for name in ("pod_network", "service_network"):
        network = ipv4_network(cluster[name])
        if network and found in network:
            return PREFIX + name
    return None


def errors(cluster: t.Mapping[str, t.Any], members: int) -> list[Finding]:
    """What is wrong with the variables of a cluster of so many hosts."""
    found = _word_errors(cluster) + _network_errors(cluster, members)
    count = as_number(cluster["offer_wait"])
    if count is None or count < 0:
        found.append(wrong(f"{PREFIX}offer_wait is {shown(cluster['offer_wait'])}", "write a number of seconds, such as 300"))
    for name, ours in OUR_FIELDS.items():
        given = cluster[name]
        if not isinstance(given, t.Mapping):
            found.append(wrong(f"{PREFIX}{name} is {shown(given)}", "write a dictionary of its fields, {} for none"))
            continue
        found += [
            wrong(f"{PREFIX}{name} has the field {field}, which the collection sets itself", "leave it out")
            for field in ours
            if field in given
        ]
        theirs = {field: value for field, value in given.items() if field not in ours}
        found += [wrong(what, remedy) for what, remedy in component_fields.field_errors(PREFIX + name, theirs, FIELDS[name])]
    return found + _manifest_errors(cluster) + plugin_errors(cluster["device_plugin_settings"]) + access.errors(cluster)


def _word_errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    """Variables that are one word or a choice."""
    found = []
    if not isinstance(cluster["name"], str) or not LABEL.fullmatch(cluster["name"]):
        found.append(
            wrong(f"{PREFIX}name is {shown(cluster['name'])}", "write small letters, digits and '-', a letter or digit at both ends")
        )
    version = VERSION.fullmatch(cluster["version"]) if isinstance(cluster["version"], str) else None
    if not version:
        found.append(wrong(f"{PREFIX}version is {shown(cluster['version'])}", "write a whole version as text, such as '1.37.2'"))
    elif version.group(1) not in TESTED:
        found.append(
            wrong(f"{PREFIX}version is {version.group()}, but no test ran on {version.group(1)}", f"choose one of {', '.join(TESTED)}")
        )
    if cluster["endpoint"]:
        endpoint = ENDPOINT.fullmatch(str(cluster["endpoint"]))
        if not endpoint or not 1 <= int(endpoint.group(2)) <= 65535:
            found.append(
                wrong(
                    f"{PREFIX}endpoint is {shown(cluster['endpoint'])}",
                    "write a name or IPv4 address and a port, such as api.example.org:6443, or leave it empty",
                )
            )
    for name, choices in CHOICES.items():
        if cluster[name] not in choices:
            found.append(wrong(f"{PREFIX}{name} is {shown(cluster[name])}", f"choose one of {', '.join(choices)}"))
    for name in ("device_plugin_image", "proof_image"):
        if not isinstance(cluster[name], str) or not re.fullmatch(r"\S+", cluster[name]):
            found.append(wrong(f"{PREFIX}{name} is {shown(cluster[name])}", f"write the name of an image, such as {DEFAULTS[name]}"))
    return found


def _network_errors(cluster: t.Mapping[str, t.Any], members: int) -> list[Finding]:
    found = []
    networks = {name: ipv4_network(cluster[name]) for name in ("pod_network", "service_network")}
    for name, network in networks.items():
        if network is None:
            found.append(
                wrong(f"{PREFIX}{name} is {shown(cluster[name])}, which is no IPv4 network", f"write one such as {DEFAULTS[name]}")
            )
    pods, services = networks["pod_network"], networks["service_network"]
    if services and services.prefixlen not in SERVICE_PREFIX:
        found.append(
            wrong(
                f"{PREFIX}service_network is {services}, a size that Kubernetes does not take",
                f"give it a prefix from /{SERVICE_PREFIX[0]} to /{SERVICE_PREFIX[-1]}",
            )
        )
    if pods and services and pods.overlaps(services):
        found.append(wrong(f"{PREFIX}pod_network {pods} and {PREFIX}service_network {services} overlap", "give each a network of its own"))
    share = as_number(cluster["node_prefix"])
    if share is None:
        found.append(wrong(f"{PREFIX}node_prefix is {shown(cluster['node_prefix'])}", "write a whole number such as 24"))
    elif pods:
        low, high = pods.prefixlen, min(pods.prefixlen + SHARE_BITS, 30)
        if not low <= share <= high:
            found.append(
                wrong(
                    f"{PREFIX}node_prefix is {share}, which does not fit {PREFIX}pod_network {pods}", f"write a number from {low} to {high}"
                )
            )
        elif 2 ** (share - low) < members:
            found.append(
                wrong(
                    f"{PREFIX}pod_network {pods} has {2 ** (share - low)} shares of /{share}, but the cluster has {members} hosts",
                    f"write a larger {PREFIX}node_prefix or a larger network",
                )
            )
    return found


def _manifest_errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    where, given = f"{PREFIX}network_manifests", cluster["network_manifests"]
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(entry, t.Mapping) and entry.get("apiVersion") and entry.get("kind") for entry in given
    ):
        return [wrong(f"{where} is no list of Kubernetes objects", "give each a dictionary with apiVersion, kind and metadata")]
    if given and cluster["network"] != "manifests":
        return [wrong(f"{where} is set, but {PREFIX}network is {shown(cluster['network'])}", f"set {PREFIX}network to manifests")]
    if not given and cluster["network"] == "manifests":
        return [wrong(f"{PREFIX}network is manifests, but {where} is empty", "give the objects of the network there")]
    return []


def plugin_errors(given: t.Any) -> list[Finding]:
    """What is wrong with the settings of the device plugin."""
    where = f"{PREFIX}device_plugin_settings"
    if not isinstance(given, t.Mapping):
        return [wrong(f"{where} is {shown(given)}", "write a dictionary with env and mounts, {} for none")]
    found = [Finding("inventory", sentence) for sentence in unknown_keys(where, given, PLUGIN_KEYS)]
    env, mounts = given.get("env") or {}, given.get("mounts") or []
    if not isinstance(env, t.Mapping):
        found.append(wrong(f"{where}: env is {shown(env)}", "write a dictionary of names and texts"))
        env = {}
    for name, value in env.items():
        if name in OUR_ENV:
            found.append(wrong(f"{where}: env has {name}, which the collection sets itself", "leave it out"))
        elif not ENV_NAME.fullmatch(str(name)):
            found.append(wrong(f"{where}: env has the name {shown(name)}", "write letters, digits and '_', no digit first"))
        elif not isinstance(value, str):
            found.append(wrong(f"{where}: env has {shown(value)} as {name}", "write it as text, in quotes"))
    if not isinstance(mounts, (list, tuple)) or not all(isinstance(mount, t.Mapping) for mount in mounts):
        found.append(wrong(f"{where}: mounts is no list of dictionaries", "write a list such as [{host_path: /opt/site, path: /opt/site}]"))
        mounts = []
    for mount in mounts:
        found += [Finding("inventory", sentence) for sentence in unknown_keys(f"{where}: mounts", mount, MOUNT_KEYS)]
        found += [
            wrong(f"{where}: mounts has {shown(mount.get(key))} as {key}", "write an absolute path")
            for key in MOUNT_KEYS
            if not isinstance(mount.get(key), str) or not PATH.fullmatch(mount[key])
        ]
    return found
