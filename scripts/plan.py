"""Which tests must run for this change, and which come by the clock.

Due: the owners of each changed file, and the smoke of each system that they belong to, on one release each.
Red: it failed since it passed. Owed: it would be due for a change since it passed. Stale: a change reaches it, or it never passed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import golden
from moves import moved
from owners import Test, all_tests, owners
from reach import NO_CODE, Tree, listed
from record import CACHE, Entry, Record, today
from words import blob_of, digest

KINDS = ("due", "red", "owed", "stale")
COMPILE = 2400  # seconds of tests/kubernetes/build on a machine that never ran it, beside other work


@dataclass(frozen=True)
class Run:
    """A test on a release.

    What is due and does not block failed, or never passed, before this change.
    """

    test: Test
    release: str
    cpu: int
    kind: str
    blocks: bool = False

    def as_json(self) -> dict[str, object]:
        test, blocks = self.test, self.blocks
        return {"test": test.name, "release": self.release, "kind": self.kind, "cpu_s": self.cpu, "smoke": test.is_smoke, "blocks": blocks}


class Plan:
    def __init__(self, root: Path) -> None:
        self.root, self.record, self.tests = root, Record(root), all_tests(root)
        self._changed: dict[str, set[str]] = {}
        self._owners: dict[str, list[Test]] = {}
        self._reached: dict[str, set[str]] = {}
        self.landed = self.record.landed if self.record.is_ours(self.record.landed) else ""

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.root)

    @cached_property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout.decode(errors="replace")

    @cached_property
    def _digests(self) -> dict[str, str]:
        """The content of each file of code, words apart, and whether it is a program."""
        names = [name for name in listed(self.root) if not NO_CODE.fullmatch(name)]
        return {name: self._digest(name, blob_of(self.root / name), (self.root / name).stat().st_mode & 0o100 > 0) for name in names}

    def _digest(self, name: str, blob: str, is_program: bool) -> str:
        def text() -> str:
            file = self.root / name
            is_here = file.is_file() and blob_of(file) == blob
            return file.read_text(errors="replace") if is_here else self.git("cat-file", "blob", blob)

        return f"{digest(name, blob, text)} {is_program}"

    def changed(self, commit: str) -> set[str]:
        """Return the code that differs from a commit, words apart; all without one."""
        if commit not in self._changed:
            now = self._digests
            lines = [line.partition("\t") for line in self.git("ls-tree", "-r", "-z", commit).split("\0") if line] if commit else []
            old = {name: about.split() for about, _tab, name in lines if not NO_CODE.fullmatch(name)}
            before = {moved(name): self._digest(name, about[2], about[0] == "100755") for name, about in old.items()}
            found = {name for name in now.keys() | before.keys() if now.get(name) != before.get(name)}
            self._changed[commit] = found - (
                golden.without_effect(self.root, commit, found & now.keys() & before.keys()) if commit else set()
            )
        return self._changed[commit]

    def touched(self, commit: str) -> set[str]:
        """Return all files that differ from a commit, words and documents too."""
        if not commit:
            return set(listed(self.root))
        others = self.git("ls-files", "--others", "--exclude-standard", "-z")
        return set(f"{self.git('diff', '--name-only', '-z', '--no-renames', commit)}{others}".split("\0")) - {""}

    def owners(self, name: str) -> list[Test]:
        if name not in self._owners:
            self._owners[name] = owners(name, self.tests)
        return self._owners[name]

    def reached(self, test: Test) -> set[str]:
        """Return the files that can reach a test."""
        if test.name not in self._reached:
            helpers = [name for name in self.tree.below(f"tests/verify/{test.cluster}") if "/test_" not in name]
            made_of = self.tree.below(f"molecule/{test.cluster}")
            self._reached[test.name] = self.tree.reached([*test.files, *helpers, *made_of])
        return self._reached[test.name]

    def _is_due(self, test: Test, files: set[str]) -> bool:
        """Return whether a change of files makes a test due.

        A smoke is due when any test of its system is.
        """
        by = [owner for name in files for owner in self.owners(name)]
        return test in by or (test.is_smoke and any(owner.smoke == test.cluster for owner in by))

    @cached_property
    def _before(self) -> set[str]:
        return set(self.git("ls-tree", "-r", "-z", "--name-only", self.landed).split("\0")) if self.landed else set()

    def is_gone(self, name: str) -> bool:
        """Return whether a test, or what a cluster is made of, was removed in this change."""
        word = name.removeprefix("made ")
        file = f"tests/verify/{word}" if "/" in word else f"molecule/{word}/molecule.yml"
        return file in self._before and not (self.root / file).exists()

    def kind(self, test: Test, release: str) -> tuple[str, bool] | None:
        """Return what a test on a release is now, and whether it blocks.

        None: it need not run.
        """
        entry = self.record.entry(test.name, release)
        since_pass = self.changed(entry.commit) if entry.commit else None
        this_change = self.changed(self.landed) if self.landed else since_pass
        is_owed = since_pass is not None and self._is_due(test, since_pass)
        is_due = (this_change is None or self._is_due(test, this_change)) and (since_pass is None or is_owed)
        if is_due and release == test.releases[0]:
            was_red = entry.is_red and self.record.is_ours(entry.failed, self.landed)
            never_passed = since_pass is None and bool(self._before) and self._before.issuperset(test.files)
            return "due", not (self.landed and was_red) and not never_passed
        if entry.is_red:
            return "red", False
        if is_owed or (is_due and self.landed):
            return "owed", False
        return ("stale", False) if since_pass is None or since_pass & self.reached(test) else None

    def of_working_tree(self) -> list[Run]:
        """Return what is due, red, owed and stale, in this order."""
        pairs = [(test, release) for test in self.tests for release in test.releases]
        kinds = ((test, release, self.kind(test, release)) for test, release in pairs)
        return self._sorted([Run(test, release, 0, *kind) for test, release, kind in kinds if kind])

    def of_paths(self, paths: Iterable[str]) -> list[Run]:
        """Return what is due and stale for a change of these files and folders."""
        paths = [path.rstrip("/") for path in paths]
        files = {name for name in listed(self.root) for path in paths if name == path or name.startswith(f"{path}/")}
        missing = [path for path in paths if not any(name == path or name.startswith(f"{path}/") for name in files)]
        if missing:
            raise FileNotFoundError(f"git knows no file {missing[0]}")
        files = {name for name in files if not NO_CODE.fullmatch(name)}
        found = []
        for test in self.tests:
            first, *others = test.releases
            if self._is_due(test, files):
                found += [Run(test, first, 0, "due", blocks=True), *(Run(test, other, 0, "owed") for other in others)]
            elif files & self.reached(test):
                found += [Run(test, release, 0, "stale") for release in test.releases]
        return self._sorted(found)

    def _sorted(self, runs: list[Run]) -> list[Run]:
        """Sort: smokes, then others that are due, the cheapest first; then by kind."""
        with_cost = [Run(run.test, run.release, self.cost(run), run.kind, run.blocks) for run in runs]
        return sorted(with_cost, key=self.order)

    def order(self, run: Run) -> tuple[int, object, object, str]:
        """Return the place of a test among others.

        That is its rank, then the cost of what is due, or the day of the last try.
        """
        name, release = run.test.name, run.release
        entry = self.record.entry(name, release)
        has_changed = entry.is_red and bool(self.changed(entry.failed) & self.reached(run.test))
        place = self.place(run.kind, entry, has_changed, f"{name} {release}")
        return (place[0], not run.test.is_smoke, run.cpu, name) if place[0] == 0 else place

    def place(self, kind: str, entry: Entry, has_changed: bool, name: str) -> tuple[int, object, object, str]:
        """Return the place of a test or check of the clock.

        What failed today with these files comes after all else.
        """
        day = max(entry.date, entry.failed_date)[:10]
        turn = sha256(f"{self.head} {name}".encode()).hexdigest()  # of one day another one comes first each time
        waits = entry.is_red and not has_changed and day == today()[:10]
        return len(KINDS) if waits else KINDS.index(kind), day, turn, name

    def cost(self, run: Run) -> int:
        """Return processor seconds, with its cluster's if no smoke makes that."""
        made = run.test.is_smoke or run.test.cluster != run.test.smoke
        of_cluster = self.record.cpu(f"made {run.test.cluster}", run.release, unknown=150) if made else 0
        return self.record.cpu(run.test.name, run.release) + of_cluster

    def wall(self, run: Run) -> int:
        """Return the seconds that a test and its cluster take."""
        is_compiled = "kubernetes" not in run.test.cluster or any((CACHE / "kubernetes").glob("programs-*"))
        made = self.record.wall(f"made {run.test.cluster}", run.release)
        return self.record.wall(run.test.name, run.release) + made + (0 if is_compiled else COMPILE)

    def commits_since(self, name: str, release: str) -> list[str]:
        """Return the commits that reach a test since it passed last; for a check, all."""
        passed = self.record.entry(name, release).commit
        span = [f"{passed}..HEAD"] if passed else ["HEAD", "--max-count=20"]
        reached = [file for test in self.tests if test.name == name for file in sorted(self.reached(test))]
        return self.git("log", "--format=%h %s", *span, "--", *reached).splitlines()

    def holds_a_release(self, runs: list[Run]) -> list[str]:
        """Return why a release must wait."""
        week = (datetime.now(timezone.utc) - timedelta(days=7)).isoformat()
        found = []
        for run in runs:
            if run.kind != "stale" or self.record.entry(run.test.name, run.release).date < week:
                found.append(f"{run.kind}: {run.test.name} on {run.release}")
        pairs = ((test.name, release) for test in self.tests for release in test.releases)
        flaky = ((name, release, self.record.entry(name, release).flaky) for name, release in pairs)
        return found + [f"flaky: {name} on {release}, {count} times of the last ten" for name, release, count in flaky if count > 2]
