# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Host lists in the bracket notation of SLURM and ClusterShell.

An example is ``gpu[1-3,07-09]``.

What is written here is the part that both understand. SLURM takes a bracket only at the end of a name
("Invalid hostlist: n[1-2].site.org"), so only a number at the end is folded. What is read is wider:
several brackets, anywhere in a name. Zero padding is kept, ``gpu07`` and ``gpu7`` are different hosts.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

# SLURM's own bound (MAX_SLURM_NODES); without one, a typing error such as n[1-9999999999] eats all memory.
MAX_HOSTS = 65536

# No more digits than fit SLURM's 64 bit numbers; what stands before them counts as text.
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>[0-9]{1,18})\Z")
_NOT_IN_NAMES = re.compile(r"[\s,\[\]]")
_DIGITS = re.compile(r"([0-9]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?\Z")
_ENTRY = re.compile(r"[^\s,\[\]]*(?:\[[^\[\]]*\][^\s,\[\]]*)*")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def fold(names: Sequence[str]) -> str:
    """Fold a set of names: sorted the natural way, each once.

    :arg names: host names, or other text ending in numbers such as device files.
    :returns: the expression, an empty string for no names.
    :raises ValueError: a name is not a string, is empty, or has a blank, a comma or a bracket.
    """
    groups: Dict[Tuple[str, bool], List[str]] = {}
    for name in sorted(set(_checked(names)), key=natural):
        prefix, number = _cut(name)
        groups.setdefault((prefix, bool(number)), []).append(number)
    return ",".join(_bracketed(prefix, _by_padding(numbers)) for (prefix, _numbered), numbers in groups.items())


def fold_ordered(names: Sequence[str]) -> str:
    """Fold names as they come; order and duplicates stay.

    SLURM pairs the entries of NodeName= and NodeAddr= one by one, so the addresses can't be sorted by themselves.

    :arg names: host names or addresses.
    :returns: the expression, an empty string for no names.
    :raises ValueError: as :func:`fold`.
    """
    runs = itertools.groupby((_cut(name) for name in _checked(names)), key=lambda cut: (cut[0], bool(cut[1])))
    return ",".join(_bracketed(prefix, [number for _prefix, number in run]) for (prefix, _numbered), run in runs)


def expand(expression: str) -> List[str]:
    """List the names of an expression, in its order, duplicates included.

    :arg expression: names with any number of brackets, separated by commas; blanks around a name are ignored.
    :raises ValueError: the expression is malformed, or stands for more than C(MAX_HOSTS) names.
    """
    if not isinstance(expression, str):
        raise ValueError("A host list must be a string, not {0!r}.".format(expression))
    names: List[str] = []
    for entry in _entries(expression):
        parts = _BRACKET.split(entry)
        # The odd parts were in brackets: the names are all combinations.
        choices = [_numbers(part, expression) if index % 2 else [part] for index, part in enumerate(parts)]
        total = len(names) + functools.reduce(operator.mul, (len(choice) for choice in choices))
        if total > MAX_HOSTS:
            raise ValueError("The host list '{0}' stands for more than {1} hosts.".format(expression, MAX_HOSTS))
        names.extend("".join(choice) for choice in itertools.product(*choices))
    return names


def _checked(names: Iterable[str]) -> List[str]:
    # Not only lists: the templates' map() and select() give generators.
    if isinstance(names, (str, bytes, Mapping)) or not isinstance(names, Iterable):
        raise ValueError("A list of names is expected, not {0!r}.".format(names))
    checked = list(names)
    for name in checked:
        if not isinstance(name, str) or not name:
            raise ValueError("A name in a host list must be a non-empty string, not {0!r}.".format(name))
        if _NOT_IN_NAMES.search(name):
            raise ValueError("The name {0!r} can't stand in a host list: it has a blank, a comma or a bracket.".format(name))
    return checked


def natural(name: str) -> List[Tuple[int, int, str]]:
    """Sort key that puts n2 before n10."""
    return [(int(part), len(part), "") if index % 2 else (-1, 0, part) for index, part in enumerate(_DIGITS.split(name))]


def _cut(name: str) -> Tuple[str, str]:
    """A name as (prefix, number at its end); the number is empty where there is none."""
    match = _NUMBERED.match(name)
    return (match.group("prefix"), match.group("number")) if match else (name, "")


def _by_padding(numbers: List[str]) -> List[str]:
    """Put numbers of one padding together.

    So 8, 08, 9, 09, 10 fold to 8-9,08-10 and not to five entries.
    """
    padded = {len(number) for number in numbers if number.startswith("0") and len(number) > 1}
    return sorted(numbers, key=lambda number: len(number) if len(number) in padded else 0)


def _bracketed(prefix: str, numbers: List[str]) -> str:
    if len(numbers) == 1:
        return prefix + numbers[0]
    if not numbers[0]:
        # Duplicates of a name without a number, which have nothing to fold.
        return ",".join([prefix] * len(numbers))
    spans: List[Tuple[str, str]] = []
    for number in numbers:
        if spans and number == str(int(spans[-1][1]) + 1).zfill(len(spans[-1][0])):
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return "{0}[{1}]".format(prefix, ",".join(low if low == high else low + "-" + high for low, high in spans))


def _entries(expression: str) -> List[str]:
    """Return the comma-separated entries of an expression.

    Commas inside of brackets do not separate entries.
    """
    if not expression.strip():
        return []
    entries = []
    position = 0
    while True:
        while position < len(expression) and expression[position].isspace():
            position += 1
        match = _ENTRY.match(expression, position)
        entry = match.group() if match else ""
        position += len(entry)
        while position < len(expression) and expression[position].isspace():
            position += 1
        if not entry or (position < len(expression) and expression[position] != ","):
            raise ValueError("The host list '{0}' is malformed near '{1}'.".format(expression, expression[position : position + 20]))
        entries.append(entry)
        if position == len(expression):
            return entries
        position += 1


def _numbers(ranges: str, expression: str) -> List[str]:
    """The numbers of one bracket, padded as its ranges ask for."""
    numbers: List[str] = []
    for item in ranges.split(","):
        match = _RANGE.match(item.strip())
        if not match:
            raise ValueError(
                "The host list '{0}' has '{1}' in a bracket, where a number or a range such as 1-3 is expected.".format(expression, item)
            )
        low, high = match.group(1), match.group(2) or match.group(1)
        if int(high) < int(low):
            raise ValueError("The host list '{0}' has the range {1}, which runs backwards.".format(expression, item))
        if int(high) - int(low) >= MAX_HOSTS:
            raise ValueError("The host list '{0}' stands for more than {1} hosts.".format(expression, MAX_HOSTS))
        numbers.extend(str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))
    return numbers
