# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Resolve templates as Ansible does, with fixed answers for lookups.

Ansible's own Templar needs its own kind of variables, and one run of it takes a millisecond for each variable. This
environment has Ansible's filters and tests, and those of the collection.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import pathlib
import typing as t
from collections.abc import Iterator

import jinja2
import jinja2.nativetypes
import jinja2.runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = "ansible_collections.deephdc.accelerators.plugins"
FILTERS = ("core", "mathstuff", "urls", "urlsplit", "encryption")
TESTS = ("core", "files", "mathstuff", "uri")
# Ansible's own of newer releases know only its own kind of undefined values.
JINJAS = ("default", "d", "defined", "undefined")

SETS = ("difference", "intersect", "symmetric_difference", "union")


class Missing(jinja2.StrictUndefined):
    """A value that is not defined; so are its parts, as in Ansible."""

    def __getattr__(self, name: str) -> t.Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: t.Any) -> t.Any:
        return self


def as_value(nodes: t.Iterable[t.Any]) -> t.Any:
    """Return the value of a template that is one expression, else its text."""
    first = list(itertools.islice(nodes := iter(nodes), 2))
    if len(first) == 1:
        if isinstance(first[0], Missing):
            first[0]._fail_with_undefined_error()
        return first[0]
    return as_text(itertools.chain(first, nodes))


def as_text(nodes: t.Iterable[t.Any]) -> str:
    return "".join("" if node is None else str(node) for node in nodes)


class Variables(t.Protocol):
    """What a template can use, by name."""

    def __contains__(self, name: object) -> bool:
        raise NotImplementedError

    def __getitem__(self, name: str) -> t.Any:
        raise NotImplementedError


class Known(dict):
    """Variables as Jinja wants them: a dictionary, which asks for each value when it is used."""

    def __init__(self, variables: Variables) -> None:
        super().__init__()
        self.variables = variables

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __getitem__(self, name: str) -> t.Any:
        return self.variables[name]


def ordered(name: str) -> t.Callable[[t.Any, t.Any], list[t.Any]]:
    """Return one of Ansible's filters of sets, with an order.

    Ansible's depends on the hashes of a process, and golden files must not.
    """

    def combined(one: t.Iterable[t.Any], other: t.Iterable[t.Any]) -> list[t.Any]:
        left, right = list(one), list(other)
        if name == "union":
            found = left + right
        elif name == "intersect":
            found = [value for value in left if value in right]
        else:
            found = [value for value in left if value not in right]
            found += [value for value in right if value not in left] if name == "symmetric_difference" else []
        return [value for number, value in enumerate(found) if value not in found[:number]]

    return combined


class Environment(jinja2.nativetypes.NativeEnvironment):
    """Ansible's filters and tests, beside those of the collection."""

    def __init__(self, is_file: bool = False) -> None:
        super().__init__(
            undefined=Missing, keep_trailing_newline=True, trim_blocks=is_file, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]
        )
        self.is_file, self.join = is_file, as_text if is_file else as_value
        self.compiled: dict[str, t.Any] = {}
        self.filters.update({name: strict(function) for name, function in self.filters.items() if name not in JINJAS})
        for kind, names, registered in (("filter", FILTERS, self.filters), ("test", TESTS, self.tests)):
            for name in names:
                plugin = importlib.import_module(f"ansible.plugins.{kind}.{name}")
                found = getattr(plugin, f"{kind.capitalize()}Module")()
                for own, function in getattr(found, f"{kind}s")().items():
                    kept = registered[own] if own in JINJAS else strict(function) if kind == "filter" else function
                    registered[own] = registered[f"ansible.builtin.{own}"] = kept
        for name in SETS:
            self.filters[name] = self.filters[f"ansible.builtin.{name}"] = strict(ordered(name))

    def resolve(self, text: str, variables: Variables) -> t.Any:
        """Return what a template gives with these variables."""
        template = self.compiled.get(text)
        if template is None:
            template = self.compiled[text] = self.from_string(text if self.is_file else self.as_ansible_reads(text))
        context = self.context_class(self, Known(variables), None, {})
        return self.join(template.root_render_func(context))

    def as_ansible_reads(self, text: str) -> str:
        """Return a value's template in which texts within ``{{ }}`` mean themselves.

        There Ansible takes no backslash for an escape.
        """
        found, inside = list[str](), False
        for _line, kind, part in self.lexer.tokeniter(text, None):
            inside = (inside or kind == "variable_begin") and kind != "variable_end"
            found.append(part.replace("\\", "\\\\") if inside and kind == "string" else part)
        return "".join(found)


def strict(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """Refuse values that are not defined, as Ansible does for all filters but those of JINJAS."""

    @functools.wraps(function)
    def checked(*args: t.Any, **kwargs: t.Any) -> t.Any:
        for value in args:
            if isinstance(value, Missing):
                value._fail_with_undefined_error()
        found = function(*args, **kwargs)
        # Ansible's filters give lists where Jinja's give iterators.
        return list(found) if isinstance(found, Iterator) else found

    return checked


def collection_filters() -> dict[str, t.Callable[..., t.Any]]:
    """Import the filters of the collection, by their full names."""
    found = {}
    for path in sorted((ROOT / "plugins/filter").glob("*.py")):
        module = importlib.import_module(f"{PLUGINS}.filter.{path.stem}")
        for name, function in module.FilterModule().filters().items():
            found[f"deephdc.accelerators.{name}"] = function
    return found


def is_template(value: t.Any) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)
