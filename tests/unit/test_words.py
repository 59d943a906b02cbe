# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Words that docs/contributing.md replaces by usual ones: no area may have more of them than it has now."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

# "Where there is none" is usual English, and so is whatever stands in code, such as the user `nobody`.
WORDS = re.compile(r"\b(?:tells?|telling|told|shall|anew|nobody|somebody|(?<!there )is none)\b", re.IGNORECASE)
CODE = re.compile(r"``.+?``|`.+?`|\b[A-Z]\([^)]*\)", re.DOTALL)

DOCUMENTED = ("short_description", "description", "notes")
TASKS = ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")

Texts = t.Iterator[t.Tuple[str, str]]


def words(text: str) -> list[str]:
    return [word.lower() for word in WORDS.findall(CODE.sub("", text))]


def below(node: t.Any, keys: tuple[str, ...]) -> t.Iterator[str]:
    """All texts that stand below one of the keys, in a list or not, at any depth of a document."""
    if isinstance(node, dict):
        for key, value in node.items():
            for text in value if isinstance(value, list) else [value]:
                if key in keys and isinstance(text, str):
                    yield text
            yield from below(value, keys)
    elif isinstance(node, list):
        for entry in node:
            yield from below(entry, keys)


def names(tasks: t.Any) -> t.Iterator[str]:
    """Names of plays and tasks, those inside of blocks too; not those of a package or a user that a task is about."""
    for task in tasks if isinstance(tasks, list) else []:
        yield str(task.get("name", ""))
        for part in TASKS:
            yield from names(task.get(part))


def task_names() -> Texts:
    for path in [*sorted(ROOT.glob("roles/*/tasks/**/*.yml")), *sorted(ROOT.glob("playbooks/*.yml"))]:
        for name in names(yaml.safe_load(path.read_text(encoding="utf-8"))):
            yield str(path.relative_to(ROOT)), name


def documentation() -> Texts:
    """Of modules, filters and roles."""
    for path in sorted(ROOT.glob("plugins/modules/*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("DOCUMENTATION", "RETURN"):
                for text in below(yaml.safe_load(ast.literal_eval(node.value)), DOCUMENTED):
                    yield str(path.relative_to(ROOT)), text
    for path in [*sorted(ROOT.glob("plugins/filter/*.yml")), *sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))]:
        for text in below(yaml.safe_load(path.read_text(encoding="utf-8")), DOCUMENTED):
            yield str(path.relative_to(ROOT)), text


def documents() -> Texts:
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        for line in path.read_text(encoding="utf-8").splitlines():
            yield str(path.relative_to(ROOT)), line


def fragments() -> Texts:
    for path in sorted(ROOT.glob("changelogs/fragments/*.yml")):
        for entries in yaml.safe_load(path.read_text(encoding="utf-8")).values():
            for entry in entries:
                yield str(path.relative_to(ROOT)), entry


# How many there are. Who rewords one lowers the number; it is never raised: a new text uses the words of docs/contributing.md.
AREAS = {
    task_names: 7,
    documentation: 101,
    documents: 0,
    fragments: 0,
}


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.__name__)
def test_no_area_has_more_of_these_words(area: t.Callable[[], Texts]) -> None:
    texts = list(area())
    assert texts, "nothing was read"
    found = [f"{path}: {word}: {text}" for path, text in texts for word in words(text)]
    assert len(found) <= AREAS[area], "\n".join(["one of these is new; docs/contributing.md has the words to use:", *found])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A reboot is told, then told again.", ["told", "told"]),
        ("Tell which files there shall be", ["tell", "shall"]),
        ("Nobody reads what somebody wrote anew.", ["nobody", "somebody", "anew"]),
        ("The limit -3 is none", ["is none"]),
        ("installed where there is none", []),
        ("the user C(nobody), `somebody` and ``told``", []),
        ("a shallow, untold story", []),
    ],
)
def test_words_are_found(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_names_of_tasks_are_found_in_blocks() -> None:
    assert list(names([{"name": "a", "block": [{"name": "b", "apt": {"name": "c"}}], "rescue": [{"name": "d"}]}])) == ["a", "b", "d"]


def test_descriptions_are_found_at_any_depth() -> None:
    tree = {"options": {"a": {"description": ["one", "two"], "suboptions": {"b": {"description": "three"}}, "default": ["four"]}}}
    assert list(below(tree, DOCUMENTED)) == ["one", "two", "three"]
