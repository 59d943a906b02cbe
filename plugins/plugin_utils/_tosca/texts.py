# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Texts of others, which are data and never templates: pure functions."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

Hosts = t.Mapping[str, t.Mapping[str, t.Any]]
# Inputs have some hundred parts, a long text counts as several. In YAML a few lines may stand for any number of them.
MOST_PARTS, MOST_LEVELS = 100000, 50

# What the Infrastructure Manager writes for get_attribute of an address. Nothing but the names of groups is a template's.
_VARIABLE = r"IM_NODE_(?:VMID|(?:PUBLIC|PRIVATE|NET_\d+)_IP)"
_NODE = r"hostvars\[groups\['([\w.-]+)'\]\[(\d{1,6})\]\]"
_OWN = re.compile(rf"\{{\{{ ({_VARIABLE}) \}}\}}", re.ASCII)
_OF_NODE = re.compile(rf"\{{\{{ {_NODE}\['({_VARIABLE})'\] \}}\}}", re.ASCII)
_PUBLIC_OR = re.compile(
    rf"\{{\{{ {_NODE}\['({_VARIABLE})'\] if '(IM_NODE_PUBLIC_IP)' in {_NODE} else {_NODE}\['({_VARIABLE})'\]\}}\}}", re.ASCII
)
_OF_GROUP = re.compile(
    rf"\{{\{{ groups\['([\w.-]+)'\]\|map\('extract', hostvars,'({_VARIABLE})'\)\|list if '\1' in groups else \[\]\}}\}}", re.ASCII
)


class Unknown(ValueError):
    """An address that is not known, or a value of another kind than it should be."""


class Nodes:
    """What the Infrastructure Manager knows of the hosts of a deployment."""

    def __init__(self, own: t.Mapping[str, t.Any], hosts: Hosts, groups: t.Mapping[str, t.Sequence[str]]) -> None:
        self.own, self.hosts, self.groups = own, hosts, groups

    def of_node(self, group: str, number: str) -> t.Mapping[str, t.Any]:
        members = self.groups.get(group) or []
        if int(number) >= len(members):
            raise Unknown(f"the deployment has no host {number} of {group}")
        return self.hosts.get(members[int(number)], {})

    @staticmethod
    def address(node: t.Mapping[str, t.Any], variable: str) -> str:
        if node.get(variable) in (None, ""):
            raise Unknown(f"the orchestrator knows no {variable} of a host")
        return str(node[variable])

    def resolved(self, text: str) -> str | list[str]:
        """Return a text with addresses in the place of the manager's expressions.

        :raises Unknown: it does not know such an address.
        """
        whole = _OF_GROUP.fullmatch(text)
        if whole:
            return [self.address(self.hosts.get(host, {}), whole[2]) for host in self.groups.get(whole[1]) or []]
        text = _OWN.sub(lambda found: self.address(self.own, found[1]), text)
        text = _PUBLIC_OR.sub(self._public_or, text)
        return _OF_NODE.sub(lambda found: self.address(self.of_node(found[1], found[2]), found[3]), text)

    def _public_or(self, found: t.Match[str]) -> str:
        first, asked, other = found.group(1, 2, 3), found.group(5, 6, 4), found.group(7, 8, 9)
        chosen = first if asked[2] in self.of_node(*asked[:2]) else other
        return self.address(self.of_node(*chosen[:2]), chosen[2])


def data(value: t.Any, nodes: Nodes, path: str = "") -> t.Any:
    """Return a copy of an orchestrator's input that is plain data, with its addresses.

    :param path: the input's name, for sentences.
    :raises Unknown: a part is no data, such as a date, or there are too many parts or levels. The sentence begins with its name.
    """
    left = MOST_PARTS

    def copy(value: t.Any, path: str, levels: int) -> t.Any:
        nonlocal left
        left -= 1 + (len(value) // 100 if isinstance(value, str) else 0)
        if left < 0 or levels > MOST_LEVELS:
            what = f"{MOST_PARTS} parts" if left < 0 else f"{MOST_LEVELS} levels"
            raise Unknown(f"{path.partition('.')[0]} has more than {what}")
        if isinstance(value, t.Mapping):
            return {plain(str(key)): copy(one, f"{path}.{key}", levels + 1) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [copy(one, f"{path}.{number}", levels + 1) for number, one in enumerate(value)]
        if isinstance(value, str):
            try:
                return nodes.resolved(plain(value))
            except Unknown as error:
                raise Unknown(f"{path}: {error}") from error
        if value is None or isinstance(value, (bool, int, float)):
            return json.loads(json.dumps(value))
        raise Unknown(f"{path} is no text, number, list or dictionary but a {type(value).__name__}: write it in quotes")

    return copy(value, path, 0)


def number(value: t.Any, path: str) -> int:
    """Return an input that is a whole number, 0 or more; no value is 0.

    :raises Unknown: it is another value.
    """
    if value in (None, ""):
        return 0
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,9}", str(value), re.ASCII):
        raise Unknown(f"{path} is {shown(value)}: write a whole number, 0 or more")
    return int(value)


def check_names(hosts: Hosts) -> None:
    """Refuse a host whose name or address has signs that names do not have.

    Templates choose names.

    :param hosts: the variables of each host, not evaluated.
    """
    for own in hosts.values():
        for variable in ("IM_NODE_HOSTNAME", "IM_NODE_PRIVATE_IP", "IM_NODE_PUBLIC_IP"):
            if not re.fullmatch(r"[\w.:-]*", plain(str(own.get(variable) or "")), re.ASCII):
                raise Unknown(f"{variable} of a host is {shown(own[variable])}: write a name of letters, digits, - and . into the template")


def plain(text: str) -> str:
    """A text without what Ansible knows of it, such as that it may be evaluated."""
    return "".join(list(text))


def unsafe_yaml(values: t.Any) -> str:
    """Return YAML for a file of variables whose texts Ansible never evaluates.

    :raises ValueError: there is something else than mappings, lists, texts, numbers, booleans and null.
    """
    if isinstance(values, t.Mapping):
        return "{" + ", ".join(f"!unsafe {_text(str(key))}: {unsafe_yaml(value)}" for key, value in values.items()) + "}"
    if isinstance(values, (list, tuple)):
        return "[" + ", ".join(unsafe_yaml(value) for value in values) + "]"
    if isinstance(values, str):
        return f"!unsafe {_text(values)}"
    if values is None or isinstance(values, (bool, int, float)):
        return json.dumps(values)
    raise ValueError(f"{type(values).__name__} can't be written as a variable.")


def _text(value: str) -> str:
    # YAML knows no pairs of surrogates, as JSON writes signs beyond 16 bits; it allows no control characters as they are.
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in quoted)
