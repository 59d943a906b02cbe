# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A run that holds a host can give it back: whatever tags it has, and where a manager's host does not answer."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._managers import MANAGERS

ROLES = Path(__file__).resolve().parents[3] / "roles"
# They change what users' jobs and virtual machines have, unless in check mode.
DISTURBING = ("ansible.builtin.reboot", *(f"deephdc.accelerators.{name}" for name in ("pci_driver_override", "pci_virtual_functions")))
INCLUDING = re.compile(r"ansible\.builtin\.(include|import)_tasks\Z")
Task = dict[str, t.Any]


def tasks(
    role: str, file: str, tags: frozenset[str] = frozenset(), gates: tuple[frozenset[str], ...] = ()
) -> t.Iterator[tuple[Task, tuple]]:
    """Each task that a file leads to, with the tags of the includes before it and its own."""

    def walk(entries: list[Task], inherited: frozenset[str]) -> t.Iterator[tuple[Task, tuple]]:
        for task in entries:
            own = inherited | frozenset([task["tags"]] if isinstance(task.get("tags"), str) else task.get("tags", []))
            for part in ("block", "rescue", "always"):
                yield from walk(task.get(part, []), own)
            module = next((name for name in task if INCLUDING.match(name)), None)
            if module is None:
                yield task, (*gates, own)
                continue
            target = task[module] if isinstance(task[module], str) else task[module]["file"]
            applied = frozenset([] if isinstance(task[module], str) else task[module].get("apply", {}).get("tags", []))
            if "{{" in target:
                continue
            if "include" in module:
                yield from tasks(role, target, own | applied, (*gates, own))
            else:
                yield from tasks(role, target, own, gates)

    yield from walk(yaml.safe_load((ROLES / role / "tasks" / file).read_text(encoding="utf-8")), tags)


def selecting(gates: tuple[frozenset[str], ...]) -> frozenset[str]:
    """The tags that select a task; it is reached through each of its includes.

    Empty where only a run without tags does.
    """
    named = [gate for gate in gates if "always" not in gate]
    return frozenset.intersection(*named) if named else frozenset(["always"])


def held(role: str, file: str) -> tuple[set[frozenset[str]], set[frozenset[str]], set[frozenset[str]]]:
    """The tags by which the tasks of an entry point hold a host, change it and give it back."""
    holding, changing, releasing = set(), set(), set()
    for task, gates in tasks(role, file):
        called = task.get("ansible.builtin.include_role", {})
        if called.get("name") == "deephdc.accelerators.gpu_hold":
            (releasing if called.get("tasks_from") == "release" else holding).add(selecting(gates))
        elif any(module in task for module in DISTURBING) and task.get("check_mode") is not True:
            changing.add(selecting(gates))
    return holding, changing, releasing


@pytest.mark.parametrize(
    ("role", "file"),
    [("pci_passthrough", "main.yml"), ("nvidia_driver", "finish.yml"), ("nvidia_driver", "divide.yml")],
)
def test_the_same_tags_hold_a_host_change_it_and_give_it_back(role, file):
    holding, changing, releasing = held(role, file)
    assert len(holding) == 1 and holding == releasing
    assert changing <= holding


def test_each_entry_point_that_holds_a_host_is_looked_at():
    """One that is new must be added above."""
    holding = {
        (role.name, path.name)
        for role in ROLES.iterdir()
        for path in (role / "tasks").glob("*.yml")
        if path.name == "main.yml" or path.stem in yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
        if held(role.name, path.name)[0]
    }
    assert holding == {("pci_passthrough", "main.yml"), ("nvidia_driver", "finish.yml"), ("nvidia_driver", "divide.yml")}


@pytest.mark.parametrize("entry", ["hold.yml", "release.yml"])
@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.name)
def test_a_managers_host_that_does_not_answer_is_a_failure(manager, entry):
    """Else no rescue is run, and the other managers of the host do not give it back."""
    entries = [task for task, _gates in tasks(manager.host_role, entry)]
    delegated = [task for task in entries if "delegate_to" in task]
    asserts = " ".join(str(task["ansible.builtin.assert"]["that"]) for task in entries if "ansible.builtin.assert" in task)
    assert delegated and [task["name"] for task in delegated if not task.get("ignore_unreachable")] == []
    single = [task for task in delegated if "loop" not in task]
    assert [task["name"] for task in single if f"not ({task['register']}.unreachable | default(false))" not in asserts] == []
