# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Words that docs/contributing.md replaces by usual ones: no area may have more of them than it has now."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import typing as t
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

# "Where there is none" is usual English, and "is None" is Python. Code does not count: the user `nobody`, a key like `result.told`.
WORDS = re.compile(r"\b(?:(?i:tells?|telling|told|shall|anew|nobody|somebody)|(?<![Tt]here )is none)\b")
CODE = re.compile(r"``.+?``|`.+?`|\b[A-Z]\([^)]*\)|(?<=\w)\.\w+", re.DOTALL)

DOCUMENTED = ("short_description", "description", "notes")
MESSAGES = ("msg", "fail_msg", "success_msg")
TASKS = ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")
# Folders with comments and docstrings, and those whose messages an operator or a user reads.
COMMENTED = ("images", "inventories", "molecule", "playbooks", "plugins", "roles", "scripts", "tests", "tosca")
SHIPPED = ("playbooks", "plugins", "roles")
# ansible-test writes there.
UNTRACKED = ("__pycache__", "output")

# Texts that are not the collection's own English, by file: names of accounts and words of other programs.
QUOTED = {
    "plugins/module_utils/_iam/names.py": ("www-data backup list irc gnats nobody",),
    "plugins/modules/munge_trust.py": ("--uid=nobody",),
    "plugins/plugin_utils/_oidc/conf.py": ("ServerName nobody.invalid",),
    "plugins/plugin_utils/_mesos/settings.py": ("such as [nobody]",),
}

Texts = t.Iterator[t.Tuple[str, str]]


class Kinds(t.NamedTuple):
    """The prose in a file."""

    comments: list[str]
    docstrings: list[str]
    messages: list[str]


def words(text: str) -> list[str]:
    return [word.lower() for word in WORDS.findall(CODE.sub("", text))]


def in_python(text: str) -> Kinds:
    """Messages are strings of several words. The documentation of a module, with its examples, does not count here: see documentation()."""
    tree = ast.parse(text)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    docstrings, other = [], set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                docstrings.append(first.value.value)
                other.add(id(first.value))
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("DOCUMENTATION", "EXAMPLES", "RETURN"):
            other.add(id(node.value))
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in other]
    return Kinds(comments, docstrings, [node.value for node in strings if " " in node.value.strip()])


def in_yaml(text: str) -> Kinds:
    """A sign of a comment inside of a text, such as a file that a task writes, begins no comment."""
    inside = set()
    for token in yaml.scan(text, Loader=getattr(yaml, "CLoader", yaml.Loader)):
        if isinstance(token, yaml.ScalarToken) and token.end_mark.line > token.start_mark.line:
            inside.update(range(token.start_mark.line + 1, token.end_mark.line + bool(token.end_mark.column)))
    lines = [line for number, line in enumerate(text.splitlines()) if number not in inside]
    return Kinds(in_shell("\n".join(lines)).comments, [], [])


def in_shell(text: str) -> Kinds:
    return Kinds([comment for line in text.splitlines() for comment in re.findall(r"(?:^|(?<=\s))#(?!!).*$", line)], [], [])


@lru_cache(maxsize=None)
def read(path: Path) -> Kinds:
    """The prose in a file, nothing for a template, data or another language."""
    if path.suffix not in (".py", ".yml", ".sh", ""):
        return Kinds([], [], [])
    text = path.read_text(encoding="utf-8", errors="replace")
    first = text.partition("\n")[0]
    if path.suffix == ".py" or (first.startswith("#!") and "python" in first):
        return in_python(text)
    if path.suffix == ".yml":
        return in_yaml(text)
    return in_shell(text) if first.startswith("#!") and first.endswith("sh") else Kinds([], [], [])


def without_quoted(path: Path, text: str) -> str:
    for quoted in QUOTED.get(str(path.relative_to(ROOT)), ()):
        text = text.replace(quoted, "")
    return text


def files(folders: tuple[str, ...]) -> t.Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            # This file has each of the words.
            if path.is_file() and not path.is_symlink() and not set(path.parts) & set(UNTRACKED) and path.name != "test_words.py":
                yield path


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


