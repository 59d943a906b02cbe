# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Small changes of a golden site: what its manager says of each, and what its plan becomes.

cases/MANAGER.yml lists them. Most are wrong, so that their golden text is a list of errors. Of the others it is what the
plan has that the site's has not, and the other way round.
"""

from __future__ import annotations

import difflib
import typing as t

import plans
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers
from sites import HERE, Inventory, Overlay, overlay_of, read, read_yaml, sources
from walk import Walk

Case = dict[str, t.Any]
KEYS = {"name", "site", "variables", "hosts", "facts", "groups", "without", "before", "recorded", "present", "more"}


def listed(manager: str) -> tuple[str, list[Case]]:
    """Return the site of a manager's cases, and the cases."""
    path = HERE / "cases" / f"{manager}.yml"
    found = read_yaml(path) if path.is_file() else {"site": "", "cases": []}
    for case in found["cases"]:
        if set(case) - KEYS or "name" not in case:
            raise ValueError(f"{path.name}: {case.get('name')} has other keys than {', '.join(sorted(KEYS))}")
    return str(found["site"]), found["cases"]


class Sites:
    """Sites as they are read, each once."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[Inventory, Overlay]] = {}

    def of(self, name: str) -> tuple[Inventory, Overlay]:
        if name not in self.known:
            self.known[name] = read(sources()[name]), overlay_of(name)
        return self.known[name]


def changed(inventory: Inventory, overlay: Overlay, case: Case) -> Walk:
    """Return a site with the changes of a case.

    variables are of all hosts, hosts of one, groups replaced, and what without names is removed.
    """
    hosts = {
        host: {**own, **(case.get("variables") or {}), **((case.get("hosts") or {}).get(host) or {})}
        for host, own in inventory.hosts.items()
    }
    hosts.update(
        {host: {**(case.get("variables") or {}), **(own or {})} for host, own in (case.get("hosts") or {}).items() if host not in hosts}
    )
    for name in case.get("without") or []:
        host, _, variable = name.rpartition(".")
        for own in [hosts[host]] if host else hosts.values():
            own.pop(variable, None)
    groups = {name: list(members) for name, members in {**inventory.groups, **(case.get("groups") or {})}.items()}
    facts = {name: {**(overlay.facts.get(name) or {}), **own} for name, own in (case.get("facts") or {}).items()}
    return Walk(inventory._replace(hosts=hosts, groups=groups), overlay._replace(facts={**overlay.facts, **facts}))


def asked(sites: Sites, manager: _managers.Manager, site: str, case: Case) -> plans.Asked:
    """Return what a manager is asked in a case."""
    walk = changed(*sites.of(site), case)
    read_facts(walk, manager)
    found = plans.asked(walk, manager)
    recorded = str(case.get("recorded", found.recorded))
    if "before" in case:
        before = asked(sites, manager, site, case["before"] or {})
        recorded = str(plans.plan(manager.name, before).get("record", ""))
    return plans.Asked(found.site, recorded, case.get("present", found.present))


def read_facts(walk: Walk, manager: _managers.Manager) -> None:
    """Set what the facts.yml of the manager's roles sets of each host."""
    scopes = {host: walk.scope(host) for host in walk.inventory.hosts}
    for role in (manager.host_role, manager.site_role):
        walk.role(role, "facts", {}, scopes)
    walk.role(manager.site_role, "read_hosts", {}, scopes)


def says(manager: str, one: plans.Asked, base: str) -> dict[str, t.Any]:
    """Return what a manager says of a case: its errors, or what is other in its plan."""
    check = plans.check(manager, one)
    if check:
        # The role stops here.
        return {"check": check}
    plan = plans.plan(manager, one)
    if plan["errors"]:
        return {"plan": [str(error) for error in plan["errors"]]}
    lines = difflib.unified_diff(base.splitlines(), plans.as_text(plan).splitlines(), lineterm="", n=0)
    return {"differs": [line for line in lines if not line.startswith(("---", "+++", "@@"))]}


def of_manager(manager: _managers.Manager, sites: Sites) -> dict[str, tuple[plans.Asked, str]]:
    """Return what a manager is asked in each of its cases, with the name of the site."""
    usual, cases = listed(manager.name)
    return {case["name"]: (asked(sites, manager, case.get("site", usual), case), case.get("site", usual)) for case in cases}


def render() -> dict[str, str]:
    """Return errors.json of the cases of each manager."""
    found, sites = {}, Sites()
    for manager in _managers.MANAGERS:
        bases: dict[str, str] = {}
        said = {}
        for name, (one, site) in of_manager(manager, sites).items():
            if site not in bases:
                bases[site] = plans.as_text(plans.plan(manager.name, asked(sites, manager, site, {})))
            said[name] = says(manager.name, one, bases[site])
        found[f"cases_of_{manager.name}/errors.json"] = plans.as_text(said)
    return found
