# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Device ids for the kernel's vfio-pci driver, from the accelerator model."""

from __future__ import annotations

from typing import Mapping, Sequence

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import Accelerator, assignable


def ids(accelerators: Sequence[Accelerator], peer_ids: Mapping[str, str | None] | None = None) -> str:
    """The value of vfio-pci's option ``ids``, such as ``10de:20b0,10de:1aef``.

    It includes the other functions of each IOMMU group (a card's audio or USB controller), as a virtual machine gets
    a group as a whole. The option takes every device of those ids, not only the given ones. Virtual functions are left
    out: they have the ids of their physical function, whose driver must stay.

    :arg peer_ids: ``vendor:device`` by PCI address for the group's devices that are no accelerators; None or an empty
        text for one that stays with its driver, such as a PCI bridge.
    :returns: an empty string where there is nothing to pass through.
    :raises ValueError: the input is not a list of accelerators, or the ids of a device in a group aren't known.
    """
    if peer_ids is not None and not isinstance(peer_ids, Mapping):
        raise ValueError(f"The peer_ids must be a dictionary of ids by PCI address, not {peer_ids!r}.")
    others = dict(peer_ids or {})
    chosen = [accelerator for accelerator in assignable(accelerators) if not (accelerator.get("sriov") or {}).get("is_vf")]
    own = {accelerator["pci_address"]: "{}:{}".format(accelerator["vendor_id"], accelerator["device_id"]) for accelerator in chosen}
    found: dict[str, None] = {}
    for accelerator in chosen:
        found[own[accelerator["pci_address"]]] = None
        for peer in _peers(accelerator):
            if peer not in own and peer not in others:
                raise ValueError(
                    "The IOMMU group of the accelerator at {} has another device at {}, whose ids must be given in peer_ids.".format(
                        accelerator["pci_address"], peer
                    )
                )
            peer_id = own.get(peer) or others.get(peer)
            if peer_id:
                found[str(peer_id)] = None
    return ",".join(found)


def _peers(accelerator: Accelerator) -> list[str]:
    return [str(peer) for peer in accelerator.get("iommu_group_peers") or []]
