# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module gpu_users_info."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_users_info


def test_a_job_is_told_and_daemons_and_other_files_are_not(run, simulate, monkeypatch):
    opened = [
        iommu.Opened("nvidia-persiste (process 7)", "/dev/nvidia0", "195:0"),
        iommu.Opened("nv-hostengine (process 8)", "/dev/nvidia1", "195:1"),
        iommu.Opened("python3 (process 9)", "/dev/nvidia1", "195:1"),
        iommu.Opened("bash (process 10)", "/dev/pts/1", "136:1"),
    ]
    monkeypatch.setattr(iommu, "opened_devices", lambda root="/": opened)
    result = run(gpu_users_info, root=str(simulate({"type": "a100", "count": 2})))
    assert (result["changed"], result["users"]) == (False, ["python3 (process 9) has /dev/nvidia1 open"])
