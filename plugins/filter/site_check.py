# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that find misspelt variables and groups on the control node."""

from __future__ import annotations

import pathlib
import re
import typing as t

from ansible.errors import AnsibleError
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _allotment, _managers, _own_variables
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter

# Groups that playbooks read, by system. One that is misspelt would have no effect where it is optional.
SYSTEMS = (
    ("slurm_controllers", "slurm_databases", "slurm_nodes", "slurm_logins", "slurm_rest", "slurm_cloud_images"),
    ("kubernetes_control_plane", "kubernetes_workers", "kubernetes_logins"),
    ("mesos_masters", "mesos_agents", "mesos_fronts", "zookeeper", "marathon", "marathon_lb", "chronos"),
    (
        *("openstack_controllers", "openstack_lxd_hosts", "openstack_databases", "openstack_messaging", "openstack_keystone"),
        *("openstack_glance", "openstack_placement", "openstack_neutron", "openstack_nova", "openstack_networks"),
    ),
    ("opennebula_frontends", "opennebula_hosts"),
)
# Names in templates that begin as most sites call what is in their vault's file.
TEMPLATE = re.compile(r"{{(.*?)}}", re.DOTALL)
# Texts, and names of filters.
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\|\s*[\w.]+")
SECRET = re.compile(r"(?<![\w.])vault(?:ed)?_\w+(?!\w|\s*\(|\s*=(?!=))")
# Tags that are no role's.
TAGS = ("always", "all", "configure", "install", "mig", "never", "service", "tagged", "untagged", "validate")
# From so many letters on, so many changes are a mistake.
TAG_STEPS = ((6, 1), (12, 2))
# Groups whose hosts need not be in a system.
ALONE = ("gpu_hosts", "iam_hosts", "oidc_proxies")
# How many hosts of a site have its lock.
LOCKS = 3
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
    found = _own_variables.judge(names, words(own), facts_set)
    ours = {name: names[name] for name in sorted(names) if name in _own_variables.known()}
    found["errors"] += unreadable(hostvars, ours) + undefined_secrets(hostvars, ours, words(own))
    return found


def undefined_secrets(hostvars: t.Any, names: t.Mapping[str, t.Sequence[str]], known: t.Collection[str] = ()) -> list[str]:
    """Find variables of the collection that use a secret which nothing sets.

    In the middle of a task, Ansible would hide the name with the secret.

    :param known: names that the site sets where no inventory has them.
    """
    found: dict[tuple[str, str], str] = {}  # the first host that has it
    for name, hosts in names.items():
        for host in hosts:
            own = hostvars.raw_get(host)
            for text in texts(own[name]):
                # What sets a name itself, or asks whether it is there, is left to Ansible.
                used = [] if any(word in text for word in ("{%", "default", "is defined")) else TEMPLATE.findall(text)
                names_used = (one for template in used for one in SECRET.findall(QUOTED.sub("", template)))
                for secret in (one for one in names_used if one not in own and one not in known):
                    found.setdefault((name, secret), host)
    return [
        f"{name} (set for {host}) uses {secret}, which nothing in the inventory sets: correct the name, or add it to the "
        "vault's file. If a playbook of your own sets it, name it in site_check_own."
        for (name, secret), host in found.items()
    ]


