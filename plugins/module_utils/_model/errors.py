# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What modules and filters stop with: sentences for an operator."""

from __future__ import annotations


class Refused(Exception):
    """The wanted state can't be brought about; each argument says why in one sentence."""
