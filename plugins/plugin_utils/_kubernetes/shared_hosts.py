# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Hosts that also run jobs of SLURM and can't keep them from Kubernetes' devices."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _gpu_guard
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import kubeadm
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import wrong


def errors(host: kubeadm.Host, accelerators: t.Sequence[dict[str, t.Any]], allotment: t.Any) -> list[Finding]:
    """A host on which nothing can close devices to SLURM's jobs."""
    if not isinstance(allotment, t.Mapping) or _gpu_guard.SLURM not in allotment:
        return []
    try:
        closed = _gpu_guard.guard(accelerators, allotment)["closed"]
    except ValueError as error:
        return [Finding("driver", f"{host.host}: {error}", host.host)]
    if not closed or host.cgroup == 1:
        return []
    what = f"{host.host} is SLURM's, too, and has control groups of version 2, with which its jobs can't be kept from {', '.join(closed)}"
    return [wrong(what, "give the host to one manager, or boot it with version 1", host.host)]
