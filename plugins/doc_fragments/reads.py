# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Attributes that all modules have which only read."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: The module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""
