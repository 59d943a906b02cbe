# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""What Intel's drivers i915 and xe report in sysfs."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os

from .pci import list_directory, read_integer, under

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # absent from Python 2.7

    from .bounded_command import TimeBudget


def read(root, entries, budget):
    # type: (str, list[dict[str, Any]], TimeBudget) -> None
    """Add the memory of those of a host's entries that Intel's drivers serve."""
    for entry in entries:
        if entry["driver"] in ("i915", "xe"):
            entry["memory_mib"] = memory_mib(root, entry["pci_address"])


def memory_mib(root, address):
    # type: (str, str) -> int | None
    """Return the device memory in MiB; None where it is not reported.

    The driver xe reports it per tile. Of i915 only Intel's own builds report it (on the DRM card).
    """
    device = under(root, "/sys/bus/pci/devices/" + address)
    tiles = [name for name in list_directory(device) if name.startswith("tile")]
    files = [os.path.join(device, tile, "physical_vram_size_bytes") for tile in tiles]
    files += [os.path.join(device, tile, "memory", "physical_vram_size_bytes") for tile in tiles]
    drm = os.path.join(device, "drm")
    files += [os.path.join(drm, card, "lmem_total_bytes") for card in list_directory(drm) if card.startswith("card")]
    total = sum(read_integer(path) or 0 for path in files)
    return total // 1048576 or None
