# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Golden sites set every option of the site roles, and the tools around them count as they say."""

from __future__ import annotations

import ast
import importlib
import sys
import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

# What names alone would not show: scripts/narrow.py.
READS = ("*",)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
ROLES = ("kubernetes_cluster", "mesos_cluster", "opennebula_pci", "openstack_cloud", "slurm_cluster")

sys.path.insert(0, str(GOLDEN))
executed, mutate, render = (pytest.importorskip(name) for name in ("executed", "mutate", "render"))


def values_of(name: str, inventory: t.Any) -> Iterator[t.Any]:
    """Yield the values of a variable, wherever an inventory has it."""
    if isinstance(inventory, Mapping):
        for key, value in inventory.items():
            if key == name:
                yield value
            yield from values_of(name, value)
    elif isinstance(inventory, list):
        for value in inventory:
            yield from values_of(name, value)


# file_set keeps a former text of these beside the new one, as if it were another one's.
UNMARKED = (
    "/etc/apt/preferences.d/deephdc-nvidia",  # with this and the five after it, a later version of a role leaves a copy behind
    "/etc/apt/sources.list.d/deephdc-nvidia.sources",
    "/etc/containers/oci/hooks.d/deephdc-gpu.json",
    "/etc/neutron/deephdc_ca.pem",
    "/etc/neutron/plugins/ml2/linuxbridge_agent_ca.pem",
    "/etc/nova/deephdc_ca.pem",
    "/usr/local/lib/udocker/distribution/lib/VERSION",  # a number alone
    "/var/lib/zookeeper/deephdc/myid",  # a number alone
)


def test_file_set_knows_its_own_files() -> None:
    """Every text has the mark of the collection."""
    lines = [line for file in GOLDEN.glob("*/*/FILES") for line in file.read_text().splitlines() if " unmarked" in line]
    assert lines
    assert not {line.split()[0] for line in lines if not line.startswith(UNMARKED)}


def parts(value: t.Any) -> list[Mapping[str, t.Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)]


def unset(name: str, option: Mapping[str, t.Any], values: list[t.Any]) -> list[str]:
    """Return the option, or those of its keys, that no value has."""
    if not values:
        return [name]
    dictionaries = [part for value in values for part in parts(value)]
    return [
        missing
        for key, inner in (option.get("options") or {}).items()
        for missing in unset(f"{name}.{key}", inner, [part[key] for part in dictionaries if key in part])
    ]


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_set_by_a_golden_site(role: str) -> None:
    """Some have values that exclude each other, so a case may set them, too."""
    paths = [path for folder in ("sites", "cases") for path in sorted((GOLDEN / folder).glob("*.yml"))]
    sites = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths]
    specification = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    options = specification["argument_specs"]["main"]["options"]
    found = [
        missing
        for name, option in options.items()
        for missing in unset(name, option, [one for site in sites for one in values_of(name, site)])
    ]
    assert found == [], "set these options in a site of tests/golden/sites, then run make golden"


def test_an_option_that_is_not_set_is_found() -> None:
    option = {"options": {"name": {}, "limits": {"options": {"gpus": {}, "jobs": {}}}}}
    assert unset("a", option, []) == ["a"]
    assert unset("a", option, [[{"name": "x"}, {"limits": {"gpus": 1}}]]) == ["a.limits.jobs"]


def test_thirty_wrong_inventories_have_errors() -> None:
    cases = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["cases"] for path in (GOLDEN / "cases").glob("*.yml")}
    said = {name: yaml.safe_load((GOLDEN / f"cases_of_{name}/errors.json").read_text(encoding="utf-8")) for name in cases}
    wrong = [case for name in said for case, found in said[name].items() if {"check", "plan"} & set(found)]
    assert len(cases) == len(ROLES) and len(wrong) >= 30
    assert all({case["name"] for case in cases[name]} == set(said[name]) for name in cases)


def test_a_difference_is_shown_as_a_diff_with_the_path() -> None:
    lines = render.difference({"a": "1\n2\n", "gone": "x\n"}, {"a": "1\n3\n", "new": "y\n"})
    assert lines == [
        *("--- a/a", "+++ b/a", "@@ -1,2 +1,2 @@", " 1", "-2", "+3"),
        *("--- a/gone", "+++ /dev/null", "@@ -1 +0,0 @@", "-x", "--- /dev/null", "+++ b/new", "@@ -0,0 +1 @@", "+y"),
    ]
    assert render.difference({"a": "1\n"}, {"a": "1\n"}) == []


def test_a_program_is_kept_as_a_text() -> None:
    assert render.as_file("#!/bin/sh\nexit") == f"{render.PROGRAM}\n#!/bin/sh\nexit\n"
    assert render.as_file("a=1\n") == "a=1\n"


TEXT = '''"""Text."""
VALUES = (
    1,
    2,
)


def first(value):
    """Return something."""
    # a comment
    if value:
        return 1
    return {
        "a": 1,
        "b": value,
    }
'''


def test_a_line_counts_as_executed_with_its_statement_alone() -> None:
    without_branch = executed.settled(TEXT, {1, 2, 8, 11, 13, 14, 15})
    assert 12 not in without_branch and {3, 4, 10, 13, 15} <= without_branch
    assert 14 not in executed.settled(TEXT, {1, 2, 8, 11, 12})


def test_mutants_leave_docstrings_and_types_alone(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text('"""Text."""\n\n\ndef first(value: "int") -> "int":\n    """Text."""\n    return value + 1 if value == "a" else 0\n')
    kinds = [mutant.kind for mutant in mutate.mutants_of(path)]
    assert sorted(kinds) == ["Compare", "Constant", "Constant", "Constant", "IfExp", "Return"]
    for mutant in mutate.mutants_of(path):
        assert mutant.span == range(4, 7)
        assert ast.dump(mutate.changed(mutant)) != ast.dump(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "text", [r"{{ 'a\nb' }}", r"{{ 'a.b' | regex_replace('\.', '-') }}", r"{% set x = 'a\nb' %}{{ x }}", r"a\n{{ 1 }}\t", r"{{- 'x\\y' -}}"]
)
def test_backslashes_mean_what_they_mean_to_ansible(text: str) -> None:
    template = importlib.import_module("ansible.template")
    if not hasattr(template, "trust_as_template"):
        pytest.skip("because golden files are made with a newer ansible-core")
    wanted = template.Templar(loader=None).template(template.trust_as_template(text))
    assert importlib.import_module("templating").Environment().resolve(text, {}) == wanted
