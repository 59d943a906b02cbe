# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that compute PCI entries of OpenStack Nova and gpu devices of LXD."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import devices as openstack_devices


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "nova_pci_entries": as_filter(openstack_devices.pci_entries),
            "lxd_gpu_devices": as_filter(openstack_devices.gpu_devices),
        }
