# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module gpu_open_info: which GPUs it leaves alone."""

from __future__ import annotations

from ansible_collections.deephdc.accelerators.plugins.module_utils._passthrough import iommu
from ansible_collections.deephdc.accelerators.plugins.modules import gpu_open_info


def test_gpus_that_a_job_has_open_are_in_use_and_those_of_daemons_are_not(simulate, monkeypatch):
    opened = [
        iommu.Opened("nvidia-persiste (process 7)", "/dev/nvidia0", "195:0"),
        iommu.Opened("nv-hostengine (process 8)", "/dev/nvidia0", "195:0"),
        iommu.Opened("nv-hostengine (process 8)", "/dev/nvidia1", "195:1"),
        iommu.Opened("python3 (process 9)", "/dev/nvidia1", "195:1"),
    ]
    monkeypatch.setattr(iommu, "opened_devices", lambda root="/": opened)
    gpus = [{"pci_address": "0000:01:00.0"}, {"pci_address": "0000:02:00.0"}]
    assert gpu_open_info.in_use(str(simulate({"type": "a100", "count": 2})), gpus) == {"0000:02:00.0"}
