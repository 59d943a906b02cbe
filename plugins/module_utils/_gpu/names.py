# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""Short scheduler types of accelerators.

They come from PCI ids where these are known, else from the marketing name.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re

from . import vendors


def short_type(vendor_id, device_id, model):
    # type: (str | None, str | None, str | None) -> str
    """The name that schedulers know a device by: always [a-z0-9_]+, as gres needs it.

    An unknown device gets a slug of its marketing name, or of its ids where it has no name.

    >>> short_type("10de", "20b2", None), short_type("10de", "ffff", "NVIDIA GeForce RTX 3090 Ti")
    ('a100', 'rtx3090ti')
    """
    vendor = vendors.by_id(vendor_id)
    known = vendor.types.get(device_id or "") if vendor else None
    if known:
        return known
    if model:
        return _type_of_name(vendor_id, model) or _slug(model) or _slug("%s_%s" % (vendor_id, device_id))
    return _slug("%s_%s" % (vendor_id, device_id))


def _type_of_name(vendor_id, model):
    # type: (str | None, str) -> str | None
    words = re.sub(r"[^a-z0-9/]+", " ", model.lower())
    vendor = vendors.by_id(vendor_id)
    for pattern in vendor.name_patterns if vendor else ():
        match = pattern.search(words)
        if match:
            return "".join(part.replace(" ", "_") for part in match.groups() if part)
    return None


def _slug(text):
    # type: (str) -> str
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
