"""What a scenario of Molecule depends on: its files, and all that these name.

The names are followed to the end.
A file names another one by its path, by its name in the collection (deephdc.accelerators.NAME) or by an import.
What stands in a comment or a docstring does not count. What is found is rather too much than too little.
One thing is left out: Ansible imports every file of filters when it looks for one.
Whether all of them can be imported is what unit tests show.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import subprocess
import tokenize
import typing as t
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

import yaml

# What every scenario uses.
SHARED = (
    "extensions/molecule/config.yml",
    "extensions/molecule/default",
    "scripts/scenario",
    "tests/verify/conftest.py",
)
# The same, not searched for names: they list files that they are not about.
PINS = (
    "ansible.cfg",
    "constraints.txt",
    "images/entrypoint",
    "images/zip_bytecode.py",
    "meta/runtime.yml",
    "pyproject.toml",
    "requirements-dev.txt",
    "requirements.yml",
    "scripts/collections",
    "scripts/image",
    "scripts/toolchain",
    "tests/unit/requirements.txt",
)
# What runs the scenarios, or something else, and what only people read: none of it decides on a result.
NO_INPUT = re.compile(
    r".*\.md|Makefile|\.ci/.*|plugins/filter/\w+\.yml|tests/(?:compat|galaxy|passes|quick_start|runner|verify/refusals)\b.*"
    r"|scripts/(?:bench|callbacks/.*|checks\.py|demo|down|inputs\.py|lint|passes\.py|reference|release|step|steps\.py|tarball|test|usage\.py)"
)
# A path of one of these folders as a whole says nothing about what in it is used.
TOO_WIDE = (
    "extensions/molecule",
    "plugins/filter",
    "plugins/module_utils",
    "plugins/modules",
    "plugins/plugin_utils",
    "tests/stand_ins",
    "tests/unit",
    "tests/verify",
)

# What only people read inside of other files.
DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN")
DESCRIBED = re.compile(r"roles/\w+/meta/\w+\.yml")
DESCRIPTIONS = ("description", "short_description")

COLLECTION = "ansible_collections.deephdc.accelerators"
COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
COLLECTION_NAME = re.compile(r"deephdc\.accelerators\.(\w+)")
PLAYBOOKS = re.compile(r"tosca_site_playbooks:(.*?)(?=^ +\w+:)", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)+|[\w-]+\.(?:ya?ml|py|mjs|sh)\b")


def strings(python: ast.AST) -> str:
    """The texts in a Python program, one a line, without its docstrings."""
    documented = (node for node in ast.walk(python) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)))
    docstrings = {id(node.body[0].value) for node in documented if node.body and isinstance(node.body[0], ast.Expr)}
    constants = (node for node in ast.walk(python) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return "\n".join(node.value for node in constants if isinstance(node.value, str))


def imported(python: ast.AST) -> Iterator[str]:
    """Yield the paths of imported modules and of each imported name, without a suffix.

    An imported name may be a module as well.
    """
    for node in ast.walk(python):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name.removeprefix(f"{COLLECTION}.").strip(".").replace(".", "/") for name in names)


class Tree:
    """The files of a working tree that git tracks or would track."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
        listed = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
        self.files = sorted(name for name in listed if name and (root / name).is_file() and not NO_INPUT.fullmatch(name))
        self._known = set(self.files)
        self._named: dict[str, set[str]] = {}

    def below(self, folder: str) -> list[str]:
        return [name for name in self.files if name.startswith(f"{folder}/")]

    def at(self, path: str) -> list[str]:
        """The file of this path, or all files of the folder."""
        if path in self._known:
            return [path]
        return [] if "/" not in path or path in TOO_WIDE else self.below(path)

    @cached_property
    def _of_the_collection(self) -> dict[str, list[str]]:
        """Map each name in the collection to its files.

        Names are those of roles, playbooks, plugins, and filters, which share files.
        """
        found: dict[str, list[str]] = {}
        for name in self.files:
            path = PurePosixPath(name)
            if path.parts[0] == "roles":
                found.setdefault(path.parts[1], []).append(name)
            elif path.parts[0] in ("playbooks", "plugins"):
                found.setdefault(path.stem, []).append(name)
            if name.startswith("plugins/filter/") and path.suffix == ".py":
                for word in re.findall(r'"(\w+)": as_filter', self._text(name)):
                    found.setdefault(word, []).append(name)
        return found

    def _text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def named_by(self, name: str) -> set[str]:
        """The files that a file names."""
        if name not in self._named:
            self._named[name] = set(self._find_named(name))
        return self._named[name]

    def _find_named(self, name: str) -> Iterator[str]:
        text, path = self._text(name), PurePosixPath(name)
        folder = path.parent
        if name.endswith(".py") or text.startswith("#!/usr/bin/env python3"):
            python = ast.parse(text, filename=name)
            text = strings(python)
            for word in imported(python):
                places = (".", folder, folder.parent, "scripts")
                yield from (file for file in (os.path.normpath(f"{place}/{word}.py") for place in places) if file in self._known)
        else:
            text = COMMENT.sub("", text)
        for word in COLLECTION_NAME.findall(text):
            yield from self._of_the_collection.get(word, ())
        for word in PATH.findall(text):
            parts = [part for part in word.split("/") if part not in ("", ".", "..")]
            yield from self.at(os.path.normpath(folder / word.lstrip("/")))
            # What comes before may be a variable.
            for begin in range(len(parts)):
                yield from self.at("/".join(parts[begin:]))
        # What a program of several files is made of.
        if name.startswith("tests/stand_ins/") and str(folder) != "tests/stand_ins":
            yield from self.below(str(folder))
        # An artifact has the names of playbooks alone.
        if name.startswith("tosca/artifacts/"):
            for value in PLAYBOOKS.findall(text):
                yield from (file for word in re.findall(r"\w+", value) for file in self.at(f"playbooks/{word}.yml"))
        # A scenario that takes another one's playbooks has its hosts, too (scripts/scenario).
        if name.startswith("extensions/molecule/") and path.name == "converge.yml":
            yield from self.below(f"{folder}/inventory")

    def words(self, files: Iterable[str], pattern: str) -> set[str]:
        """What a pattern finds in files."""
        return {word for name in files for word in re.findall(pattern, self._text(name))}

    def followed(self, seeds: Iterable[str], without: set[str]) -> set[str]:
        left, found = list(seeds), set(without)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left.extend(self.named_by(name))
        return found - without


