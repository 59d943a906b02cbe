# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A filter that sums up what the controllers of a SLURM cluster report."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import controllers as slurm_controllers


def slurm_controllers_summary(
    results: t.Sequence[t.Mapping[str, t.Any]],
    directory: str,
    needed_mib: t.Any,
    cluster: str = "",
    accounted: t.Sequence[t.Mapping[str, t.Any]] | None = None,
    confirmed: t.Sequence[str] | str | None = None,
) -> dict[str, t.Any]:
    """Numbers given on the command line are text, so they are converted here."""
    return slurm_controllers.told(
        results, directory.rstrip("/"), int(needed_mib), cluster, accounted or [], slurm_jobs.confirmed(confirmed)
    )


class FilterModule:
    """What the controllers report before a host is changed."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"slurm_controllers_summary": as_filter(slurm_controllers_summary)}
