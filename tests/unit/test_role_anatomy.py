# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Every role has the same parts, and its documented variables are the ones it has."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ROOT / "playbooks"
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())

pytestmark = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)

# Modules that change nothing on a host, besides those that say so by their name.
READING = {
    *(
        "assert",
        "debug",
        "fail",
        "include_role",
        "include_tasks",
        "include_vars",
        "import_role",
        "import_tasks",
        "meta",
        "pause",
        "set_fact",
        "set_stats",
    ),
    *("add_host", "find", "getent", "group_by", "setup", "slurp", "stat", "wait_for", "wait_for_connection"),
    *("munge_trust", "slurm_gpu_probe"),
}
KEYWORDS = {
    *("name", "action", "always", "args", "become", "become_user", "block", "changed_when", "check_mode", "delegate_facts", "delegate_to"),
    *(
        "delay",
        "diff",
        "environment",
        "failed_when",
        "ignore_errors",
        "ignore_unreachable",
        "listen",
        "local_action",
        "loop",
        "loop_control",
    ),
    *(
        "no_log",
        "notify",
        "register",
        "rescue",
        "retries",
        "run_once",
        "tags",
        "throttle",
        "timeout",
        "until",
        "vars",
        "when",
        "any_errors_fatal",
    ),
    *("async", "poll", "become_method", "become_flags", "connection", "debugger", "module_defaults"),
}


def load(path: Path) -> dict[str, t.Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def documented(role: Path) -> dict[str, dict[str, t.Any]]:
    """Options of every entry point of the role, by name."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for entry in specs.values() for name, option in entry.get("options", {}).items()}


def test_has_the_files_of_every_role(role: Path) -> None:
    wanted = ["meta/main.yml", "meta/argument_specs.yml", "defaults/main.yml", "tasks/main.yml"]
    assert [name for name in wanted if not (role / name).is_file()] == []


def test_defaults_and_documented_defaults_are_the_same(role: Path) -> None:
    """An option that is required, or that may stay undefined, has no default in either place."""
    documented_defaults = {name: option["default"] for name, option in documented(role).items() if "default" in option}
    assert documented_defaults == load(role / "defaults/main.yml")


def test_a_required_option_has_no_default(role: Path) -> None:
    assert [name for name, option in documented(role).items() if option.get("required") and "default" in option] == []


# What all managers' roles read of a host; the role that checks the inventory documents it.
OF_EVERY_MANAGER = {"accelerator_allotment"}


def prefixes(role: Path, entry_point: str) -> tuple[str, ...]:
    """What the variables of an entry point may begin with: the role's name, or that of the playbook that the entry point is for.

    The entry point remove of slurm_operations, and remove_host beside it, are for the playbook slurm_remove_node: slurm_remove_.
    The entry points hold and release are called by the role gpu_hold, whoever the manager is, with variables of that role.
    """
    if role.name == "gpu_hold":
        return "gpu_hold_", "gpu_release_"
    if entry_point in ("hold", "release"):
        return f"{role.name}_", "gpu_hold_"
    playbook = f"{role.name.split('_')[0]}_{entry_point.split('_')[0]}"
    has_one = any(path.stem == playbook or path.stem.startswith(f"{playbook}_") for path in PLAYBOOKS.glob("*.yml"))
    return (f"{role.name}_", f"{playbook}_") if has_one else (f"{role.name}_",)


def test_variables_carry_the_name_of_their_role_or_of_the_playbook_of_their_entry_point(role: Path) -> None:
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    assert [
        f"{entry_point}: {name}"
        for entry_point, entry in specs.items()
        for name in entry.get("options") or {}
        if name not in OF_EVERY_MANAGER and not name.startswith(prefixes(role, entry_point))
    ] == []
    internal = [name for path in (role / "vars").glob("*.yml") for name in load(path)]
    assert [name for name in internal if not name.startswith(f"__{role.name}_")] == []


def test_every_option_says_what_it_is(role: Path) -> None:
    assert [name for name, option in documented(role).items() if not option.get("description") or not option.get("type")] == []


def asked_for(node: t.Any) -> t.Iterator[tuple[str, str]]:
    """Role and entry point of each include_role and import_role in a play or a file of tasks."""
    if isinstance(node, list):
        for entry in node:
            yield from asked_for(entry)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
                yield value["name"], value.get("tasks_from", "main")
            yield from asked_for(value)


ASKED_FOR = {call for path in (*PLAYBOOKS.glob("*.yml"), *ROOT.glob("roles/*/tasks/*.yml")) for call in asked_for(load(path))}


def test_every_entry_point_is_documented(role: Path) -> None:
    """A file of tasks that another role or play asks for by tasks_from has its own argument specification."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    assert [name for name in specs if not (role / "tasks" / f"{name}.yml").is_file()] == []
    assert {entry for name, entry in ASKED_FOR if name == f"deephdc.accelerators.{role.name}"} - set(specs) == set()


def tasks_of(tasks: list[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    """All tasks, those inside of blocks too."""
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part) or [])


def changing(role: Path) -> list[dict[str, t.Any]]:
    """The tasks of a role that can change something."""
    found = []
    for path in sorted((role / "tasks").rglob("*.yml")):
        for task in tasks_of(yaml.safe_load(path.read_text(encoding="utf-8")) or []):
            modules = {key.rsplit(".", 1)[-1] for key in task if key not in KEYWORDS and not key.startswith("with_")}
            reads = all(module in READING or module.endswith(("_facts", "_info")) for module in modules)
            if not reads and task.get("changed_when") is not False:
                found.append({**task, "file": path.name})
    return found


def test_what_may_change_a_host_is_registered(role: Path) -> None:
    """The playbook slurm_drift collects these results, so a task without one would be a difference that is not reported."""
    assert [
        f"{task['file']}: {task['name']}" for task in changing(role) if not str(task.get("register")).startswith(f"__{role.name}_")
    ] == []


def test_each_result_has_a_name_of_its_own(role: Path) -> None:
    names = [task["register"] for task in changing(role) if "register" in task]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_result_hides_a_variable_of_its_role(role: Path) -> None:
    """A result comes before a variable of the role's files: a task that read the variable would read the result from then on."""
    files = sorted((role / "tasks").glob("*.yml"))
    results = {name for file in files for name in re.findall(r"^\s*register: (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)}
    variables = {
        name
        for file in sorted([*(role / "vars").glob("*.yml"), *(role / "defaults").glob("*.yml")])
        for name in yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    }
    assert results & variables == set()


def test_nothing_that_changes_a_host_runs_in_check_mode(role: Path) -> None:
    """Neither under --check nor in slurm_drift."""
    assert [f"{task['file']}: {task['name']}" for task in changing(role) if task.get("check_mode") is False] == []
