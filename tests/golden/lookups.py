# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Answers of lookups: files of the collection as they are, everything else fixed."""

from __future__ import annotations

import pathlib
import typing as t

from templating import ROOT

if t.TYPE_CHECKING:
    from scopes import Scope

# A program's text would be repeated for each host. Golden files name it instead.
LONG = 400


class Lookups:
    """Lookups without a host, a network or an environment.

    :param files: texts of files that only a real site has, by the end of their paths.
    :param environment: variables of the environment.
    """

    def __init__(self, files: t.Mapping[str, str], environment: t.Mapping[str, str]) -> None:
        self.files, self.environment = files, environment
        self.texts: dict[str, str] = {}
        self.rendered: set[pathlib.Path] = set()

    def one(self, scope: Scope, name: str, terms: t.Sequence[t.Any], options: dict[str, t.Any]) -> t.Any:
        found = self.all(scope, name, terms, options)
        if options.get("wantlist"):
            return found
        return found[0] if len(found) == 1 else ",".join(str(part) for part in found)

    def all(self, scope: Scope, name: str, terms: t.Sequence[t.Any], options: dict[str, t.Any]) -> list[t.Any]:
        flat = [part for term in terms for part in (term if isinstance(term, (list, tuple)) else [term])]
        kind = name.removeprefix("ansible.builtin.")
        if kind == "file":
            return [self.file(scope, str(term), options) for term in flat]
        if kind == "template":
            return [self.template(scope, str(term), options) for term in flat]
        if kind == "env":
            return [self.environment.get(str(term), "") for term in flat]
        if kind == "password":
            return [f"not-a-secret-{str(term).split()[0].rsplit('/', 1)[-1]}" for term in flat]
        if kind == "fileglob":
            return [str(path) for term in flat for path in sorted(pathlib.Path(str(term)).parent.glob(pathlib.Path(str(term)).name))]
        if kind == "vars":
            return [scope[str(term)] for term in flat]
        if kind == "config":
            return [[]]
        raise ValueError(f"the lookup {name} has no fixed answer: add one to tests/golden/lookups.py")

    def path(self, scope: Scope, name: str, folder: str) -> pathlib.Path | None:
        """Return the file of the collection that a role means."""
        places = [pathlib.Path(name)] if name.startswith("/") else [pathlib.Path(own, folder, name) for own in scope.folders]
        return next((path.resolve() for path in places if path.is_file() and path.resolve().is_relative_to(ROOT)), None)

    def file(self, scope: Scope, name: str, options: dict[str, t.Any]) -> str:
        fixed = [text for end, text in self.files.items() if name.endswith(end)]
        path = self.path(scope, name, "files")
        if fixed or path is None:
            return fixed[0] if fixed else f"not-a-secret-{name.rsplit('/', 1)[-1]}"
        text = path.read_text(encoding="utf-8")
        text = text.rstrip() if str(options.get("rstrip", True)).lower() != "false" else text
        if len(text) > LONG:
            self.texts[text] = str(path.relative_to(ROOT))
        return text

    def template(self, scope: Scope, name: str, options: dict[str, t.Any]) -> str:
        from scopes import Layer

        path = self.path(scope, name, "templates")
        if path is None:
            raise ValueError(f"no role of {', '.join(scope.folders)} has the template {name}")
        self.rendered.add(path)
        return scope.above(Layer(options.get("template_vars") or {}, True)).file(path.read_text(encoding="utf-8"))

    def named(self, text: str) -> str:
        """Return a file's text with the name of each long file of the collection in place of its text."""
        for own, path in self.texts.items():
            if own in text:
                text = text.replace(own, f"<the text of {path}>")
        return text.replace(str(ROOT), "/collection")
