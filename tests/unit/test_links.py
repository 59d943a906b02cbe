# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Links between documents lead somewhere: the file is there, and so is the heading."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("roles/*/README.md"), *ROOT.glob(".github/*.md")]

CODE = re.compile(r"(?ms)^ *```.*?^ *```")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"(?m)^#+ (.*)$")
ANCHOR = re.compile(r'<a (?:id|name)="([^"]+)"')


def anchors(text: str) -> set[str]:
    """The names by which a forge links to the headings of a document."""
    found: list[str] = []
    for heading in HEADING.findall(CODE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return {*found, *ANCHOR.findall(text)}


def broken(path: Path, text: str) -> t.Iterator[str]:
    for link in LINK.findall(CODE.sub("", text)):
        if re.match(r"\w+:", link):
            continue
        name, _hash, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            yield f"{path}: {link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(text if target == path else target.read_text(encoding="utf-8")):
            yield f"{path}: {link}: no such heading"


def test_every_link_leads_somewhere() -> None:
    assert len(DOCUMENTS) > 100
    assert [line for path in DOCUMENTS for line in broken(path, path.read_text(encoding="utf-8"))] == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One thing, `b`\n", encoding="utf-8")
    text = (
        "# Other\n[a](a.md#one-thing-b) [b](a.md#two) [c](c.md) [d](#other) [e](#none) [f](https://example.org/#x)\n```\n[g](g.md)\n```\n"
    )
    (tmp_path / "b.md").write_text(text, encoding="utf-8")
    lines = [line.split(": ", 1)[1] for line in broken(tmp_path / "b.md", text)]
    assert lines == ["a.md#two: no such heading", "c.md: no such file", "#none: no such heading"]
