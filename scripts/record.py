"""When each test and check passed and failed last, and what it took.

That is in tests/passed.json, and this machine knows more beside it. `made FOLDER` is the making of a cluster, `check TITLE` a check.

The runner writes the machine's own file. `scripts/test --record` merges it into tests/passed.json, once for a delivery.
`landed` is the commit from which the work began: what differs from it is this change.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

NAME, FORMAT = "tests/passed.json", 2
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "deephdc.accelerators"
MACHINE = CACHE / "tests.json"  # commits before format 2 read passed.json there
RUNS = 10  # so many results are kept


@cache
def is_ancestor(root: Path, commit: str, of: str) -> bool:
    words = ["git", "merge-base", "--is-ancestor", commit, of]
    return subprocess.run(words, cwd=root, stderr=subprocess.DEVNULL, check=False).returncode == 0


def today() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Entry:
    """What is known of a test on a release.

    Dates are ISO 8601 in UTC; times are those of the last pass, in seconds.
    """

    commit: str = ""  # of the last pass; empty: it never passed by itself, what it takes is known from elsewhere
    date: str = ""
    seconds: int = 0
    cpu_seconds: int = 0
    failed: str = ""  # the commit with which it failed last
    failed_date: str = ""
    last: str = ""  # the last results, newest at the end: p passed, f failed twice, s passed at the second try alone

    @property
    def is_red(self) -> bool:
        return self.failed_date > self.date

    @property
    def flaky(self) -> int:
        return self.last.count("s")


def read(file: Path) -> dict[str, Any]:
    """Return what a file holds; nothing if it is missing, torn or no record."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        print(f"warning: the record {file} can't be read ({error}): more tests run", file=sys.stderr)
        return {}
    return values if isinstance(values, dict) and isinstance(values.get("passed"), dict) else {}


def entry_of(value: object) -> Entry | None:
    """Read the fields that are known here; None if one has a wrong type."""
    values: dict[str, Any] = value if isinstance(value, dict) else {"commit": None}
    known = {field.name: values[field.name] for field in fields(Entry) if field.name in values}
    right = all(isinstance(one, int if name.endswith("seconds") else str) for name, one in known.items())
    return Entry(**known) if right else None


class Record:
    """Entries by test and release."""

    def __init__(self, root: Path) -> None:
        self.root, self.landed = root, ""
        self.entries: dict[tuple[str, str], Entry] = {}
        for file in (root / NAME, MACHINE):
            values = read(file)
            if file != MACHINE and isinstance(values.get("landed"), str):
                self.landed = values["landed"]
            for key, value in values.get("passed", {}).items():
                name, _blank, release = key.rpartition(" ")
                found = entry_of(value)
                if found:
                    self.entries[name, release] = self._merged(self.entries.get((name, release), Entry()), found)

    def _merged(self, one: Entry, other: Entry) -> Entry:
        """Return the newest pass and failure of two entries; this history's first."""
        passed = max(one, other, key=lambda entry: (self.is_ours(entry.commit), entry.date, entry.cpu_seconds))
        failed = max(one, other, key=lambda entry: (self.is_ours(entry.failed), entry.failed_date))
        newest = max(one, other, key=lambda entry: max(entry.date, entry.failed_date))
        times = (passed.commit, passed.date, passed.seconds, passed.cpu_seconds)
        return Entry(*times, failed.failed, failed.failed_date, newest.last)

    def is_ours(self, commit: str, of: str = "HEAD") -> bool:
        """Return whether a commit is in the history of another one.

        What is not says nothing about these files.
        """
        return bool(commit) and is_ancestor(self.root, commit, of)

    def entry(self, name: str, release: str) -> Entry:
        """Return what is known in this history."""
        found = self.entries.get((name, release), Entry())
        passed = (found.commit, found.date) if self.is_ours(found.commit) else ("", "")
        failed = (found.failed, found.failed_date) if self.is_ours(found.failed) else ("", "")
        return Entry(*passed, found.seconds, found.cpu_seconds, *failed, found.last)

    def base(self, name: str, release: str = "") -> str:
        """Return the newest commit with which a check passed, or what landed."""
        passed = self.entry(name, release).commit
        landed = self.landed if self.is_ours(self.landed) else ""
        return landed if not passed or (landed and self.is_ours(passed, landed)) else passed

    def cpu(self, name: str, release: str, unknown: int = 120) -> int:
        """Return processor seconds of the last pass, if need be on another release."""
        known = self._known(name, release)
        return known.cpu_seconds if known else unknown

    def wall(self, name: str, release: str, unknown: int = 300) -> int:
        known = self._known(name, release)
        return known.seconds if known else unknown

    def _known(self, name: str, release: str) -> Entry | None:
        timed = {key: one for key, one in self.entries.items() if key[0] == name and (one.date or one.cpu_seconds)}
        return timed.get((name, release)) or next(iter(timed.values()), None)

    def add(self, name: str, release: str, change: Callable[[Entry], Entry]) -> None:
        """Note a result in the machine's file, and leave what is known of other branches."""
        MACHINE.parent.mkdir(parents=True, exist_ok=True)
        with MACHINE.with_name("record.lock").open("w") as lock:  # another run may end now, too
            fcntl.flock(lock, fcntl.LOCK_EX)
            values = read(MACHINE)
            known = values.get("passed", {})
            before = known.get(f"{name} {release}")
            now = self._merged(self.entries.get((name, release), Entry()), entry_of(before) or Entry())
            self.entries[name, release] = new = change(now)
            known[f"{name} {release}"] = (before if isinstance(before, dict) else {}) | asdict(new)
            write(MACHINE, values | {"passed": known})

    def write(self, file: Path, is_gone: Callable[[str], bool]) -> None:
        """Write what is known. An entry goes with its test."""
        entries = {f"{name} {release}": asdict(one) for (name, release), one in self.entries.items() if not is_gone(name)}
        write(file, {"format": FORMAT, "landed": self.landed, "passed": entries})


def write(file: Path, values: dict[str, Any]) -> None:
    first = json.dumps({"format": FORMAT, **{name: value for name, value in values.items() if name != "passed"}})
    lines = [f' "{key}": {json.dumps(one)}' for key, one in sorted(values["passed"].items())]
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(first[:-1] + ', "passed": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    os.replace(new, file)
