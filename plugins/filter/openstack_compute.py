# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that compute configuration of OpenStack's compute hosts with LXD.

They also compute that of Neutron's agent there.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import compute, compute_conf, compute_gpus


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "nova_lxd_errors": as_filter(compute.host_errors),
            "nova_lxd_conf": as_filter(compute_conf.nova_conf),
            "nova_lxd_gpus": as_filter(compute_gpus.inventory),
            "openstack_linuxbridge_errors": as_filter(compute.agent_errors),
            "openstack_linuxbridge_conf": as_filter(compute_conf.agent_conf),
        }
