"""Files that moved.

What names the old place says the same as what names the new one.

A line goes when no entry of tests/passed.json is from before its move.
"""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import PurePosixPath

# The innermost place first.
MOVED = {
    "extensions/molecule/default/callbacks": "molecule/shared/plugins/callback",
    "extensions/molecule/default": "molecule/shared",
    "extensions/molecule/config.yml": ".config/molecule/config.yml",
    "extensions/molecule": "molecule",
}
PLACES = re.compile("|".join(re.escape(f"{place}/") for place in ("extensions/molecule", "molecule", ".config/molecule")))
RELATIVE = re.compile(r"(?:\.\./)+[\w.-]*(?:/[\w.-]+)*")


def moved(text: str) -> str:
    """Return a name or a text with the new places in it."""
    for old, new in MOVED.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])", new, text)
    return text


def settled(name: str, text: str) -> str:
    """Return the text of a file as it would be anywhere.

    In a file that moved, or that is at a new place, a relative path begins at the root; <root> is part of no other path.
    """
    if not PLACES.match(name):
        return moved(text)
    folder = PurePosixPath(name).parent
    if name.endswith("molecule/config.yml"):  # Molecule reads its paths from a scenario's folder
        folder = PurePosixPath(str(folder).removeprefix(".config/")) / "scenario"
    return moved(RELATIVE.sub(lambda found: f"<root>/{normpath(folder / found[0])}", text))