def texts(value: t.Any) -> t.Iterator[str]:
    """The texts in a variable, as written."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, t.Mapping):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from texts(part)


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
                errors.append(f"{name} (set for {host}) can't be read: {why}. Give the right vault password (--ask-vault-pass).")
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


def site_check_groups(
    groups: t.Mapping[str, t.Sequence[str]], wanted: t.Sequence[str], own: t.Sequence[str] | str | None = None
) -> list[str]:
    """Groups that a playbook needs and that have no host, one sentence each.

    Of groups joined by colons, one with a host is enough. Then those whose name is almost one that playbooks read.
    """
    errors: list[str] = []
    named: set[str] = set()
    for entry in wanted:
        names = entry.split(":")
        if not any(groups.get(name) for name in names):
            named.update(names)
            filled = [name for name in groups if groups[name]]
            near = list(filter(None, (_own_variables.nearest(name, filled, _own_variables.UNSURE) for name in names)))
            hint = f"rename {' and '.join(near)} there" if near else "name hosts there"
            errors.append(f"The inventory has no host in the group {' or '.join(names)}, so this playbook would do nothing: {hint}.")
    return errors + misspelt_groups(groups, words(own), named)


def site_check_lock_hosts(groups: t.Mapping[str, t.Sequence[str]], wanted: t.Sequence[str]) -> list[str]:
    """Hosts that have the lock of the sites whose hosts a playbook may change.

    They are the first of each site, as one of these may be off. Whoever changes a host of two managers has the lock of both.
    """
    names = {name for entry in wanted for name in entry.split(":")}
    # A playbook that needs one group of a site changes hosts of the others, too.
    names.update(name for system in SYSTEMS if names.intersection(system) for name in system)
    hosts = {host for name in names for host in groups.get(name) or ()}
    sites = [[list(groups[name]) for name in system if groups.get(name)] for system in SYSTEMS]
    # What is in no site is one of its own, the same for each playbook. Other hosts of the inventory may be no hosts of ours.
    ours = hosts.union(*(groups.get(name) or () for name in ALONE))
    alone = ours.difference(*(group for site in sites for group in site))
    sites.append([sorted(alone)])
    first = [site[0] for site in sites if any(hosts.intersection(group) for group in site)]
    return list(dict.fromkeys(host for listed in first for host in listed[:LOCKS]))


def misspelt_groups(groups: t.Mapping[str, t.Sequence[str]], own: t.Collection[str], named: t.Collection[str]) -> list[str]:
    """Groups whose name is almost one of a system that the inventory has.

    A group may be part of the one that its name is almost. Another letter in a word can be another word, as in slurm_test.

    :param named: groups that have a sentence already.
    """
    known = [name for system in SYSTEMS if any(groups.get(name) for name in system) for name in system]
    errors = []
    for name, hosts in groups.items():
        if name in known or name in own:
            continue
        plain = name.lower().replace("-", "_")
        near = plain if plain in known else _own_variables.nearest(plain, known, _own_variables.SURE)
        if plain != near and len(plain) == len(near) and sorted(plain) != sorted(near):
            continue
        if near and near not in named and set(hosts) - set(groups.get(near) or ()):
            errors.append(
                f"The inventory has the group {name}, which no playbook reads: did you mean {near}? Rename it, "
                f"or name it in site_check_own if the site uses it itself."
            )
    return errors


def site_check_tags(chosen: t.Sequence[str] | str | None, own: t.Sequence[str] | str | None = None) -> list[str]:
    """Tags whose name is almost one of ours, one sentence each.

    With --tags nothing would run, with --skip-tags too much.
    A site's playbook that imports ours may have tags of its own.
    """
    roles = [path.name for path in (pathlib.Path(__file__).resolve().parents[2] / "roles").iterdir() if path.is_dir()]
    known = [*TAGS, *roles]
    errors = []
    for tag in words(chosen):
        near = None if tag in known or tag in words(own) else _own_variables.nearest(tag.lower().replace("-", "_"), known, TAG_STEPS)
        if near:
            errors.append(
                f"No task has the tag {tag}, so nothing would be done for it: did you mean {near}? "
                f"Name {tag} in site_check_own if a playbook of the site has it."
            )
    return errors


def words(value: t.Sequence[str] | str | None) -> list[str]:
    """A list, also from the text that -e name=value gives."""
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else list(value or ())


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
            "site_check_lock_hosts": as_filter(site_check_lock_hosts),
            "site_check_tags": as_filter(site_check_tags),
            "site_check_unanswered": as_filter(site_check_unanswered),
            "site_check_variables": as_filter(site_check_variables),
        }
