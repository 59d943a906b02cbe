# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that find misspelt variables and groups on the control node."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment, _managers, _own_variables
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter

# What ansible-core calls an encrypted value, from 2.19 on and before.
VAULTED = ("EncryptedString", "AnsibleVaultEncryptedUnicode")


def site_check_variables(
    hostvars: t.Any, hosts: t.Sequence[str], own: t.Sequence[str] | str | None = None, facts_set: bool = False
) -> dict[str, list[str]]:
    """Which variables are set, as written: no template is resolved for it.

    facts_set: whether roles may have set their facts by now, which are among the variables then.
    """
    names: dict[str, list[str]] = {}
    for host in hosts:
        for name in hostvars.raw_get(host):
            if not name.startswith(("_", "ansible_")):
                names.setdefault(name, []).append(host)
    found = _own_variables.judge(names, own.split(",") if isinstance(own, str) else own or (), facts_set)
    found["errors"] += unreadable(hostvars, {name: names[name] for name in sorted(names) if name in _own_variables.known()})
    return found


def unreadable(hostvars: t.Any, names: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Find variables of the collection that the vault's password does not open.

    In the middle of a task, Ansible would not say which variable it is.
    """
    errors = []
    for name, hosts in names.items():
        # One that all hosts have from the same file is the same object.
        values = {id(value): (host, value) for host, value in ((host, hostvars.raw_get(host)[name]) for host in hosts)}
        for host, value in values.values():
            try:
                for secret in encrypted(value):
                    str(secret)
            except AnsibleError as error:
                why = str(error).splitlines()[0].rstrip(".")
                errors.append(f"{name} (set for {host}) can't be read: {why}. Is it the right vault password?")
    return errors


def encrypted(value: t.Any) -> t.Iterator[t.Any]:
    """The encrypted values in a variable."""
    if type(value).__name__ in VAULTED:
        yield value
    elif isinstance(value, t.Mapping):
        for part in value.values():
            yield from encrypted(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from encrypted(part)


def site_check_unanswered(answers: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """The hosts that did not answer, with the reason, from a task in a loop."""
    failed = [answer for answer in answers if answer.get("unreachable") or answer.get("failed")]
    return {str(answer["item"]): " ".join(str(answer.get("msg") or "It did not answer.").split()) for answer in failed}


def site_check_groups(groups: t.Mapping[str, t.Sequence[str]], wanted: t.Sequence[str]) -> list[str]:
    """Groups that a playbook needs and that have no host, one sentence each.

    Of groups joined by colons, one with a host is enough.
    """
    errors = []
    for entry in wanted:
        names = entry.split(":")
        if not any(groups.get(name) for name in names):
            filled = [name for name in groups if groups[name]]
            near = list(filter(None, (_own_variables.nearest(name, filled, _own_variables.UNSURE) for name in names)))
            hint = f"rename {' and '.join(near)} there" if near else "name hosts there"
            errors.append(f"The inventory has no host in the group {' or '.join(names)}, so this playbook would do nothing: {hint}.")
    return errors


def site_check_allotments(hostvars: t.Any, groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """What is wrong with the hosts' accelerator_allotment, one sentence each."""
    hosts = [host for host in groups["all"] if _allotment.VARIABLE in hostvars.raw_get(host)]
    allotments = {host: hostvars[host].get(_allotment.VARIABLE) for host in hosts}
    return [str(found) for found in _allotment.errors(allotments, _managers.MANAGERS, groups)]


class FilterModule:
    """Checks that need no host."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "site_check_allotments": as_filter(site_check_allotments),
            "site_check_groups": as_filter(site_check_groups),
            "site_check_unanswered": as_filter(site_check_unanswered),
            "site_check_variables": as_filter(site_check_variables),
        }
