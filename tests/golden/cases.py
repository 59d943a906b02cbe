# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Small changes of a golden site: what its manager says of each, and what its plan becomes.

tests/golden/cases/MANAGER.yml lists them. Most are wrong, so their golden text is the list of errors.
"""

from __future__ import annotations


def render() -> dict[str, str]:
    return {}
