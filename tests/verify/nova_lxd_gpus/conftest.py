# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The virtual machine of the scenario, with LXD."""

from __future__ import annotations

from lxd_machine import machine

__all__ = ["machine"]
