# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory of Intel's GPUs, which each driver reports in another place."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.intel import memory_mib

ADDRESS = "0000:01:00.0"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"tile0/physical_vram_size_bytes": "68719476736"}, 65536),
        ({"tile0/physical_vram_size_bytes": "68719476736", "tile1/physical_vram_size_bytes": "68719476736"}, 131072),
        ({"drm/card0/lmem_total_bytes": "17179869184"}, 16384),
        ({"tile0/physical_vram_size_bytes": "none"}, None),
        ({}, None),
    ],
)
def test_memory(simulate, files, expected):
    root = simulate({"type": "flex170", "memory_mib": 0, "driver": "i915"})
    for name, content in files.items():
        root.write(root.device(ADDRESS, name), content + "\n")
    assert memory_mib(str(root), ADDRESS) == expected
