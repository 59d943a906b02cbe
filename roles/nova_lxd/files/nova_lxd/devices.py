# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this host, in a file of their role, and LXD's devices for them.

The role writes it from the accelerators of the host. The file is JSON, an object with two keys:

version: 1
devices: a list of objects, one for each GPU, or for each MIG instance of a divided one, with these keys

    id              what the GPU is called in Placement and in LXD's configuration, for instance its PCI address or the
                    UUID of its MIG instance; no comma. Keep it as long as the GPU exists: a server holds its GPU by it.
    resource_class  what a flavor asks for: CUSTOM_GPU_A100
    traits          optional list: what a flavor may require besides, such as CUSTOM_GPU_MEMORY_80GB
    lxd             the device that an instance is given, in LXD's words: {"type": "gpu", "pci": "0000:41:00.0"}; or a list of
                    devices that belong together, such as the files of one GPU
    paths           optional list of files that are there as long as the GPU is, such as /dev/nvidia0
    nvidia_runtime  optional: whether LXD gives the instance NVIDIA's libraries (nvidia.runtime), which takes libnvidia-container
    lost            optional: one sentence that says why the GPU is not usable now; its server's owner reads it
    pci_address     optional: the device that it is a part of, for whoever writes the file
    noticed         optional: whether the loss was noticed between two runs of the role, and may be taken back without one

A GPU is lost if the file says so, or if one of its paths is missing. It stays in the file as long as a server has it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .errors import InvalidInventory

_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}\Z")
_KEYS = {"id", "resource_class", "traits", "lxd", "paths", "nvidia_runtime", "lost", "pci_address", "noticed"}


class Gpu(NamedTuple):
    """One GPU, or one MIG instance, that one server may have."""

    id: str
    resource_class: str
    lxd: Mapping[str, str] | Sequence[Mapping[str, str]]
    traits: Sequence[str] = ()
    paths: Sequence[str] = ()
    nvidia_runtime: bool = False
    lost: str = ""

    def why_lost(self) -> str:
        """Say in one sentence why the GPU is not usable now; an empty text if it is."""
        if self.lost:
            return f"The GPU {self.id} is lost: {self.lost}"
        missing = [path for path in self.paths if not os.path.exists(path)]
        if missing:
            return f"The GPU {self.id} is lost: {missing[0]} does not exist on the host."
        return ""


def read(path: str) -> dict[str, Gpu]:
    """Read the GPUs by their identifiers. A host without the file has none.

    :raises InvalidInventory: with a sentence that names the file and the entry.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidInventory(f"{path} can't be read: {error}.") from error
    if not isinstance(content, dict) or content.get("version") != 1 or not isinstance(content.get("devices"), list):
        raise InvalidInventory(f"{path} must be an object with the version 1 and a list of devices.")
    gpus: dict[str, Gpu] = {}
    for number, entry in enumerate(content["devices"]):
        try:
            gpu = _gpu(entry)
            if gpu.id in gpus:
                raise ValueError(f"its id {gpu.id} is there twice")
        except ValueError as error:
            raise InvalidInventory(f"Device {number} in {path} is invalid: {error}.") from error
        gpus[gpu.id] = gpu
    return gpus


def _gpu(entry: Any) -> Gpu:
    if not isinstance(entry, dict):
        raise ValueError("it must be an object")
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise ValueError(f"the key {unknown[0]} is unknown")
    for key in ("id", "resource_class", "lxd"):
        if not entry.get(key):
            raise ValueError(f"it has no {key}")
    traits, paths, given = entry.get("traits") or [], entry.get("paths") or [], entry["lxd"]
    if not isinstance(entry["id"], str) or "," in entry["id"] or len(entry["id"]) > 100:
        raise ValueError("its id must be a text of 100 characters at most, without a comma")
    if not (_texts(traits) and _texts(paths)):
        raise ValueError("its traits and paths must be lists of texts")
    for name in (entry["resource_class"], *traits):
        if not isinstance(name, str) or not _CUSTOM.match(name):
            raise ValueError(f"{name} must be CUSTOM_ with capital letters, digits and underscores after it")
    for device in given if isinstance(given, list) else [given]:
        if not isinstance(device, dict) or not _texts([*device, *device.values()]) or "type" not in device:
            raise ValueError("lxd must be an object of texts, with a type, or a list of such objects")
    return Gpu(
        id=entry["id"],
        resource_class=entry["resource_class"],
        lxd=given,
        traits=tuple(traits),
        paths=tuple(paths),
        nvidia_runtime=entry.get("nvidia_runtime") is True,
        lost=str(entry.get("lost") or ""),
    )


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def instance_devices(gpus: Iterable[Gpu]) -> dict[str, dict[str, str]]:
    """Compute LXD's devices of an instance that has these GPUs."""
    named: dict[str, dict[str, str]] = {}
    for number, gpu in enumerate(gpus):
        for part, device in enumerate([gpu.lxd] if isinstance(gpu.lxd, Mapping) else gpu.lxd):
            named[f"gpu{number}-{part}" if part else f"gpu{number}"] = dict(device)
    return named


def instance_configuration(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Compute what an instance with these GPUs needs besides the devices."""
    if any(gpu.nvidia_runtime for gpu in gpus):
        return {"nvidia.runtime": "true", "nvidia.driver.capabilities": "compute,utility"}
    return {}


def why_lost(ids: Iterable[str], gpus: Mapping[str, Gpu]) -> list[str]:
    """Say for each lost GPU of an instance why it is.

    One that the file does not have any more is lost too.
    """
    sentences = [gpus[key].why_lost() if key in gpus else f"The GPU {key} is lost: the host does not have it any more." for key in ids]
    return [sentence for sentence in sentences if sentence]
