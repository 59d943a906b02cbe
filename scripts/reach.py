"""Which files can reach a test: those that its own files name, to the end.

What a changed file reaches goes stale, it is not due.

A file names another one by its path, by its name in the collection (deephdc.accelerators.NAME) or by an import.
What people read alone (words.py) does not count.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from memory import remembered
from words import blob_of, content, is_python, version

# What every cluster uses. It is not searched for names: these files list others that they are not about.
SHARED = re.compile(
    r"\.config/molecule/.*|molecule/shared/.*|images/.*|tests/verify/(?:conftest|fingerprint|local)\.py|tests/verify/host_state"
    r"|ansible\.cfg|constraints\.txt|meta/runtime\.yml|requirements-dev\.txt|requirements\.yml"
    r"|scripts/(?:collections|engine|image|local-\w+|scenario|toolchain)"
)
# What is tested in each run, and what only people read.
NO_CODE = re.compile(
    r".*\.md|\.(?!config/molecule/).*|LICENSE|CHANGELOG\.rst|Makefile|galaxy\.yml|pyproject\.toml|MAINTAINERS.*|(?:docs|changelogs)/.*|plugins/filter/\w+\.yml"
    r"|plugins/doc_fragments/.*|meta/execution-environment\.yml"
    r"|tests/(?:compat|data|nova_lxd|config\.yml|galaxy|golden|passed\.json|quick_start|real_mesos|runner|sanity|unit|verify/refusals)\b.*"
    r"|scripts/(?!collections|demo|down|end-processes|engine|image|local-|packages|scenario|toolchain|virtual-).*"
)
# A path of one of these folders as a whole says nothing about what in it is used.
TOO_WIDE = re.compile(r"plugins/\w+|tests/(?:stand_ins|unit|verify)")
COLLECTION = "ansible_collections.deephdc.accelerators"
COLLECTION_NAME = re.compile(r"deephdc\.accelerators\.(\w+)")
PLAYBOOKS = re.compile(r'"tosca_site_playbooks": ?"?(.*?)"?[,}]')
# What is only read, and runs nothing that it names.
DATA = r"roles/\w+/meta/.*|.*\.md|scripts/.*"
GLOB = re.compile(r"glob\(f?['\"]([^'\"]*/[^'\"]*)['\"]")
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)+|[\w-]+\.(?:ya?ml|py|mjs|sh)\b")


def listed(root: Path) -> list[str]:
    """The files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    names = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    return sorted(name for name in names if name and (root / name).is_file())


def imported(python: ast.AST) -> Iterator[str]:
    """Yield the paths of imported modules and of each imported name.

    A name may be a module as well. A path has no suffix.
    """
    for node in ast.walk(python):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = [*module, *(".".join([*filter(None, module), alias.name]) for alias in node.names)]
            yield from (name.removeprefix(f"{COLLECTION}.").strip(".").replace(".", "/") for name in names)


OWN_VERSION = blob_of(Path(__file__))


def mentions(name: str, raw: str) -> dict[str, list[str]]:
    """Return what in a file may be the name of another one."""
    text = content(name, raw)
    try:
        imports = list(imported(ast.parse(raw, filename=name))) if is_python(name, raw) else []
    except SyntaxError:  # data of a test
        imports = []
    return {
        "imports": imports,
        "names": COLLECTION_NAME.findall(text),
        "paths": sorted(set(PATH.findall(text))),
        "globs": [re.sub("{.*?}", "*", word) for word in GLOB.findall(text)],
        "playbooks": PLAYBOOKS.findall(text) if name.startswith("tosca/artifacts/") else [],
    }


class Tree:
    """The code of a working tree, or all files."""

    def __init__(self, root: Path, everything: bool = False) -> None:
        self.root, self.everything, self.shared = root, everything, re.compile(DATA) if everything else SHARED
        self.files = [name for name in listed(root) if everything or not NO_CODE.fullmatch(name)]
        self._known = set(self.files)
        self._named: dict[str, set[str]] = {}
        self._below: dict[str, list[str]] = {}
        for name in self.files:
            for folder in PurePosixPath(name).parents:
                self._below.setdefault(str(folder), []).append(name)

    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def below(self, folder: str) -> list[str]:
        return self._below.get(folder, [])

    def at(self, path: str) -> list[str]:
        """The file of this path, or all files of the folder."""
        if path in self._known:
            return [path]
        return [] if "/" not in path or TOO_WIDE.fullmatch(path) else self.below(path)

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
            if name.startswith("plugins/filter/"):
                for word in re.findall(r'"(\w+)": as_filter', self.text(name)):
                    found.setdefault(word, []).append(name)
        return found

    def named_by(self, name: str) -> set[str]:
        """Return the files that a file names."""
        if name not in self._named:
            self._named[name] = set() if self.shared.fullmatch(name) else set(self._find_named(name))
        return self._named[name]

    def _find_named(self, name: str) -> Iterator[str]:
        folder = PurePosixPath(name).parent
        key = f"mentions {version()} {OWN_VERSION} {name} {blob_of(self.root / name)}"
        found = remembered(key, lambda: mentions(name, self.text(name)))
        for word in found["imports"]:
            paths = (os.path.normpath(f"{place}/{word}.py") for place in (".", folder, folder.parent, "scripts"))
            yield from (file for file in paths if file in self._known)
        for word in found["names"]:
            yield from self._of_the_collection.get(word, ())
        for word in found["paths"]:
            parts = [part for part in word.split("/") if part not in ("", ".", "..")]
            yield from self.at(os.path.normpath(folder / word.lstrip("/")))
            for begin in range(len(parts)):  # what comes before may be a variable
                yield from self.at("/".join(parts[begin:]))
        for pattern in found["globs"] if self.everything else ():
            yield from fnmatch.filter(self.files, f"*/{pattern}")
        # What a program of several files is made of; an artifact has the names of playbooks alone.
        if name.startswith("tests/stand_ins/") and str(folder) != "tests/stand_ins":
            yield from self.below(str(folder))
        for value in found["playbooks"]:
            yield from (file for word in re.findall(r"\w+", value) for file in self.at(f"playbooks/{word}.yml"))
        if name.startswith("molecule/") and name.endswith("/converge.yml"):
            yield from self.below(f"{folder}/inventory")

    def reached(self, seeds: Iterable[str]) -> set[str]:
        """Return the seeds, what they name, and what every cluster uses."""
        left, found = list(seeds), set() if self.everything else {name for name in self.files if self.shared.fullmatch(name)}
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left.extend(self.named_by(name))
        return found