def inputs(tree: Tree, scenario: str, release: str, without: Iterable[str] = ()) -> list[str]:
    """Return the files that decide whether a scenario passes on a release.

    ``without`` are tests that only another release runs.
    """
    seeds = [*tree.below(f"extensions/molecule/{scenario}"), *tree.below(f"tests/verify/{scenario}")]
    seeds += [file for path in SHARED for file in tree.at(path)]
    recipes = {name for name in tree.below("images") if re.fullmatch(r"images/\w+\.yml", name)}
    # Some hosts have the same release in every run.
    releases = {release, *tree.words(seeds, r"local_release: (\w+)")}
    pins = {file for path in (*PINS, *(f"images/{name}.yml" for name in releases)) for file in tree.at(path)}
    elsewhere = {f"tests/verify/{name}" for name in without}
    return sorted(tree.followed(seeds, recipes | pins | elsewhere) | pins)


class Loader(yaml.CSafeLoader):
    """Reads tags such as !vault, too."""


def tagged(loader: t.Any, tag: str, node: yaml.Node) -> list[t.Any]:
    if isinstance(node, yaml.MappingNode):
        return [tag, loader.construct_mapping(node, deep=True)]
    return [tag, loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else loader.construct_scalar(node)]


Loader.add_multi_constructor("!", tagged)


def without_descriptions(tree: t.Any) -> t.Any:
    """The same without the descriptions of roles and options.

    An option of that name has settings and stays.
    """
    if isinstance(tree, list):
        return [without_descriptions(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: without_descriptions(value) for key, value in tree.items() if key not in DESCRIPTIONS or isinstance(value, dict)}


def yaml_alone(text: str, is_described: bool) -> str:
    """What a YAML file says to a program: no comments, no line breaks."""
    documents = list(yaml.load_all(text, Loader))
    return json.dumps(without_descriptions(documents) if is_described else documents, default=str)


def python_alone(text: str) -> str:
    """Return a Python program without comments, docstrings and blank lines.

    The documentation of modules is left out, too.
    """
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        drops = []
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            drops.append(node.body[0])
        if isinstance(node, ast.Module):
            drops += [one for one in node.body if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") in DOCUMENTATION]
        for one in drops:
            dropped.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column]
    kept = (line.rstrip() for number, line in enumerate(lines, 1) if number not in dropped)
    return "\n".join(line for line in kept if line)


def content(name: str, raw: bytes) -> bytes:
    """What in a file decides on a result: words for people do not.

    Raw where a file can't be parsed.
    """
    is_python = name.endswith(".py") or raw.startswith(b"#!/usr/bin/env python3")
    try:
        if is_python:
            return python_alone(raw.decode()).encode()
        if name.endswith((".yml", ".yaml")):
            return yaml_alone(raw.decode(), bool(DESCRIBED.fullmatch(name))).encode()
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError, yaml.YAMLError):
        pass
    return raw


def digest(tree: Tree, files: Iterable[str]) -> str:
    """Equal for equal names, contents and rights to execute.

    Comments and documentation are no content: see content().
    """
    whole = hashlib.sha256()
    for name in files:
        path = tree.root / name
        decides = hashlib.sha256(content(name, path.read_bytes())).hexdigest()
        whole.update(f"{name} {path.stat().st_mode & 0o100:o} {decides}\n".encode())
    return whole.hexdigest()[:32]
