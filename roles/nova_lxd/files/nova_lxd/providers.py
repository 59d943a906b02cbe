# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""GPUs in Placement: each is a child provider of the host's, and has one.

That counts them by type and project, and shows the driver which GPU a server got. A GPU that is lost, or that the
file does not have any more, stays promised to its server: its provider stays, and is reserved.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .devices import Gpu

INFIX = "_gpu_"


def name_of(host: str, key: str) -> str:
    """Name the provider of a GPU."""
    return f"{host}{INFIX}{key}"


def update(tree: Any, host: str, gpus: Mapping[str, Gpu], in_use: Callable[[str], bool]) -> dict[str, str]:
    """Bring the providers up to date.

    :arg tree: Nova's ProviderTree, which is changed.
    :arg in_use: whether Placement knows of a server that has something of the provider with this UUID. It is asked only about
        GPUs that are not in the file.
    :returns: the identifiers of all GPUs by the UUID of their provider.
    """
    for gpu in gpus.values():
        name = name_of(host, gpu.id)
        if not tree.exists(name):
            tree.new_child(name, host)
        tree.update_inventory(name, _inventory(gpu.resource_class, bool(gpu.why_lost())))
        tree.update_traits(name, list(gpu.traits))
    return _identifiers(tree, host, gpus, in_use)


def _identifiers(tree: Any, host: str, gpus: Mapping[str, Gpu], in_use: Callable[[str], bool]) -> dict[str, str]:
    known = {}
    for uuid in list(tree.get_provider_uuids(host)):
        provider = tree.data(uuid)
        if not provider.name.startswith(f"{host}{INFIX}"):
            continue
        key = provider.name[len(host) + len(INFIX) :]
        if key not in gpus:
            if not in_use(uuid):
                tree.remove(provider.name)
                continue
            for resource_class in provider.inventory:
                tree.update_inventory(provider.name, _inventory(resource_class, True))
        known[uuid] = key
    return known


def _inventory(resource_class: str, reserved: bool) -> dict[str, dict[str, float]]:
    return {
        resource_class: {
            "total": 1,
            "min_unit": 1,
            "max_unit": 1,
            "step_size": 1,
            "allocation_ratio": 1.0,
            "reserved": int(reserved),
        }
    }


def allocated(allocations: Mapping[str, Any] | None, known: Mapping[str, str]) -> list[str]:
    """Read from a server's allocations which GPUs it was given.

    :arg allocations: Placement's, by UUID of provider.
    :arg known: what C(update) returned.
    """
    return sorted(known[uuid] for uuid in allocations or {} if uuid in known)


def unknown_classes(allocations: Mapping[str, Any] | None, known: Mapping[str, str], root: str) -> list[str]:
    """List the resource classes that a server has of providers the host does not know.

    :arg root: the UUID of the host's provider, whose resources are no GPUs.
    """
    return sorted(
        {
            name
            for uuid, allocation in (allocations or {}).items()
            if uuid not in known and uuid != root
            for name in allocation.get("resources") or {}
            if name.startswith("CUSTOM_")
        }
    )
