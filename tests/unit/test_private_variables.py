# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a role keeps to itself is named by it alone.

What it gives to others is a documented fact.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _own_variables

ROOT = Path(__file__).resolve().parents[2]
ROLES = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
# The longest name first: __slurm_rest_socket is no variable of a role slurm.
PRIVATE = re.compile(r"(?<![A-Za-z0-9_])__(" + "|".join(sorted(ROLES, key=len, reverse=True)) + r")_\w+")
FILES = [
    path
    for folder in ("roles", "playbooks", "plugins/filter", "plugins/plugin_utils")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix in (".yml", ".py", ".j2", ".sh", ".md")
]
# Set by a playbook for its own plays.
GIVEN = {"kubernetes_cluster_leaving", "kubernetes_cluster_state_comes", "slurm_cluster_leaving", "slurm_cluster_state_comes"}
GIVEN |= {"mesos_cluster_state_comes"}


def of_others(path: Path) -> set[str]:
    """Private variables in a file that belong to a role which is not the file's."""
    parts = path.relative_to(ROOT).parts
    own = parts[1] if parts[0] == "roles" else ""
    return {found.group() for found in PRIVATE.finditer(path.read_text(encoding="utf-8")) if found.group(1) != own}


def test_no_file_names_a_private_variable_of_another_role() -> None:
    assert {f"{path.relative_to(ROOT)}: {name}" for path in FILES for name in of_others(path)} == set()


def tasks_of(tasks: t.Iterable[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part) or [])


def public_names(role: str) -> set[str]:
    """What tasks of the role set, as a fact or a result, under a name that is not private."""
    names: set[str] = set()
    for path in (ROOT / "roles" / role / "tasks").rglob("*.yml"):
        for task in tasks_of(yaml.safe_load(path.read_text(encoding="utf-8"))):
            names.update(task.get("ansible.builtin.set_fact") or {})
            names.update([task["register"]] if "register" in task else [])
    return {name for name in names if not name.startswith("__")}


def documented(role: str) -> dict[str, dict[str, t.Any]]:
    path = ROOT / "roles" / role / "meta/facts.yml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))["facts"] if path.exists() else {}


@pytest.mark.parametrize("role", sorted(ROLES))
def test_what_a_role_gives_to_others_is_documented(role: str) -> None:
    facts = documented(role)
    assert public_names(role) == set(facts) - GIVEN
    assert [
        name for name, fact in facts.items() if not name.startswith(f"{role}_") or not fact.get("type") or not fact.get("description")
    ] == []


def test_what_playbooks_give_is_given() -> None:
    playbooks = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").glob("*.yml"))
    assert [name for name in sorted(GIVEN) if not re.search(rf"^ +{name}: ", playbooks, re.MULTILINE)] == []
    assert set(_own_variables.facts()) >= GIVEN


def test_a_fact_is_no_variable() -> None:
    """Else the inventory could set what only a run may."""
    assert set(_own_variables.facts()) & _own_variables.known() == set()


def test_a_fact_in_an_inventory_is_refused_until_a_role_may_have_set_it() -> None:
    for name, role in _own_variables.facts().items():
        (sentence,) = _own_variables.judge({name: ["gpu1"]}, [])["errors"]
        assert sentence == f"{name} (set for gpu1) is a fact of the role {role}, which only a run may set: take it out."
        assert _own_variables.judge({name: ["gpu1"]}, [], facts_set=True) == {"errors": [], "warnings": []}
