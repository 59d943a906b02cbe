# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters that plan which devices virtual machines get, and check it afterwards."""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils import _passthrough
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "pci_passthrough_plan": as_filter(_passthrough.plan),
            "pci_passthrough_faults": as_filter(_passthrough.faults),
        }
