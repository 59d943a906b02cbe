#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Count how many wrong changes of a manager's code golden configuration notices.

usage: mutate.py MANAGER [--number N] [--missed]      run by hand; it takes minutes

Each mutant is one change: a comparison turned round, a constant, "and" for "or", a condition negated, or None returned.
It counts as noticed if a golden file would differ. A mutant runs in its own process.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.abc
import importlib.util
import io
import os
import pathlib
import random
import signal
import sys
import types
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".collections"))
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _managers

import cases
import plans
import render
import scopes
from templating import PLUGINS, ROOT, collection_filters
from tracing import Lines, traced
from walk import Walk

SEED = 20261127
SECONDS = 60
# What writes no configuration: it compares, reports, or serves what operators do later.
LEFT_OUT = {
    "kubernetes": {"certificates", "drift", "events", "nodes", "operations", "policy_changes", "upgrade"},
    "mesos": {"drift", "operations"},
    "opennebula": set(),
    "openstack": {"operations"},
    "slurm": {"controllers", "drift", "iam_users"},
}
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Mutant(t.NamedTuple):
    """A place in a file: its number among all nodes of the syntax tree.

    The span is that of its function; outside of functions it has none.
    """

    path: pathlib.Path
    number: int
    line: int
    kind: str
    span: range | None


class Call(t.NamedTuple):
    """A filter as a role called it in the walk of a site."""

    site: str
    name: str
    args: tuple[t.Any, ...]
    kwargs: dict[str, t.Any]


def not_code(tree: ast.Module) -> set[int]:
    """Return the nodes that change nothing when the code runs: docstrings and types."""
    found: set[int] = set()
    for node in ast.walk(tree):
        hints: list[ast.AST | None] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hints.append(node.value)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            hints.append(node.returns)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            hints.append(node.annotation)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cast":
            hints.append(node.args[0])
        found |= {id(part) for hint in hints if hint is not None for part in ast.walk(hint)}
    return found


