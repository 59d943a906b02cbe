# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which of its PCI devices a host of OpenNebula offers: pure functions.

They read and make the attributes of the host and of its cluster.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

NO_ADDRESS = "none"  # no device's address: an empty list would not narrow anything
RECORD = "DEEPHDC_PCI_SHORT_ADDRESS"  # attribute of a host: which of its addresses are ours
FOUND = "DEEPHDC_PCI_FOUND"  # and which it showed before without having them in its own list


def host_attributes(
    template: Mapping[str, Any],
    cluster: Mapping[str, Any],
    listed: Sequence[str],
    wanted: Sequence[str],
    withheld: Sequence[str],
) -> Dict[str, str]:
    """Return the attributes of a host that offer the wanted addresses.

    Those that others have it offer stay beside them.
    An address that others listed stays, and so does what OpenNebula shows of a host without a list, as a list hides the rest.
    Without anything to offer or to withhold the host is left as it was before.

    :param template: the host's attributes
    :param cluster: its cluster's, which count where the host has none
    :param listed: the addresses that OpenNebula shows now
    :param wanted: those of the accelerators to offer
    :param withheld: those of accelerators of the same models that must not be offered
    """
    recorded = split(template.get(RECORD))
    own = split(template.get("PCI_SHORT_ADDRESS"))
    base = own or split(cluster.get("PCI_SHORT_ADDRESS")) or [address for address in listed if address not in withheld]
    others = [address for address in base if address not in recorded and address not in wanted and address != NO_ADDRESS]
    found = split(template.get(FOUND)) if recorded else [] if own else others
    if wanted or withheld:
        ours = list(wanted) if others or wanted else [NO_ADDRESS]
        # A record even if this module added nothing: it shows that the host is managed.
        return {"PCI_SHORT_ADDRESS": ",".join([*others, *ours]), RECORD: ",".join(ours or [NO_ADDRESS]), FOUND: ",".join(found)}
    kept = [address for address in others if address not in found] if recorded else own
    return {"PCI_SHORT_ADDRESS": ",".join(kept), RECORD: "", FOUND: ""}


def hidden_by(template: Mapping[str, Any], cluster: Mapping[str, Any], devices: Iterable[str]) -> Optional[str]:
    """Return why PCI_FILTER keeps a wanted device away; None where it does not.

    PCI_FILTER is the host's or its cluster's. A device is vendor:device:class.
    """
    for owner, attributes in (("host", template), ("cluster", cluster)):
        given = str(attributes.get("PCI_FILTER") or "")
        if not given:
            continue
        for device in devices:
            if not any(shows(pattern, device) for pattern in given.split(",")):
                return (
                    f"its {owner} has PCI_FILTER {given}, which hides {device}: add {device} there, in small letters, or empty PCI_FILTER"
                )
        return None  # the cluster's counts only where the host has none
    return None


def shows(pattern: str, device: str) -> bool:
    """Return whether a pattern of PCI_FILTER lets a device through, as oned judges.

    The device is vendor:device:class. oned knows no other case, and takes what is empty or left out for any.
    """
    parts = [part.strip() if part else "*" for part in pattern.split(":")[:3]]
    return all(part in ("*", own) for part, own in zip(parts, device.split(":")))


def unguarded(hosts: Iterable[Mapping[str, Any]], clusters: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """Return names of KVM hosts of the pool that show whatever pci.conf lets through.

    Neither they nor their cluster narrow it.

    :param hosts: objects of the pool: NAME, VM_MAD, CLUSTER_ID and TEMPLATE.
    :param clusters: attributes of clusters by id.
    """
    found = []
    for host in hosts:
        own = host["TEMPLATE"] if isinstance(host.get("TEMPLATE"), Mapping) else {}
        of_cluster = clusters.get(str(host.get("CLUSTER_ID")), {})
        narrowed = any(owner.get(name) for owner in (own, of_cluster) for name in ("PCI_SHORT_ADDRESS", "PCI_FILTER"))
        if host.get("VM_MAD") in ("kvm", "qemu") and not narrowed:
            found.append(str(host.get("NAME")))
    return sorted(found)


def split(value: Any) -> List[str]:
    """The parts of a comma-separated attribute."""
    return [part.strip() for part in str(value or "").split(",") if part.strip()]
