# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
# The role slurm_node installs it on nodes.
"""How a PCI address is written."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z", re.IGNORECASE)


def canonical_address(text):
    # type: (str) -> str | None
    """Return a PCI address as sysfs writes it; None for any other text.

    nvidia-smi's '00000000:41:00.0' becomes '0000:41:00.0'.
    """
    match = _ADDRESS.match(text.strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return "%04x:%s:%s.%s" % (int(domain, 16), bus.lower(), device.lower(), function)
