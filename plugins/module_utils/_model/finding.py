# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A problem as data: where it is, what an operator reads, and what helps."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

# From the outside to the device: where a problem can be. A report sorts by it.
LAYERS = ("inventory", "manager", "runtime", "tool", "division", "driver", "hardware")


class Finding(NamedTuple):
    """One problem.

    :param layer: one of LAYERS.
    :param sentence: the whole sentence for an operator; it names variable or device, host and remedy.
    :param host: inventory name of the host, None where it is no single host's.
    :param device: PCI address or MIG instance, None where it is no single device's.
    :param remedy: what to do, if the sentence says it, as a separate text.
    """

    layer: str
    sentence: str
    host: Optional[str] = None
    device: Optional[str] = None
    remedy: str = ""

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> Dict[str, Any]:
        """Plain types, as a filter must return them."""
        return dict(self._asdict())
