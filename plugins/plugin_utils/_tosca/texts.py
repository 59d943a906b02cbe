# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Texts of others, which are data and never templates: pure functions."""

from __future__ import annotations

import json
import re
import typing as t

MARKS = ("{{", "{%", "{#")
# What the Infrastructure Manager writes for get_attribute of an address, in which nothing but the names of groups is a template's.
_NODE = r"hostvars\[groups\['[\w.-]+'\]\[\d+\]\]"
_OF_NODE = rf"{_NODE}\['IM_NODE_(?:VMID|(?:PUBLIC|PRIVATE|NET_\d+)_IP)'\]"
ADDRESS = re.compile(
    r"\{\{ (?:IM_NODE_(?:VMID|(?:PUBLIC|PRIVATE)_IP) \}\}"
    rf"|{_OF_NODE} \}}\}}"
    rf"|{_OF_NODE} if 'IM_NODE_PUBLIC_IP' in {_NODE} else {_OF_NODE}\}}\}}"
    r"|groups\['[\w.-]+'\]\|map\('extract', hostvars,'IM_NODE_(?:PUBLIC|PRIVATE)_IP'\)\|list if '[\w.-]+' in groups else \[\]\}\})",
    re.ASCII,
)


def with_template(values: t.Any, path: str = "") -> str:
    """Return where in *values* the first text is that Ansible would evaluate.

    The answer is a path such as C(cluster_users.0.os_user_name), or an empty text if there is no template. Keys of mappings are looked at,
    too. The expressions that the Infrastructure Manager itself writes for addresses are no findings.
    """
    if isinstance(values, t.Mapping):
        for key, value in values.items():
            below = f"{path}.{key}" if path else str(key)
            if any(mark in str(key) for mark in MARKS):
                return f"{path} (a name in it)"
            found = with_template(value, below)
            if found:
                return found
    elif isinstance(values, (list, tuple)):
        for number, value in enumerate(values):
            found = with_template(value, f"{path}.{number}")
            if found:
                return found
    elif isinstance(values, (str, bytes)):
        text = values if isinstance(values, str) else values.decode("utf-8", "replace")
        return path if any(mark in text for mark in MARKS) and not ADDRESS.fullmatch(text) else ""
    return ""


def unsafe_yaml(values: t.Any) -> str:
    """Return YAML for a file of variables whose texts Ansible never evaluates.

    A text that could be a part of a template has C(!unsafe).

    :raises ValueError: there is something else than mappings, lists, texts, numbers, booleans and null.
    """
    if isinstance(values, t.Mapping):
        return "{" + ", ".join(f"{_text(str(key))}: {unsafe_yaml(value)}" for key, value in values.items()) + "}"
    if isinstance(values, (list, tuple)):
        return "[" + ", ".join(unsafe_yaml(value) for value in values) + "]"
    if isinstance(values, str):
        return f"!unsafe {_text(values)}" if set(values) & set("{}%#") else _text(values)
    if values is None or isinstance(values, (bool, int, float)):
        return json.dumps(values)
    raise ValueError(f"{type(values).__name__} can't be written as a variable.")


def _text(value: str) -> str:
    # YAML knows no pairs of surrogates, as JSON writes signs beyond 16 bits; it allows no control characters as they are.
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in quoted)
