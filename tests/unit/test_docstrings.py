# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A docstring begins with one line of at most 80 characters, as docs/contributing.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("images", "molecule", "plugins", "roles", "scripts", "tosca")
LONGEST = 80
# Programs that print their docstring as help: its lines are those of a terminal.
HELP = {
    "roles/gpu_guard/files/gpu_guard.py",
    "roles/marathon/files/mesos_run.py",
    "roles/slurm_elastic/files/slurm_elastic.py",
    "scripts/end-processes",
    "scripts/image",
    "scripts/local-cloud",
    "scripts/step",
    "scripts/virtual-host",
    "tosca/xopera_twin",
}


def docstrings(text: str) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (found := ast.get_docstring(node)):
            yield node, found


def programs() -> Iterator[tuple[str, str]]:
    """Path and text of each Python file, also of one without a suffix."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in (".py", "") and "__pycache__" not in path.parts:
                text = path.read_text(encoding="utf-8", errors="replace")
                if path.suffix == ".py" or "python" in text.partition("\n")[0]:
                    yield str(path.relative_to(ROOT)), text


def long_lines(name: str, text: str) -> list[str]:
    return [
        f"{name}: {first}"
        for node, found in docstrings(text)
        if len(first := found.splitlines()[0]) > LONGEST and not (isinstance(node, ast.Module) and name in HELP)
    ]


def test_the_first_line_fits() -> None:
    texts = dict(programs())
    assert set(texts) >= HELP
    assert [line for name, text in texts.items() for line in long_lines(name, text)] == []


def test_a_long_line_is_found() -> None:
    text = f'"""{"a" * 81}"""\ndef name():\n    """{"b" * 80}"""\nclass Name:\n    """{"c" * 81}\n\n    More.\n    """\n'
    assert long_lines("x.py", text) == [f"x.py: {'a' * 81}", f"x.py: {'c' * 81}"]
    assert long_lines("tosca/xopera_twin", text) == [f"tosca/xopera_twin: {'c' * 81}"]
