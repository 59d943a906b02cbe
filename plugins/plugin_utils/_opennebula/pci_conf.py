# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The text of pci.conf: patterns of PCI devices that OpenNebula shows of hosts.

What others wrote there stays.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

NO_DEVICE = "0:0"  # pci.conf's own pattern for none
_MARK = "# accelerator"
_HEAD = "# Made by deephdc.accelerators: the entries with the word accelerator. The others stay as they are."
_FILTER = re.compile(r"^:filter:")
_LINE = re.compile(r"^\s*(#.*|---.*|:\w+:.*|-\s.*)?$")
_ENTRY = re.compile(r"^\s*-\s+(.*)$")
_PATTERN = re.compile(r"^([0-9a-f]{0,4}|\*):([0-9a-f]{0,4}|\*)(?::([0-9a-f]{0,4}|\*)(?::.*)?)?$")


class Entry(NamedTuple):
    """One entry of pci.conf's ``:filter``."""

    pattern: str
    ours: bool


def pci_conf(text: str, patterns: Sequence[str]) -> str:
    """Return the text of pci.conf with our patterns in it.

    Comments, other settings and other entries stay as they are. Our former entries go. Patterns that another entry already
    lets through are not added: lspci would list the device twice.

    :raises ValueError: the text can't be extended without changing what others wrote.
    """
    if not isinstance(text, str):
        raise ValueError("The text of pci.conf must be text.")
    lines = text.splitlines()
    strange = next((line for line in lines if not _LINE.match(line)), None)
    if strange:
        raise ValueError(f"pci.conf on the front end has a line that is no setting and no entry of a list: {strange.strip()}.")
    for name in (":short_address", ":device_name"):
        if _has_entries(lines, name):
            raise ValueError(
                f"pci.conf on the front end narrows the devices of all hosts by {name}: move that to the hosts (attributes PCI_FILTER and "
                "PCI_SHORT_ADDRESS, 'onehost update') and empty it."
            )
    first, last, body, entries = _entries(lines)
    others = [entry for entry in entries if not entry.ours and entry.pattern != NO_DEVICE]
    missing = [pattern for pattern in patterns if not any(covers(part, pattern) for entry in others for part in entry.pattern.split(","))]
    if sorted(entry.pattern for entry in entries if entry.ours) == sorted(missing):
        return text
    body = [line for line in body if not _is_gone(line)]
    indent = next((line[: line.index("-")] for line in body if _ENTRY.match(line)), "  ")
    if missing:
        block = [_HEAD, ":filter:", *body, *(f"{indent}- '{pattern}'  {_MARK}" for pattern in missing)]
    elif others:
        block = [":filter:", *body]
    else:
        block = [f":filter: '{NO_DEVICE}'"]
    before = [line for line in lines[:first] if line != _HEAD]
    return "\n".join([*before, *block, *lines[last:]]) + "\n"


def covers(pattern: str, device: str) -> bool:
    """Return whether a pattern of ``lspci -d`` lets a device (vendor:device) through."""
    match = _PATTERN.match(pattern.strip().lower())
    if not match or match.group(3) not in (None, "", "*"):
        return False
    vendor, number = device.lower().split(":")
    return match.group(1) in ("", "*", vendor) and match.group(2) in ("", "*", number)


def _has_entries(lines: Sequence[str], name: str) -> bool:
    """Whether a list of pci.conf has entries; comments and an empty list do not count."""
    inside = False
    for line in lines:
        if line.startswith(name + ":"):
            rest = line[len(name) + 1 :].split("#")[0].strip()
            if rest not in ("", "[]", "~", "null"):
                return True
            inside = True
        elif inside and _ENTRY.match(line):
            return True
        elif line.strip() and not line.lstrip().startswith("#"):
            inside = False
    return False


def _is_gone(line: str) -> bool:
    """Return whether to remove a line of the list.

    Such a line is an entry of the collection, which is written again, or the pattern for no device.
    """
    found = _ENTRY.match(line)
    return found is not None and (line.rstrip().endswith(_MARK) or _unquoted(found.group(1)) == NO_DEVICE)


def _entries(lines: Sequence[str]) -> tuple[int, int, list[str], list[Entry]]:
    """Return where ``:filter`` begins and ends, its list as lines, and its entries."""
    first = next((number for number, line in enumerate(lines) if _FILTER.match(line)), len(lines))
    if first == len(lines):
        return first, first, [], []
    inline = lines[first][len(":filter:") :].strip()
    if inline and not inline.startswith("#"):
        parts = [inline]
        if inline.startswith("["):
            inside, closed, _rest = inline[1:].partition("]")
            if not closed:
                raise ValueError("pci.conf on the front end has a :filter in brackets over several lines: write one entry a line.")
            parts = [part for part in inside.split(",") if part.strip()]
        values = [_unquoted(part) for part in parts]
        return first, first + 1, [f"  - '{value}'" for value in values], [Entry(value, False) for value in values]
    entries: list[Entry] = []
    last = first + 1
    for end, line in enumerate(lines[first + 1 :], first + 2):
        found = _ENTRY.match(line)
        if found:
            entries.append(Entry(_unquoted(found.group(1)), line.rstrip().endswith(_MARK)))
            last = end
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return first, last, list(lines[first + 1 : last]), entries


def _unquoted(text: str) -> str:
    """A scalar of YAML, without quotes and comment."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        value, closed, rest = text[1:].partition(text[0])
    else:
        value, closed, rest = re.split(r"\s+#", text)[0].strip(), "yes", ""
    if not closed or rest.split("#")[0].strip() or not value or value[:1] in "{&!|>%@`":
        raise ValueError(f"pci.conf on the front end has a :filter that can't be read, {text}: write one pattern such as '10de:*' a line.")
    return value
