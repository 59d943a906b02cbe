#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Say which lines of plugins/ a golden run executes, and which templates it renders.

usage: executed.py PATH:LINE...      exit status 0 if all of them are executed, else 1
       executed.py                   print the number of lines of each file

A changed line that is executed, while all golden files stay as they are, changes no configuration of a golden site. Ask
about a line in the file as it is now; of a template, any line will do.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".collections"))
from tracing import Lines, traced


def executed() -> Lines:
    """Return the executed lines by path, relative to the checkout.

    A line that runs when a file is imported counts. A template has all of its lines or none.
    """
    with traced() as lines:
        # Modules are imported inside, as their own lines run then.
        import cases
        import programs
        import render
        from templating import ROOT

        templates: set[pathlib.Path] = set()
        for site in render.sources():
            walk = render.walked(site)
            render.files_of(site, walk)
            templates |= walk.lookups.rendered
        cases.render()
        programs.render()
    found = {path: settled((ROOT / path).read_text(encoding="utf-8"), numbers) for path, numbers in lines.items()}
    for path in templates:
        text = path.read_text(encoding="utf-8")
        found[str(path.relative_to(ROOT))] = set(range(1, len(text.splitlines()) + 1))
    return found


def code_lines(code: types.CodeType) -> set[int]:
    """Return the lines that have code of their own."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return {line for _start, _end, line in code.co_lines() if line}.union(*map(code_lines, inner))


def settled(text: str, executed_lines: set[int]) -> set[int]:
    """Return the executed lines of a file, with those that have no code of their own.

    The line of a constant inside of a statement is executed with the statement, a comment with any other line.
    """
    own = code_lines(compile(text, "", "exec"))
    begins: dict[int, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and not isinstance(getattr(node, "value", None), ast.Constant):
            # Inner statements come later, so the innermost stays.
            begins.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.lineno))
    lines = text.splitlines()

    def is_executed(line: int) -> bool:
        if line in own:
            return line in executed_lines
        words = lines[line - 1].strip()
        return not words or words.startswith("#") or line not in begins or begins[line] in executed_lines

    return {line for line in range(1, len(lines) + 1) if is_executed(line)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lines", nargs="*", metavar="PATH:LINE")
    options = parser.parse_args()
    found = executed()
    if not options.lines:
        print("\n".join(f"{len(numbers):5} {path}" for path, numbers in sorted(found.items())))
        return 0
    missed = [line for line in options.lines if int(line.rpartition(":")[2]) not in found.get(line.rpartition(":")[0], set())]
    for line in missed:
        print(f"{line} is not executed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
