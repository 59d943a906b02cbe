"""What in a file decides on a result, without what people read alone.

Left out: comments, docstrings, documentation of plugins, descriptions of roles and options, authors and platforms, owner lines of tests;
and, where no test on a real system quotes them, names of tasks and the sentences of errors and findings.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import typing as t
from functools import cache
from pathlib import Path

import moves
import yaml
from memory import blob, remembered

ROOT = Path(__file__).resolve().parent.parent
CONSTANTS = ("DOCUMENTATION", "EXAMPLES", "RETURN", "OWNS", "LEAVES")
DESCRIPTIONS = ("description", "short_description")
TASKS = re.compile(r"roles/\w+/tasks/.*|playbooks/.*")
META = re.compile(r"roles/\w+/meta/(?!main)\w+\.yml")
SAYS = ("Finding", "ValueError", "error", "fail_json", "AnsibleFilterError", "Refused", "Unreadable")
# As a sentence ends: configuration and commands don't.
SENTENCE = re.compile(r"^[^\n=]*(\s+\S+){5}[\w)'\"]\.$")
QUOTE = 3  # words in a row that a test has, too


def is_python(name: str, text: str) -> bool:
    return name.endswith(".py") or text.startswith("#!/usr/bin/env python3")


def runs(text: str, length: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def chunks(node: ast.AST) -> list[str]:
    """The literal texts of a string, between what an f-string puts in."""
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


@cache
def quoted() -> frozenset[tuple[str, ...]]:
    """The words that strings of tests on real systems have.

    Three in a row, or two that are all of it.
    """
    found: set[tuple[str, ...]] = set()
    for file in (*ROOT.glob("tests/verify/**/*.py"), *ROOT.glob("tests/tosca/*.py")):
        if "refusals" not in file.parts:  # which always run
            for text in chunks(ast.parse(file.read_text(encoding="utf-8"))):
                found |= runs(text, QUOTE) or runs(text, 2)
    return frozenset(found)


def is_quoted(*texts: str) -> bool:
    """Whether a test may look for one of these texts.

    What is too short to decide counts.
    """
    long = [text for text in texts if runs(text, 2)]
    return not long or any(quoted() & (runs(text, QUOTE) | runs(text, 2)) for text in long)


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


def without_names(tree: t.Any) -> t.Any:
    """Tasks and plays without names and sentences that no test quotes."""
    if isinstance(tree, list):
        return [without_names(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    found = {}
    for key, value in tree.items():
        if key in ("name", "fail_msg", "msg") and isinstance(value, str) and not is_quoted(*re.split(r"{{.*?}}", value, flags=re.DOTALL)):
            # A module's argument of that name is one word in most cases, which counts.
            value = re.findall(r"{{.*?}}", value, flags=re.DOTALL)
        found[key] = without_names(value)
    return found


def yaml_alone(name: str, text: str) -> str:
    documents = list(yaml.load_all(text, Loader))
    if META.fullmatch(name):
        documents = [without_descriptions(one) for one in documents]
    elif TASKS.fullmatch(name):
        documents = [without_names(one) for one in documents]
    elif name.endswith("meta/main.yml"):
        documents = [{key: value for key, value in one.items() if key != "galaxy_info"} for one in documents]
    return json.dumps(documents, default=str)


class Silent(ast.NodeTransformer):
    """Removes documentation, and what a sentence says but not what it is made of."""

    def visit_body(self, node: t.Any) -> t.Any:
        body = node.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
            body = body[1:]
        node.body = [one for one in body if not (isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") in CONSTANTS)]
        return self.generic_visit(node)

    visit_Module = visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = visit_body

    def visit_Call(self, node: ast.Call) -> t.Any:
        if getattr(node.func, "id", getattr(node.func, "attr", "")) in SAYS:
            node.args = [self.silent(one, said=True) for one in node.args]
            for word in node.keywords:
                word.value = self.silent(word.value, said=True)
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> t.Any:
        return self.silent(node)

    def visit_Constant(self, node: ast.Constant) -> t.Any:
        return self.silent(node)

    def silent(self, node: t.Any, said: bool = False) -> t.Any:
        """Replace a sentence that no test quotes by the values in it."""
        texts = chunks(node) if isinstance(node, (ast.JoinedStr, ast.Constant)) else []
        if not texts or is_quoted(*texts) or not (said or SENTENCE.search(" ".join(texts))):
            return node
        values = [one.value for one in node.values if isinstance(one, ast.FormattedValue)] if isinstance(node, ast.JoinedStr) else []
        return ast.Tuple(sorted(values, key=ast.dump), ast.Load())


def python_alone(text: str) -> str:
    """Return a Python program without comments, layout, documentation and sentences."""
    first = text.split("\n", 1)[0] if text.startswith("#!") else ""
    return f"{first}\n{ast.dump(Silent().visit(ast.parse(text)))}"


@cache  # as it is compared with many commits, in which most files are the same
def content(name: str, text: str) -> str:
    """What in a file decides on a result; all of it where it can't be parsed."""
    try:
        if is_python(name, text):
            return python_alone(text)
        if name.endswith((".yml", ".yaml")):
            return yaml_alone(name, text)
    except (ValueError, TypeError, SyntaxError, AttributeError, yaml.YAMLError):
        pass
    return text


@cache
def version() -> str:
    """Return what else decides on a content: these programs, and what tests quote."""
    programs = [Path(file).read_text() for file in (__file__, moves.__file__)]
    return hashlib.sha256(repr((programs, sorted(quoted()))).encode()).hexdigest()[:16]


def digest(name: str, of: str, text: t.Callable[[], str]) -> str:
    """Return a digest of the content of a file, whose blob is called so."""

    def make() -> str:
        return hashlib.sha256(content(name, moves.settled(name, text())).encode()).hexdigest()[:16]

    return str(remembered(f"words {version()} {name} {of}", make))


def blob_of(file: Path) -> str:
    return blob(file.read_bytes())