def release_notes() -> Texts:
    """Of the next release, and of those that there were."""
    for path in sorted(ROOT.glob("changelogs/fragments/*.yml")):
        for entries in yaml.safe_load(path.read_text(encoding="utf-8")).values():
            for entry in entries:
                yield str(path.relative_to(ROOT)), entry
    log = ROOT / "changelogs/changelog.yaml"
    if log.exists():
        for release in yaml.safe_load(log.read_text(encoding="utf-8"))["releases"].values():
            for entries in release["changes"].values():
                for entry in entries:
                    yield str(log.relative_to(ROOT)), entry


def comments() -> Texts:
    for path in files(COMMENTED):
        for text in read(path).comments:
            yield str(path.relative_to(ROOT)), text


def docstrings() -> Texts:
    for path in files(COMMENTED):
        for text in read(path).docstrings:
            yield str(path.relative_to(ROOT)), text


def messages() -> Texts:
    """Of programs that are shipped, and of tasks."""
    for path in files(SHIPPED):
        for text in read(path).messages:
            yield str(path.relative_to(ROOT)), without_quoted(path, text)
        if path.suffix == ".yml" and path.parent.name == "tasks":
            for text in below(yaml.safe_load(path.read_text(encoding="utf-8")), MESSAGES):
                yield str(path.relative_to(ROOT)), without_quoted(path, text)


# How many there are. Who rewords one lowers the number; it is never raised: a new text uses the words of docs/contributing.md.
AREAS = {
    task_names: 0,
    documentation: 0,
    documents: 0,
    release_notes: 0,
    comments: 11,
    docstrings: 2,
    messages: 20,
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
        ("a key that is None, and result.told", []),
        ("There is none where the run ended early.", []),
    ],
)
def test_words_are_found(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_names_of_tasks_are_found_in_blocks() -> None:
    assert list(names([{"name": "a", "block": [{"name": "b", "apt": {"name": "c"}}], "rescue": [{"name": "d"}]}])) == ["a", "b", "d"]


def test_descriptions_are_found_at_any_depth() -> None:
    tree = {"options": {"a": {"description": ["one", "two"], "suboptions": {"b": {"description": "three"}}, "default": ["four"]}}}
    assert list(below(tree, DOCUMENTED)) == ["one", "two", "three"]


def test_prose_in_python() -> None:
    text = '''"""First."""
# A comment.
DOCUMENTATION = "description: A module's own."
def name():
    """Second."""
    return ["a_key", f"{name} is wrong", "# no comment"]  # Another one.
'''
    assert in_python(text) == Kinds(["# A comment.", "# Another one."], ["First.", "Second."], ["# no comment", " is wrong"])


def test_comments_in_yaml() -> None:
    text = "# One.\n- copy:\n    content: |\n      # A file's.\n      word\n    dest: /a#b  # Two.\n# Three.\n"
    assert in_yaml(text).comments == ["# One.", "# Two.", "# Three."]


def test_comments_in_a_shell_script() -> None:
    assert in_shell("#!/bin/sh\n# One.\necho $#  # Two.\n").comments == ["# One.", "# Two."]


@pytest.mark.parametrize(
    ("area", "name", "text"),
    [
        (task_names, "roles/a/tasks/main.yml", "- name: Say it to somebody\n"),
        (comments, "roles/a/tasks/main.yml", "# As somebody wants it.\n- name: Do it\n"),
        (comments, "scripts/a", "#!/usr/bin/env bash\n# As somebody wants it.\n"),
        (docstrings, "scripts/a", '#!/usr/bin/env python3\n"""As somebody wants it."""\n'),
        (messages, "plugins/a.py", 'raise ValueError("as somebody wants it")\n'),
        (messages, "roles/a/tasks/main.yml", "- name: Do it\n  fail:\n    msg: somebody else's\n"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_new_word_fails(area: t.Callable[[], Texts], name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(AREAS, area, 0)
    with pytest.raises(AssertionError, match="somebody"):
        test_no_area_has_more_of_these_words(area)
