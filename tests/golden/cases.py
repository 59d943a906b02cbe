# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Small changes of a golden site: what its manager says of each, and what its plan becomes.

cases/MANAGER.yml lists them. Most are wrong, so that their golden text is a list of errors. Of the others it is what the
plan has that the site's has not, and the other way round.
"""

from __future__ import annotations

import difflib
import functools
import typing as t

from ansible.errors import AnsibleError
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers

import plans
from scopes import Layer, Scope, engine
from sites import HERE, Inventory, Overlay, overlay_of, read, read_yaml, sources
from templating import ROOT
from walk import Walk, defaults_of, role_folder, variables_in

Case = dict[str, t.Any]
KEYS = {
    "name",
    "site",
    "variables",
    "hosts",
    "facts",
    "groups",
    "without",
    "before",
    "recorded",
    "present",
    "value",
    "filter",
    "input",
    "arguments",
}


def listed(manager: str) -> tuple[str, list[Case]]:
    """Return the site of a manager's cases, and the cases."""
    path = HERE / "cases" / f"{manager}.yml"
    found: dict[str, t.Any] = read_yaml(path) if path.is_file() else {"site": "", "cases": []}
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
        host, _dot, variable = name.rpartition(".")
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


def value(sites: Sites, manager: _managers.Manager, site: str, case: Case) -> dict[str, t.Any]:
    """Return what a variable of a role, or a filter, is in a case.

    The plan is that of the case.
    """
    if "filter" in case:
        return {"value": attempt(lambda: engine().call(f"deephdc.accelerators.{case['filter']}", (case["input"], *case["arguments"]), {}))}
    walk = changed(*sites.of(site), case)
    read_facts(walk, manager)
    plan = plans.plan(manager.name, plans.asked(walk, manager))
    for own in walk.set.values():
        own[f"{manager.site_role}_plan"] = plan
    role, name, host = (str(case["value"][key]) for key in ("role", "name", "host"))
    folder = role_folder(role)
    layers = (*walk.scope(host).layers[:2], Layer(variables_in(folder / "vars/main.yml")), *walk.scope(host).layers[2:])
    scope = Scope(walk.lookups, (Layer({"role_path": str(folder)}, True), *layers, Layer(defaults_of(role))), (str(folder),))
    return {"value": attempt(lambda: scope.resolved(variables_in(folder / "vars/main.yml")[name]))}


def attempt(function: t.Callable[[], t.Any]) -> t.Any:
    try:
        return function()
    except AnsibleError as error:
        # The class has another name in each release.
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def answers(manager: _managers.Manager, sites: Sites) -> dict[str, t.Callable[[], dict[str, t.Any]]]:
    """Return for each case of a manager how its golden text is made."""
    usual, cases = listed(manager.name)
    found: dict[str, t.Callable[[], dict[str, t.Any]]] = {}
    bases: dict[str, str] = {}
    for case in cases:
        site = case.get("site", usual)
        if "value" in case or "filter" in case:
            found[case["name"]] = functools.partial(value, sites, manager, site, case)
            continue
        if site not in bases:
            bases[site] = plans.as_text(plans.plan(manager.name, asked(sites, manager, site, {})))
        found[case["name"]] = functools.partial(says, manager.name, asked(sites, manager, site, case), bases[site])
    return found


def render() -> dict[str, str]:
    """Return errors.json of the cases of each manager."""
    sites = Sites()
    return {
        f"cases_of_{manager.name}/errors.json": plans.as_text({name: answer() for name, answer in answers(manager, sites).items()}).replace(
            str(ROOT), "/collection"
        )
        for manager in _managers.MANAGERS
    }
