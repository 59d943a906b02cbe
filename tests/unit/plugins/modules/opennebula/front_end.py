# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests know of the front end: its password and its devices."""

from __future__ import annotations

PASSWORD = "the-password"  # what must not be shown
A100 = {"VENDOR": "10de", "DEVICE": "20b0", "CLASS": "0302"}


def device(address, **changes):
    return {**A100, "SHORT_ADDRESS": address, **changes}
