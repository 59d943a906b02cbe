# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Configuration of NVIDIA's Kubernetes device plugin from the accelerator model.

Source: README of NVIDIA/k8s-device-plugin 0.17 ("As a configuration file", "With CUDA Time-Slicing").
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import (
    Accelerator,
    is_mig,
    schedulable,
    usable_instances,
)

WHOLE = "nvidia.com/gpu"  # the resource of GPUs that are not divided


def device_plugin_config(accelerators: Sequence[Accelerator], replicas: int = 1, mps: bool = False) -> dict[str, Any]:
    """The plugin's configuration file as data, for a node with these accelerators.

    With MIG enabled on a GPU the strategy is ``mixed``: each size of instance is its own resource, as in the
    other schedulers of this collection. Options that hardware doesn't decide are left to the plugin's defaults.

    :arg replicas: how many pods may share each NVIDIA GPU or MIG instance in turns; 1 for none. A pod that asks for
        more than one share is refused, because it would not get more than one does.
    :arg mps: whether these pods share it by NVIDIA's Multi-Process Service, each with an equal part of its memory and processors.
    :raises ValueError: the input is not a list of accelerators, or replicas is not a whole number from 1 on.
    """
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise ValueError(f"The replicas must be a whole number from 1 on, not {replicas!r}.")
    names = list(resources(accelerators))
    config: dict[str, Any] = {
        "version": "v1",
        "flags": {"migStrategy": "mixed" if any(name != WHOLE for name in names) else "none"},
    }
    if replicas > 1 and names:
        shares = [{"name": name, "replicas": replicas} for name in names]
        # With MPS the plugin itself sets it.
        config["sharing"] = (
            {"mps": {"resources": shares}} if mps else {"timeSlicing": {"failRequestsGreaterThanOne": True, "resources": shares}}
        )
    return config


def resources(accelerators: Sequence[Accelerator]) -> dict[str, int]:
    """Return the extended resources that the plugin will offer, sorted by name.

    Each has its number of devices or MIG instances.

    :raises ValueError: the input is not a list of accelerators.
    """
    found: Counter[str] = Counter()
    for accelerator in schedulable(accelerators):
        if accelerator.get("vendor") != NVIDIA.name:
            continue
        if is_mig(accelerator):
            profiles = (instance.get("profile") for instance in usable_instances(accelerator))
            found.update(mig_resource(str(profile)) for profile in profiles if profile)
        else:
            found[WHOLE] += 1
    return dict(sorted(found.items()))


def mig_resource(profile: str) -> str:
    """Return the extended resource of a size of MIG instance.

    1g.10gb+me gives nvidia.com/mig-1g.10gb.me, as resource names have no plus sign.
    """
    return "nvidia.com/mig-" + profile.replace("+", ".")


# Sizes that the plugin keeps apart. Up to 0.18 its patterns match a part of a name, so it offers 1g.10gb+me as 1g.10gb
# (NVIDIA/k8s-device-plugin#1462); parts of a GPU instance, such as 1c.3g.40gb, it does not support.
_PLAIN = re.compile(r"[0-9]+g\.[0-9]+gb\Z")


def unnameable(accelerators: Sequence[Accelerator]) -> list[tuple[str, str]]:
    """Return the MIG instances that the plugin would offer under another's name.

    Each is a PCI address and a profile.
    """
    return [
        (str(accelerator.get("pci_address")), str(instance.get("profile")))
        for accelerator in schedulable(accelerators)
        if accelerator.get("vendor") == NVIDIA.name and is_mig(accelerator)
        for instance in usable_instances(accelerator)
        if instance.get("profile") and not _PLAIN.match(str(instance["profile"]))
    ]
