# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""Short scheduler types of accelerators: from PCI ids where known, else from the marketing name."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re

NVIDIA = "10de"
AMD = "1002"
INTEL = "8086"

VENDORS = {NVIDIA: "nvidia", AMD: "amd", INTEL: "intel"}

# vendor_id:device_id -> type, so that the type is the same before and after the driver is installed.
# Devices whose one id is sold under several names (10de:25b6 is an A2 or an A16) are left to the marketing name.
TYPES_BY_ID = {
    "10de:15f7": "p100",
    "10de:15f8": "p100",
    "10de:15f9": "p100",
    "10de:1b38": "p40",
    "10de:1bb3": "p4",
    "10de:1db1": "v100",
    "10de:1db3": "v100",
    "10de:1db4": "v100",
    "10de:1db5": "v100",
    "10de:1db6": "v100",
    "10de:1db8": "v100",
    "10de:1eb8": "t4",
    "10de:20b0": "a100",
    "10de:20b1": "a100",
    "10de:20b2": "a100",
    "10de:20b3": "a100",
    "10de:20b5": "a100",
    "10de:20f1": "a100",
    "10de:20b7": "a30",
    "10de:2235": "a40",
    "10de:2236": "a10",
    "10de:2237": "a10g",
    "10de:20f3": "a800",
    "10de:20f5": "a800",
    "10de:20f6": "a800",
    "10de:2322": "h800",
    "10de:2324": "h800",
    "10de:2329": "h20",
    "10de:2330": "h100",
    "10de:2331": "h100",
    "10de:2336": "h100",
    "10de:2339": "h100",
    "10de:2335": "h200",
    "10de:233b": "h200",
    "10de:2342": "gh200",
    "10de:2901": "b200",
    "10de:2941": "gb200",
    "10de:3182": "b300",
    "10de:26b5": "l40",
    "10de:26b9": "l40s",
    "10de:27b8": "l4",
    "10de:26b1": "rtx6000_ada",
    "10de:2204": "rtx3090",
    "10de:2684": "rtx4090",
    "10de:2b85": "rtx5090",
    "1002:66a1": "mi50",
    "1002:738c": "mi100",
    "1002:7408": "mi250x",
    "1002:740f": "mi210",
    "1002:74a0": "mi300a",
    "1002:74a1": "mi300x",
    "1002:74b5": "mi300x",
    "1002:74a5": "mi325x",
    "1002:75a0": "mi350x",
    "1002:75a3": "mi355x",
    "8086:0bd5": "max1550",
    "8086:0bd6": "max1550",
    "8086:0bd9": "max1100",
    "8086:0bda": "max1100",
    "8086:0bdb": "max1100",
    "8086:56c0": "flex170",
    "8086:56c1": "flex140",
}  # type: dict[str, str]

# Tried in this order on the marketing name in lower case. The groups that matched make the type:
# one that begins with a space is joined by "_", the others without.
_NAME_PATTERNS = [
    (NVIDIA, re.compile(r"\b(rtx) (pro) (\d{4})\b")),
    (NVIDIA, re.compile(r"\b(rtx) (\d{4})(?: sff)?( ada)\b")),
    (NVIDIA, re.compile(r"\b([rg]tx) ?(\d{3,4})(?: (ti))?( super)?(?: (d))?\b")),
    (NVIDIA, re.compile(r"\b(titan)( rtx| xp| x| v)?\b")),
    (NVIDIA, re.compile(r"(?<![a-z0-9])((?:gb|gh|gv|gp|[abhlptvkm])\d{1,4}[gmsx]?)(?![a-z0-9])")),
    (AMD, re.compile(r"\b(mi\d{2,3}[apx]?)(?![a-z0-9])")),
    (AMD, re.compile(r"\b(rx) ?(\d{3,4})(?: (xtx|xt|gre))?\b")),
    (AMD, re.compile(r"\b([wv]\d{3,4})(?![a-z0-9])")),
    (INTEL, re.compile(r"\b(max|flex) (?:gpu )?(\d{3,4})\b")),
    (INTEL, re.compile(r"\b(arc)(?: pro)?( [ab]\d{2,3}[a-z]?)\b")),
]  # type: list[tuple[str, re.Pattern[str]]]


def short_type(vendor_id, device_id, model):
    # type: (str | None, str | None, str | None) -> str
    """The name that schedulers know a device by: always [a-z0-9_]+, as gres needs it.

    An unknown device gets a slug of its marketing name, or of its ids where it has no name.

    >>> short_type("10de", "20b2", None), short_type("10de", "ffff", "NVIDIA GeForce RTX 3090 Ti")
    ('a100', 'rtx3090ti')
    """
    known = TYPES_BY_ID.get("%s:%s" % (vendor_id, device_id))
    if known:
        return known
    if model:
        return _type_of_name(vendor_id, model) or _slug(model) or _slug("%s_%s" % (vendor_id, device_id))
    return _slug("%s_%s" % (vendor_id, device_id))


def marketing_name(pci_ids_name):
    # type: (str) -> str
    """'GA100 [A100 SXM4 80GB]', as pci.ids has it, is sold as 'A100 SXM4 80GB'."""
    match = re.search(r"\[([^\]]+)\]", pci_ids_name)
    return match.group(1) if match else pci_ids_name


def _type_of_name(vendor_id, model):
    # type: (str | None, str) -> str | None
    words = re.sub(r"[^a-z0-9/]+", " ", model.lower())
    for pattern_vendor, pattern in _NAME_PATTERNS:
        match = pattern.search(words) if pattern_vendor == vendor_id else None
        if match:
            return "".join(part.replace(" ", "_") for part in match.groups() if part)
    return None


def _slug(text):
    # type: (str) -> str
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
