# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Accelerators as gpu_facts gives them, for the tests of what is computed from them."""

from __future__ import annotations


def gpu(number=0, **changes):
    """An A100 that works, with the keys gpu_facts gives; absent facts are null."""
    entry = {
        "kind": "gpu",
        "index": number,
        "pci_address": "0000:%02x:00.0" % (number + 1),
        "vendor_id": "10de",
        "device_id": "20b0",
        "vendor": "nvidia",
        "model": "NVIDIA A100-SXM4-40GB",
        "type": "a100",
        "uuid": "GPU-%d" % number,
        "driver": "nvidia",
        "device_files": ["/dev/nvidia%d" % number],
        "sriov": None,
        "mig": None,
    }
    entry.update(changes)
    return entry


def mig_gpu(number, profiles, **changes):
    """The same with MIG enabled; each GPU's instances have capability files of their own."""
    devices = [
        {
            "uuid": "MIG-%d-%d" % (number, position),
            "profile": profile,
            "gpu_instance_id": position,
            "compute_instance_id": 0,
            "memory_mib": 9728,
            "device_files": ["/dev/nvidia-caps/nvidia-cap%d" % (100 * number + 2 * position + offset) for offset in (0, 1)],
        }
        for position, profile in enumerate(profiles)
    ]
    return gpu(number, mig={"capable": True, "enabled": True, "devices": devices}, **changes)


def amd(number=0, **changes):
    files = ["/dev/dri/renderD%d" % (128 + number), "/dev/dri/card%d" % number]
    return gpu(
        number,
        kind="accelerator",
        vendor="amd",
        vendor_id="1002",
        model="Instinct MI300X",
        type="mi300x",
        driver="amdgpu",
        device_files=files,
        **changes,
    )
