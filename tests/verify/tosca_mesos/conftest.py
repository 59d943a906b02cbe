# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager, in an empty cloud."""

from __future__ import annotations

from infrastructure_manager import manager

__all__ = ["manager"]
