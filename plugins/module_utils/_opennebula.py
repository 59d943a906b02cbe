# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""OpenNebula's filters of PCI devices, computed from the accelerator model.

Source: /var/lib/one/remotes/etc/im/kvm-probes.d/pci.conf as documented (pci_passthrough of OpenNebula 6 and 7):
``:filter`` are ``vendor:device:class`` patterns, ``:short_address`` narrows them to addresses ``bus:device.function``.
"""

from __future__ import annotations

from typing import Dict, List, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._accelerator_units import Accelerator, assignable


def pci_filters(accelerators: Sequence[Accelerator]) -> Dict[str, List[str]]:
    """The content of pci.conf as data; the keys are the Ruby symbols that its YAML has.

    Without accelerators it is OpenNebula's pattern for no device, as an empty list of addresses would not narrow anything.

    :raises ValueError: the input is not a list of accelerators, or a device is not in PCI domain 0000, which
        OpenNebula's addresses can't name.
    """
    devices = assignable(accelerators)
    for device in devices:
        if not device["pci_address"].startswith("0000:"):
            raise ValueError("OpenNebula can't name the accelerator at {0}: it knows PCI domain 0000 only.".format(device["pci_address"]))
    return {
        ":filter": sorted({"{0}:{1}".format(device["vendor_id"], device["device_id"]) for device in devices}) or ["0:0"],
        ":short_address": [device["pci_address"][len("0000:") :] for device in devices],
    }
