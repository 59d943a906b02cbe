# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between Nova and LXD. Nothing here needs Nova."""

from __future__ import annotations


class LXDError(Exception):
    """LXD refused a request, or one of its operations failed."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"LXD says: {text}")
        self.code = code


class LXDUnavailable(Exception):
    """LXD can't be reached, or did not answer within the time that it was given."""


class Unacceptable(Exception):
    """An image, a flavor or a port that this host can't serve, with the reason."""


class InvalidInventory(Exception):
    """The file of GPUs is not what the role writes."""