def mutants_of(path: pathlib.Path) -> list[Mutant]:
    """Return all places of a file that can be changed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ignored, found = not_code(tree), []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    spans = {
        id(part): range(node.lineno, (node.end_lineno or 0) + 1) for node in functions for line in node.body for part in ast.walk(line)
    }
    for number, node in enumerate(ast.walk(tree)):
        is_constant = isinstance(node, ast.Constant) and type(node.value) in (int, str) and node.value != ""
        if id(node) not in ignored and (is_constant or isinstance(node, (ast.Compare, ast.BoolOp, ast.If, ast.IfExp, ast.Return))):
            found.append(Mutant(path, number, getattr(node, "lineno", 0), type(node).__name__, spans.get(id(node))))
    return found


def changed(mutant: Mutant) -> ast.Module:
    """Return the syntax tree of a file with one change."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.number)
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1 if isinstance(node.value, int) else str(node.value) + "X"
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return):
        node.value = ast.Constant(None)
    return ast.fix_missing_locations(tree)


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Give one module of the collection another text."""

    def __init__(self, mutant: Mutant) -> None:
        relative = mutant.path.relative_to(ROOT / "plugins").with_suffix("")
        self.name, self.code = ".".join((PLUGINS, *relative.parts)), compile(changed(mutant), str(mutant.path), "exec")

    def find_spec(self, name: str, _path: t.Any, _target: t.Any = None) -> t.Any:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self.code, module.__dict__)


class Part(t.NamedTuple):
    """A piece of golden configuration: its text now, how to make it again, and which lines that runs."""

    text: str
    again: t.Callable[[], str]
    lines: Lines

    def runs(self, mutant: Mutant) -> bool:
        own = self.lines.get(str(mutant.path.relative_to(ROOT)), set())
        return mutant.span is None or any(line in own for line in mutant.span)


def part(again: t.Callable[[], str]) -> Part:
    with traced() as lines:
        text = again()
    return Part(text, again, lines)


class Golden:
    """What golden files have of one manager, and how to make it again."""

    def __init__(self, name: str) -> None:
        manager, engine, site = _managers.BY_NAME[name], scopes.engine(), ""
        usual, calls = scopes.Engine.call, list[Call]()
        walks: dict[str, Walk] = {}
        self.files: dict[str, render.Files] = {}

        def call(filter_name: str, args: tuple[t.Any, ...], kwargs: dict[str, t.Any]) -> t.Any:
            calls.append(Call(site, filter_name, args, kwargs))
            return engine.filters[filter_name](*args, **kwargs)

        scopes.Engine.call = staticmethod(call)  # type: ignore[assignment]
        for site, paths in render.sources().items():
            if render.read(paths).groups.get(manager.host_group):
                walks[site] = render.walked(site)
                self.files[site] = render.files_of(site, walks[site])
        scopes.Engine.call = usual  # type: ignore[method-assign]
        self.parts = [part(functools.partial(planned, name, plans.asked(walk, manager))) for walk in walks.values()]
        again = cases.answers(manager, cases.Sites())
        self.parts += [part(functools.partial(text_of, one)) for one in again.values()]
        # A call may give what no file has, so the files are made again where its answer is another one.
        self.calls = [(one, part(functools.partial(answer, one))) for one in calls]

    def notices(self, mutant: Mutant) -> bool:
        """Return whether a golden file differs with a mutant in use."""
        if any(one.runs(mutant) and one.again() != one.text for one in self.parts):
            return True
        differ = {one.site for one, before in self.calls if before.runs(mutant) and before.again() != before.text}
        return any(render.files_of(site, render.walked(site)) != self.files[site] for site in sorted(differ))


def planned(name: str, one: plans.Asked) -> str:
    return plans.as_text([plans.plan(name, one), plans.check(name, one)])


def text_of(one: t.Callable[[], t.Any]) -> str:
    return plans.as_text(one())


def answer(one: Call) -> str:
    try:
        return repr(scopes.engine().filters[one.name](*one.args, **one.kwargs))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def use(mutant: Mutant) -> None:
    """Import the collection again with a mutant in it."""
    sys.meta_path.insert(0, Importer(mutant))
    for name in [name for name in sys.modules if name.startswith((f"{PLUGINS}.plugin_utils._", f"{PLUGINS}.filter."))]:
        if name not in (f"{PLUGINS}.plugin_utils._managers", f"{PLUGINS}.plugin_utils._contract", f"{PLUGINS}.plugin_utils._filter"):
            del sys.modules[name]
    for name in [name for name in list(sys.modules) if name.startswith(f"{PLUGINS}.plugin_utils._")]:
        package, _dot, own = name.rpartition(".")
        setattr(sys.modules[package], own, sys.modules[name])
    scopes.engine().filters = collection_filters()


def is_noticed(golden: Golden, mutant: Mutant) -> bool:
    """Try a mutant in a process of its own."""
    if not any(one.runs(mutant) for one in [*golden.parts, *(before for _one, before in golden.calls)]):
        return False
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0
    signal.alarm(SECONDS)
    noticed = True
    try:
        sys.stdout = sys.stderr = io.StringIO()
        use(mutant)
        noticed = golden.notices(mutant)
    finally:
        # A traceback stops make golden as well.
        os._exit(int(noticed))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("manager", choices=sorted(LEFT_OUT))
    parser.add_argument("--number", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--missed", action="store_true", help="print those that no golden file notices")
    options = parser.parse_args()
    folder = ROOT / "plugins/plugin_utils" / f"_{options.manager}"
    paths = [path for path in sorted(folder.glob("*.py")) if path.stem not in LEFT_OUT[options.manager]]
    every = [mutant for path in paths for mutant in mutants_of(path)]
    chosen = sorted(random.Random(SEED).sample(every, min(options.number, len(every))))
    golden, seen = Golden(options.manager), 0
    files: dict[str, list[int]] = {}
    for mutant in chosen:
        noticed = is_noticed(golden, mutant)
        seen += noticed
        counted = files.setdefault(mutant.path.name, [0, 0])
        counted[0] += noticed
        counted[1] += 1
        if options.missed and not noticed:
            print(f"{mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.kind}", flush=True)
    for name, (noticed_there, number) in sorted(files.items()):
        print(f"{name:26}{noticed_there:4} of {number}")
    print(f"{options.manager}: {seen} of {len(chosen)} mutants are noticed, {100 * seen // len(chosen)} %")


if __name__ == "__main__":
    main()
