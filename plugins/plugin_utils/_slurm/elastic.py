# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Nodes of a SLURM cluster that exist only while jobs need them: pure functions.

They have no facts, so slurm_cluster_cloud_nodes is the one place where hardware is declared. Memory is in MiB.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.shapes import unknown_keys
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import is_gpu_type
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import expand
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import conf as slurm_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm.planned_nodes import Node

KEYS = ("names", "cpus", "memory_mib", "gpus", "hook", "server", "settings")

# Hooks that the role slurm_elastic brings, beside the absolute path of a site's own.
HOOKS = ("local", "openstack")
SERVER_KEYS = ("image", "flavor", "network", "cloud", "key_name", "security_groups", "user_data")
SERVER_REQUIRED = ("image", "flavor", "network")

# A node's name is its host name; slurmd finds its line by it.
NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
HOOK_PATH = re.compile(r"/[A-Za-z0-9_./+-]+")


def node_errors(entries: t.Any, members: t.Iterable[str]) -> list[str]:
    """What is wrong with slurm_cluster_cloud_nodes.

    members: names that the cluster's hosts have already.
    """
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, t.Mapping) for entry in entries):
        return ["slurm_cluster_cloud_nodes must be a list of dictionaries, each with names, cpus, memory_mib and hook."]
    errors: list[str] = []
    taken = dict.fromkeys(members, "is a host of the inventory")
    for entry in entries:
        try:
            names = expand(entry.get("names") or "")
        except ValueError as error:
            errors.append(f"slurm_cluster_cloud_nodes: names {entry.get('names')!r} can't be read: {error}")
            continue
        if not names:
            errors.append("slurm_cluster_cloud_nodes: an entry has no names: give it some, such as 'cloud[1-4]'.")
            continue
        where = f"slurm_cluster_cloud_nodes: {entry['names']}"
        wrong = [name for name in names if not NODE_NAME.fullmatch(name)]
        if wrong:
            errors.append(f"{where} has {wrong[0]!r}, which is no host name (small letters, digits and '-').")
        for name in names:
            if name in taken:
                errors.append(f"{where} has {name}, which {taken[name]}: give each node its own name.")
                break
            taken[name] = "is named before"
        errors += value_errors(entry, where)
    return errors


def value_errors(entry: t.Mapping[str, t.Any], where: str) -> list[str]:
    """What is wrong with the keys of one entry beside its names."""
    errors = unknown_keys(where, entry, KEYS)
    for key in ("cpus", "memory_mib"):
        if not is_count(entry.get(key)):
            errors.append(f"{where} needs a whole number from 1 on as {key}.")
    gpus = entry.get("gpus") or {}
    if not isinstance(gpus, t.Mapping) or not all(is_gpu_type(name) and is_count(count) for name, count in gpus.items()):
        errors.append(f"{where} needs types and their numbers as gpus, such as {{a100: 2}}.")
    hook = entry.get("hook")
    if not hook:
        errors.append(
            f"{where} has no hook, so nothing could start it: set {', '.join(HOOKS)} or the path of a program on the controllers."
        )
    elif not isinstance(hook, str) or (hook not in HOOKS and not HOOK_PATH.fullmatch(hook)):
        errors.append(f"{where} has the hook {hook!r}: set {', '.join(HOOKS)} or the absolute path of a program on the controllers.")
    if hook == "openstack" or entry.get("server") is not None:
        errors += server_errors(entry.get("server"), where)
    if entry.get("settings") is not None:
        errors += slurm_settings.line_settings_errors(
            f"{where}: settings", entry["settings"], {**slurm_settings.OUR_NODE, "state": "CLOUD"}
        )
    return errors


def server_errors(server: t.Any, where: str) -> list[str]:
    """What is wrong with the declared server of the hook openstack."""
    if not isinstance(server, t.Mapping):
        return [f"{where} needs the key server with {', '.join(SERVER_REQUIRED)}: what OpenStack shall make of a node."]
    errors = [f"{where} needs {key} in its server." for key in SERVER_REQUIRED if not server.get(key)]
    return errors + unknown_keys(f"{where}: server", server, SERVER_KEYS)


def is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def setting_errors(entries: t.Sequence[t.Mapping[str, t.Any]], settings: t.Mapping[str, t.Any]) -> list[str]:
    """Settings that contradict the cloud nodes.

    Without cloud nodes a site may save power in its own way.
    """
    ours = {name.lower() for name in (*slurm_settings.ELASTIC_PROGRAMS, "SuspendExcNodes")} if entries else set()
    return [
        f"slurm_cluster_settings sets {key}, which the collection sets itself (it comes from slurm_cluster_cloud_nodes): remove it there."
        for key in settings
        if str(key).lower() in ours
    ]


def declared_names(entries: t.Iterable[t.Mapping[str, t.Any]]) -> set[str]:
    """The names of all cloud nodes. The entries are without errors."""
    return {name for entry in entries for name in expand(entry["names"])}


def planned(entries: t.Iterable[t.Mapping[str, t.Any]], reserve: int) -> list[Node]:
    """The declared nodes as the facts would describe them.

    Their GPUs are NVIDIA's, numbered in the order of the types.
    """
    nodes: list[Node] = []
    for entry in entries:
        cpus = int(entry["cpus"])
        facts = {"processor_cores": cpus, "processor_vcpus": cpus, "memtotal_mb": entry["memory_mib"]}
        types = [name for name, count in (entry.get("gpus") or {}).items() for _unit in range(count)]
        for name in expand(entry["names"]):
            nodes.append(
                t.cast(
                    "Node",
                    {
                        "name": name,
                        "address": "",
                        "accelerators": [gpu(number, gpu_type) for number, gpu_type in enumerate(types)],
                        "settings": entry.get("settings") or {},
                        "state": "CLOUD",
                        **slurm_conf.hardware(facts, reserve),
                    },
                )
            )
    return nodes


def gpu(number: int, gpu_type: str) -> dict[str, t.Any]:
    """A GPU that no host has reported yet. Its address only keeps the order."""
    return {
        "kind": "gpu",
        "vendor": "nvidia",
        "driver": "nvidia",
        "type": gpu_type,
        "pci_address": f"0000:00:{number:02x}.0",
        "device_files": [f"/dev/nvidia{number}"],
    }


def hooks(entries: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return for the controllers' programs which hook serves which nodes, with what."""
    return [{"names": expand(e["names"]), "hook": e["hook"], "server": dict(e.get("server") or {})} for e in entries]
