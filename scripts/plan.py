"""Which tests a change makes due, and which go stale.

Due: the owners of each changed file, and the smoke of each system that they belong to. They must pass.
Stale: tests that a changed file reaches, or that never passed on a release. They come by the clock, oldest first, and block nothing.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import golden
from owners import Test, all_tests, owners
from reach import NO_CODE, Tree, listed
from record import Record
from words import content


@dataclass(frozen=True)
class Run:
    """A test on a release."""

    test: Test
    release: str
    cpu: int

    def as_json(self) -> dict[str, object]:
        return {"test": self.test.name, "release": self.release, "cpu_s": self.cpu, "smoke": self.test.is_smoke}


class Plan:
    def __init__(self, root: Path) -> None:
        self.root, self.record, self.tests = root, Record(root), all_tests(root)
        self._changed: dict[str, set[str]] = {}
        self._owners: dict[str, list[Test]] = {}
        self._reached: dict[str, set[str]] = {}

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.root)

    @cached_property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout.decode(errors="replace")

    def changed(self, commit: str) -> set[str]:
        """The code that differs from a commit, words apart; with no commit all of it."""
        if commit not in self._changed:
            now = {name for name in listed(self.root) if not NO_CODE.fullmatch(name)}
            if commit:
                names = self.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")
                before = {name for name in names if name and not NO_CODE.fullmatch(name)}
                differs = set(self.git("diff", "--name-only", "-z", "--no-renames", commit).split("\0"))
                candidates = (now | before) & (differs | (now - before))
                now = {name for name in candidates if name not in now or name not in before or self._differs(name, commit)}
                now -= golden.without_effect(self.root, commit, now & before)
            self._changed[commit] = now
        return self._changed[commit]

    def touched(self, commit: str) -> set[str]:
        """All files that differ from a commit, words and documents too."""
        if not commit:
            return set(listed(self.root))
        others = self.git("ls-files", "--others", "--exclude-standard", "-z")
        return set(f"{self.git('diff', '--name-only', '-z', '--no-renames', commit)}{others}".split("\0")) - {""}

    def _differs(self, name: str, commit: str) -> bool:
        old, new = self.git("show", f"{commit}:{name}"), (self.root / name).read_text(errors="replace")
        return old == new or content(name, old) != content(name, new)  # equal texts: the right to execute has changed

    def owners(self, name: str) -> list[Test]:
        if name not in self._owners:
            self._owners[name] = owners(name, self.tests)
        return self._owners[name]

    def reached(self, test: Test) -> set[str]:
        """The files that can reach a test."""
        if test.name not in self._reached:
            helpers = [name for name in self.tree.below(f"tests/verify/{test.cluster}") if "/test_" not in name]
            made_of = self.tree.below(f"extensions/molecule/{test.cluster}")
            self._reached[test.name] = self.tree.reached([*test.files, *helpers, *made_of])
        return self._reached[test.name]

    def _is_due(self, test: Test, files: set[str]) -> bool:
        """A smoke is due when any test of its system is."""
        by = [owner for name in files for owner in self.owners(name)]
        return test in by or (test.is_smoke and any(owner.smoke == test.cluster for owner in by))

    def due(self, changed: Callable[[Test, str], list[set[str]]]) -> list[Run]:
        """What must pass.

        ``changed`` gives, for a test on a release, the files that changed since each commit with which it is known to pass.
        """
        found: list[Run] = []
        for test in self.tests:
            for release in test.releases if test.is_smoke else test.releases[:1]:
                if all(self._is_due(test, files) for files in changed(test, release)):
                    found.append(self.run(test, release, found))
        return found

    def run(self, test: Test, release: str, others: Iterable[Run] = ()) -> Run:
        """Return what a test takes.

        The making of a cluster is in it if no smoke makes that; the first of several tests has it.
        """
        cpu = self.record.cpu(test.name, release)
        made = test.is_smoke or (test.cluster != test.smoke and not any(one.test.cluster == test.cluster for one in others))
        return Run(test, release, cpu + (self.record.cpu(f"made {test.cluster}", release, unknown=150) if made else 0))

    def stale(self, due: list[Run], changed: Callable[[Test, str], set[str] | None]) -> list[Run]:
        """Not due, but reached by a change, or never passed (None); the oldest first."""
        known = {(one.test.name, one.release) for one in due}
        found = []
        for test in self.tests:
            for release in test.releases:
                if (test.name, release) not in known:
                    files = changed(test, release)
                    if files is None or files & self.reached(test):
                        found.append(self.run(test, release, due))
        return sorted(found, key=self.age)

    def age(self, run: Run) -> str:
        """The day of the last pass. Which of one day comes first changes with each commit."""
        passed = self.record.passes.get((run.test.name, run.release))
        turn = hashlib.sha256(f"{self.head} {run.test.name} {run.release}".encode()).hexdigest()
        return f"{passed.date[:10] if passed and passed.commit else ''} {turn}"

    def of_working_tree(self) -> tuple[list[Run], list[Run]]:
        """Due and stale, by what has changed since each test passed."""
        record = self.record
        due = self.due(lambda test, release: [self.changed(base) for base in record.bases(test.name, release)])

        def since_pass(test: Test, release: str) -> set[str] | None:
            passed = record.passes.get((test.name, release))
            return self.changed(passed.commit) if passed and passed.commit else None

        return due, self.stale(due, since_pass)

    def of_paths(self, paths: Iterable[str]) -> tuple[list[Run], list[Run]]:
        """Due and stale for a change of these files, or of all below these folders."""
        paths = [path.rstrip("/") for path in paths]
        files = {name for name in listed(self.root) for path in paths if name == path or name.startswith(f"{path}/")}
        missing = [path for path in paths if not any(name == path or name.startswith(f"{path}/") for name in files)]
        if missing:
            raise FileNotFoundError(f"git knows no file {missing[0]}")
        files = {name for name in files if not NO_CODE.fullmatch(name)}
        due = self.due(lambda test, release: [files])
        return due, self.stale(due, lambda test, release: files)

    def commits_since(self, run: Run) -> list[str]:
        """The commits that reach a test since it passed last."""
        passed = self.record.passes.get((run.test.name, run.release))
        span = [f"{passed.commit}..HEAD"] if passed and passed.commit else ["HEAD", "--max-count=20"]
        return self.git("log", "--format=%h %s", *span, "--", *sorted(self.reached(run.test))).splitlines()
