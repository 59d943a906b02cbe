# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters of the role openstack_operations."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import operations


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "openstack_compute_selection": as_filter(operations.selection),
            "openstack_not_leaving": as_filter(operations.not_leaving),
            "openstack_record_without": as_filter(operations.record_without),
            "openstack_unfit_hosts": as_filter(operations.unfit),
        }
