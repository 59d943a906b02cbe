# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the hosts of a site report, from the collection's own simulator and reader of accelerators."""

from __future__ import annotations

import json
import pathlib
import tempfile
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.facts import gather
from ansible_collections.deephdc.accelerators.plugins.module_utils._simulator import tree as simulator

RELEASES = {"12": "bookworm", "13": "trixie"}
_READ: dict[str, list[dict[str, t.Any]]] = {}


def accelerators(devices: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return what the collection's reader finds on a host with simulated devices."""
    key = json.dumps(devices, sort_keys=True)
    if key not in _READ:
        with tempfile.TemporaryDirectory() as folder:
            _write(pathlib.Path(folder), list(devices))
            # A vendor's program on this machine would be asked, so only devices of the tree are read.
            text = json.dumps(gather(folder, pci_ids_paths=())).replace(folder, "")
        _READ[key] = divided(json.loads(text), devices)
    return t.cast("list[dict[str, t.Any]]", json.loads(json.dumps(_READ[key])))


def divided(found: list[dict[str, t.Any]], devices: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return accelerators with their MIG instances, which only NVIDIA's program would report."""
    wanted = {device["pci_address"]: device["mig_devices"] for device in simulator.expand(list(devices)) if device["mig_devices"]}
    for entry in found:
        if entry["pci_address"] in wanted:
            index, instances = entry["index"], []
            for number, own in enumerate(wanted[entry["pci_address"]]):
                files = [f"/dev/nvidia-caps/nvidia-cap{100 * index + 2 * number + offset}" for offset in (0, 1)]
                instances.append({"memory_mib": 9728, "uuid": f"MIG-{index}-{number}", "device_files": files, **own})
            entry["mig"] = {"capable": True, "enabled": True, "devices": instances}
    return found


def _write(folder: pathlib.Path, devices: list[dict[str, t.Any]]) -> None:
    for name, content in simulator.simulated_tree(devices).items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, simulator.Link):
            path.symlink_to(content.target)
        else:
            path.write_text(content, encoding="utf-8")
    for node in simulator.device_nodes(devices):
        path = folder / "dev" / node.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")


def of_host(name: str, number: int, release: str, devices: t.Sequence[dict[str, t.Any]], more: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the facts of a host: a usual server with its own address and devices.

    A fact in *more* that is None is not there.
    """
    usual = {
        "accelerators": accelerators(devices),
        "architecture": "x86_64",
        "default_ipv4": {"address": f"192.0.2.{number}", "interface": "eth0"},
        "all_ipv4_addresses": [f"192.0.2.{number}"],
        "distribution": "Debian",
        "distribution_major_version": release,
        "distribution_release": RELEASES[release],
        "distribution_version": release,
        "fqdn": f"{name}.site.test",
        "hostname": name,
        "kernel": "6.12.0",
        "machine": "x86_64",
        "memtotal_mb": 64000,
        "os_family": "Debian",
        "processor_cores": 8,
        "processor_count": 1,
        "processor_nproc": 16,
        "processor_threads_per_core": 2,
        "processor_vcpus": 16,
        "python": {"version": {"major": 3, "minor": 13 if release == "13" else 11}},
        "service_mgr": "systemd",
        "swaptotal_mb": 0,
        **more,
    }
    return {name: value for name, value in usual.items() if value is not None}
