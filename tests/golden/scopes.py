# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The variables of a host, in the layers and the order that Ansible gives them."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator, Mapping

import jinja2

from lookups import Lookups
from templating import Environment, Missing, collection_filters, is_template, strict

OMIT = "__omit_place_holder__golden"


class Layer(t.NamedTuple):
    """Variables of one origin. Those that are computed already are not resolved again."""

    values: Mapping[str, t.Any]
    computed: bool = False


class Engine:
    """Templates and filters; one for all sites, as compiling a template takes longer than resolving it."""

    def __init__(self) -> None:
        self.values, self.files = Environment(), Environment(is_file=True)
        self.filters = collection_filters()
        for environment in (self.values, self.files):
            environment.filters.update({name: self.called(name) for name in self.filters})

    def called(self, name: str) -> t.Callable[..., t.Any]:
        """Return the filter of this name, which may be exchanged later."""
        return strict(lambda *args, **kwargs: self.call(name, args, kwargs))

    def call(self, name: str, args: tuple[t.Any, ...], kwargs: dict[str, t.Any]) -> t.Any:
        return self.filters[name](*args, **kwargs)


@functools.lru_cache(None)
def engine() -> Engine:
    return Engine()


class Scope:
    """What a task of a role can use on a host."""

    def __init__(self, lookups: Lookups, layers: tuple[Layer, ...], folders: tuple[str, ...] = ()) -> None:
        self.lookups, self.layers, self.folders = lookups, layers, folders
        self.engine = engine()
        self.known: dict[str, t.Any] = {}
        self.globals = {
            "lookup": lambda name, *terms, **options: lookups.one(self, name, terms, options),
            "query": lambda name, *terms, **options: lookups.all(self, name, terms, options),
            "omit": OMIT,
            "vars": self,
            **self.engine.values.globals,
        }
        self.globals["q"] = self.globals["query"]

    def above(self, *layers: Layer, folders: tuple[str, ...] = ()) -> Scope:
        """Return this scope with further layers, which win."""
        return Scope(self.lookups, (*reversed(layers), *self.layers), folders or self.folders)

    def __contains__(self, name: object) -> bool:
        return name in self.globals or any(name in layer.values for layer in self.layers)

    def __getitem__(self, name: str) -> t.Any:
        if name in self.known:
            return self.known[name]
        for layer in self.layers:
            if name in layer.values:
                value = layer.values[name]
                if layer.computed:
                    # Facts change while a play goes on, so they are not kept.
                    return value() if callable(value) else value
                self.known[name] = Missing(hint=f"{name} refers to itself")
                try:
                    self.known[name] = self.resolved(value)
                except jinja2.UndefinedError as error:
                    self.known[name] = Missing(hint=f"{name}: {error.message}")
                return self.known[name]
        if name in self.globals:
            return self.globals[name]
        raise KeyError(name)

    def get(self, key: str, default: t.Any = None) -> t.Any:
        if key not in self or isinstance(self[key], Missing):
            return default
        return self[key]

    def resolved(self, value: t.Any) -> t.Any:
        """Return a value with its templates resolved."""
        if isinstance(value, str):
            return self.engine.values.resolve(value, self) if is_template(value) else value
        if isinstance(value, Mapping):
            return {self.resolved(key): self.resolved(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.resolved(part) for part in value]
        return value

    def is_true(self, conditions: t.Any) -> bool:
        """Return whether all conditions of a task hold."""
        every = conditions if isinstance(conditions, list) else [conditions]
        for one in every:
            if isinstance(one, str) and not self.engine.values.resolve(one if is_template(one) else "{{ " + one + " }}", self):
                return False
            if not isinstance(one, str) and not one:
                return False
        return True

    def file(self, text: str) -> str:
        return str(self.engine.files.resolve(text, self))


def missing(value: t.Any) -> bool:
    """Return whether a part of a value is not defined."""
    if isinstance(value, Mapping):
        return any(missing(part) for part in value.values())
    return any(missing(part) for part in value) if isinstance(value, list) else isinstance(value, Missing)


class HostVariables(Mapping[str, t.Any]):
    """A host's variables as other hosts see them: without defaults of roles."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.names = list(dict.fromkeys(name for layer in scope.layers for name in layer.values))

    def __getitem__(self, name: str) -> t.Any:
        if not any(name in layer.values for layer in self.scope.layers):
            raise KeyError(name)
        return self.scope[name]

    def __contains__(self, name: object) -> bool:
        return any(name in layer.values for layer in self.scope.layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def get(self, key: str, default: t.Any = None) -> t.Any:
        if key not in self or isinstance(self[key], Missing):
            return default
        return self[key]


class AllHosts(dict[str, HostVariables]):
    """The variables of all hosts, with Ansible's raw_get."""

    def raw_get(self, host: str) -> dict[str, t.Any]:
        scope = self[host].scope
        return {name: layer.values[name] for layer in reversed(scope.layers) if not layer.computed for name in layer.values}
