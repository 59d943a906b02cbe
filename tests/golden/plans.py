# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Ask each manager for its check and its plan of a site, as its site role does."""

from __future__ import annotations

import importlib
import json
import typing as t

from ansible.errors import AnsibleError
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._contract import Site
from jinja2 import UndefinedError

from scopes import Layer, Scope
from templating import PLUGINS
from walk import ROLES, Walk, variables_in


class Asked(t.NamedTuple):
    """What a manager is asked: the site, its record of promises, and what it has now."""

    site: Site
    recorded: str
    present: dict[str, t.Any] | None


def managers_of(walk: Walk) -> list[_managers.Manager]:
    """Return the managers of which a site has hosts, or a site role's variables."""
    return [one for one in _managers.MANAGERS if walk.inventory.groups.get(one.host_group)]


def scope_of(walk: Walk, manager: _managers.Manager, host: str) -> Scope:
    """Return what the site role of a manager can use on a host."""
    role = ROLES / manager.site_role
    layers = (*walk.scope(host).layers[:2], Layer(variables_in(role / "vars/main.yml")), *walk.scope(host).layers[2:])
    return Scope(walk.lookups, (*layers, Layer(variables_in(role / "defaults/main.yml"))), (str(role),))


def settings_of(walk: Walk, manager: _managers.Manager, host: str) -> dict[str, t.Any]:
    """Return the variables that the site role gives to its manager."""
    role, scope = ROLES / manager.site_role, scope_of(walk, manager, host)
    wanted = f"__{manager.site_role}_wanted"
    if wanted in scope:
        return dict(scope.resolved(variables_in(role / "vars/main.yml")[wanted]))
    # OpenNebula's role gives its variables one by one.
    prefix = manager.site_role + "_"
    return {name.removeprefix(prefix): scope[name] for name in variables_in(role / "defaults/main.yml")}


def asked(walk: Walk, manager: _managers.Manager) -> Asked:
    """Return what the manager of a site is asked in a golden run."""
    groups = walk.inventory.groups
    others = [name for name in groups if name.startswith(manager.prefixes) and name != manager.host_group]
    first = next((groups[name][0] for name in others if groups[name]), next(iter(walk.inventory.hosts)))
    members = list(dict.fromkeys(host for name in (manager.host_group, *others) for host in groups[name]))
    site = Site(walk.hostvars, groups, members, settings_of(walk, manager, first))
    try:
        given = scope_of(walk, manager, first).resolved(walk.overlay.asked.get(manager.name) or {})
    except UndefinedError:
        # What a host would answer is made of variables, which are wrong here.
        given = {}
    return Asked(site, str(given.get("recorded", "")), given.get("present"))


def of(name: str) -> t.Any:
    return importlib.import_module(f"{PLUGINS}.plugin_utils._{name}.manager")


def check(name: str, one: Asked) -> list[str]:
    """Return the sentences of a manager's check, or how it failed."""
    return _sentences(lambda: of(name).check(one.site))


def plan(name: str, one: Asked) -> dict[str, t.Any]:
    """Return a manager's plan; one that a sentence ends has that sentence alone."""
    found: dict[str, t.Any] = {}

    def made() -> list[t.Any]:
        found.update(of(name).plan(one.site, one.recorded, one.present))
        return []

    errors = _sentences(made)
    return {"errors": errors} if errors else found


def _sentences(function: t.Callable[[], t.Iterable[t.Any]]) -> list[str]:
    try:
        return [str(found) for found in function()]
    except (ValueError, AnsibleError, UndefinedError) as error:
        return [str(error)]
    except Exception as error:
        # A golden file shows that a wrong inventory is no sentence but a traceback.
        return [f"{type(error).__name__}: {error}"]


def as_text(data: t.Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True, default=_plain) + "\n"


def _plain(value: t.Any) -> t.Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "items"):
        return dict(value)
    return str(value)
