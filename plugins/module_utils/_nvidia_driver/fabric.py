# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What connects the GPUs of a board such as HGX, and what that needs.

Source: NVIDIA's Fabric Manager User Guide, 2.3. Boards with switches of the generations before Blackwell show each as a bridge.
Those of HGX B200 and B300 show InfiniBand functions instead, by which NVLink's subnet manager (nvlsm) reaches the switches.
"""

from __future__ import annotations

import glob
import os
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.pci import read_text, under
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.vendors import NVIDIA

BRIDGE_CLASS = "0x0680"
# Types of GPUs that can be on a board whose switches are no bridges.
ON_BOARDS = ("b200", "b300")
_MELLANOX, _INFINIBAND_CLASS = "0x15b3", "0x0207"
# So the vital product data of a function that manages NVLink switches say what it is for.
_MANAGES = b"SW_MNG"
_VITAL_BYTES = 4096


def bridges(root: str = "/") -> int:
    """Number of NVSwitch bridges."""
    return len(_functions(root, f"0x{NVIDIA.pci_id}", BRIDGE_CLASS))


def managers(root: str = "/") -> int:
    """Number of functions that manage NVLink switches.

    :raises OSError: none says so, and the vital product data of one can't be read, so it is not known.
    """
    found, unread = 0, None
    for path in _functions(root, _MELLANOX, _INFINIBAND_CLASS):
        try:
            found += _MANAGES in _vital(path)
        except OSError as error:
            error.filename = os.path.join(path, "vpd")  # which a card that fails while it is read leaves out
            unread = error
    if unread and not found:
        raise unread
    return found


def connects(types: t.Iterable[str], root: str = "/") -> bool:
    """Whether switches connect GPUs of these types.

    They can't be reset one by one then. What can't be looked for counts as there where such GPUs can be on such a board.
    """
    try:
        return bool(bridges(root) or managers(root))
    except OSError:
        return any(kind in ON_BOARDS for kind in types)


def _functions(root: str, vendor: str, kind: str) -> list[str]:
    found = glob.glob(under(root, "/sys/bus/pci/devices/*"))
    return [path for path in found if read_text(f"{path}/vendor") == vendor and (read_text(f"{path}/class") or "").startswith(kind)]


def _vital(path: str) -> bytes:
    try:
        with open(os.path.join(path, "vpd"), "rb") as file:
            return file.read(_VITAL_BYTES)
    except FileNotFoundError:
        return b""  # a function without such data
