# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Attributes of OpenNebula's objects: text to send, and what differs.

Those that are wanted are compared with those that are there.

Attributes are names in upper case with a text, or a dictionary of texts, or a list of either where one name comes several times.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from xml.sax.saxutils import escape

MADE_BY = {"DEEPHDC_MADE_BY": "deephdc.accelerators"}
MODE_BITS = ("USE", "MANAGE", "ADMIN")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")  # of an attribute


def to_xml(attributes: Mapping[str, Any]) -> str:
    """Return attributes as OpenNebula takes them.

    In XML no character of a value needs its own rule.

    :raises ValueError: a name is no name of an attribute.
    """
    return "<TEMPLATE>{0}</TEMPLATE>".format("".join(_element(name, value) for name, value in sorted(normal(attributes).items())))


def _element(name: str, value: Any) -> str:
    if isinstance(value, list):
        return "".join(_element(name, item) for item in value)
    if not NAME.match(name):
        raise ValueError(
            "The attribute {0} has a wrong name: names are letters, digits and '_', beginning with a letter or '_'.".format(name)
        )
    inside = "".join(_element(*item) for item in sorted(value.items())) if isinstance(value, dict) else escape(value)
    return "<{0}>{1}</{0}>".format(name, inside)


def normal(value: Any) -> Any:
    """The same as OpenNebula keeps it: names in upper case, values as text."""
    if isinstance(value, Mapping):
        return {str(name).upper(): normal(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [normal(item) for item in value]
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return "" if value is None else str(value)


def listed(value: Any) -> List[Any]:
    """One or several values as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [] if value in (None, "") else [value]


def different(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Dict[str, Any]:
    """The wanted attributes that differ.

    Attributes that are not in wanted are not compared.
    """
    return {name: value for name, value in wanted.items() if listed(normal(present.get(name))) != listed(value)}


def wanted_template(
    present: Mapping[str, Any], attributes: Mapping[str, Any], pci: Mapping[str, str], count: int, counted_as: Optional[str]
) -> Dict[str, Any]:
    """Return attributes of a virtual machine's template for *count* such devices.

    Other PCI requests that have a TYPE, such as network cards, stay.
    """
    wanted = dict(normal(attributes), **MADE_BY)
    cards = [request for request in listed(normal(present.get("PCI"))) if isinstance(request, dict) and request.get("TYPE")]
    wanted["PCI"] = [*cards, *[normal(pci)] * count]
    if counted_as:
        wanted[counted_as] = str(count)
    return wanted


def permission_bits(mode: str) -> List[int]:
    """The nine arguments of one.template.chmod for an octal mode such as 0640.

    :raises ValueError: the text is no such mode.
    """
    digits = mode.lstrip("0").rjust(3, "0")
    if len(digits) != 3 or not set(digits) <= set("01234567"):
        raise ValueError("The mode {0} is not octal: give three digits for owner, group and others, such as '0640'.".format(mode))
    return [int(bool(int(digit) & bit)) for digit in digits for bit in (4, 2, 1)]


def present_bits(permissions: Mapping[str, Any]) -> List[int]:
    """The same of an object that is there."""
    return [int(permissions.get("{0}_{1}".format(who, what[0])) or 0) for who in ("OWNER", "GROUP", "OTHER") for what in MODE_BITS]


def wanted_quota(present: Sequence[Mapping[str, Any]], limit_of: str, limit: float) -> Tuple[Dict[str, str], Optional[Dict[str, str]]]:
    """Return the global limits on virtual machines that are there, and those to send.

    The latter are None where the limit is as wanted.
    All others are sent with it: OpenNebula takes a limit that is not sent for one that is taken back.

    :param present: the VM entries of VM_QUOTA; those with CLUSTER_IDS are other quotas
    """
    found: Mapping[str, Any] = next((entry for entry in present if not entry.get("CLUSTER_IDS")), {})
    before = {name: str(value) for name, value in found.items() if not name.endswith("_USED") and name != "CLUSTER_IDS"}
    if limit_of in before and float(before[limit_of] or -1) == limit:
        return before, None
    return before, dict(before, **{limit_of: "{0:g}".format(limit)})


def version(text: str) -> Tuple[int, ...]:
    """A version such as 7.2.0 as numbers."""
    return tuple(int(part) for part in str(text).split(".") if part.isdigit())
