# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Every role has the same parts, and its documented variables are the ones it has."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

ROLES = sorted(path for path in (Path(__file__).resolve().parents[2] / "roles").iterdir() if path.is_dir())

pytestmark = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


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


def test_variables_carry_the_name_of_their_role(role: Path) -> None:
    assert [name for name in load(role / "defaults/main.yml") if not name.startswith(f"{role.name}_")] == []
    internal = [name for path in (role / "vars").glob("*.yml") for name in load(path)]
    assert [name for name in internal if not name.startswith(f"__{role.name}_")] == []


def test_every_option_says_what_it_is(role: Path) -> None:
    assert [name for name, option in documented(role).items() if not option.get("description") or not option.get("type")] == []


def test_every_entry_point_is_documented(role: Path) -> None:
    """A file of tasks that another role or play may ask for by tasks_from has its own argument specification."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    assert [name for name in specs if not (role / "tasks" / f"{name}.yml").is_file()] == []
