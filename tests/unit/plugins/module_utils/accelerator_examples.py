# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Accelerators as gpu_facts gives them, for the tests of what is computed from them."""

from __future__ import annotations


def gpu(number=0, **changes):
    """An A100 that works, with the keys gpu_facts gives; absent facts are null."""
    entry = {
        "kind": "gpu",
        "index": number,
        "pci_address": f"0000:{number + 1:02x}:00.0",
        "vendor_id": "10de",
        "device_id": "20b0",
        "vendor": "nvidia",
        "model": "NVIDIA A100-SXM4-40GB",
        "type": "a100",
        "uuid": f"GPU-{number}",
        "driver": "nvidia",
        "device_files": [f"/dev/nvidia{number}"],
        "sriov": None,
        "mig": None,
    }
    entry.update(changes)
    return entry


def mig_gpu(number, profiles, **changes):
    """The same with MIG enabled; each GPU's instances have their own capability files."""
    devices = [
        {
            "uuid": f"MIG-{number}-{position}",
            "profile": profile,
            "gpu_instance_id": position,
            "compute_instance_id": 0,
            "memory_mib": 9728,
            "device_files": [f"/dev/nvidia-caps/nvidia-cap{100 * number + 2 * position + offset}" for offset in (0, 1)],
        }
        for position, profile in enumerate(profiles)
    ]
    return gpu(number, mig={"capable": True, "enabled": True, "devices": devices}, **changes)


def amd(number=0, **changes):
    """An MI300X that works."""
    files = [f"/dev/dri/renderD{128 + number}", f"/dev/dri/card{number}"]
    facts = {
        "vendor": "amd",
        "vendor_id": "1002",
        "device_id": "74a1",
        "model": "AMD Instinct MI300X",
        "type": "mi300x",
        "driver": "amdgpu",
    }
    return gpu(number, **dict(facts, device_files=files, **changes))
