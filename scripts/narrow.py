"""Which checks a change needs, and which files each of them has to look at.

A check passed with a commit, or what landed passed it: it looks at what has changed since. The clock runs those that look at everything.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import PurePosixPath

from checks import TOOLS, always, by_clock, by_files
from plan import Plan
from reach import Tree
from steps import ROOT, Step

# Tests that look through the tree: no name in them says what they read. They always run.
WALKS = re.compile(
    r"\b(ROOT|ROLES|PLUGINS|PLAYBOOKS|DOCS|FOLDER)\b[^\n]*\.(r?glob|iterdir)\(|ls-files|os\.walk|^from (reach|owners) |^READS = \(\"\*",
    re.MULTILINE,
)
FEW = 150  # a linter that would get more files looks at all


class Narrow:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @cached_property
    def tree(self) -> Tree:
        return Tree(ROOT, everything=True)

    def since(self, commit: str, check: Step) -> set[str]:
        """Return the files that a check reads and that differ from a commit."""
        return {name for name in self.plan.touched(commit) if re.fullmatch(check.reads, name)}

    def quick(self) -> list[Step]:
        """Return the checks that decide on a change."""
        return [*filter(None, map(self.narrowed, by_files())), *always()]

    def stale(self) -> list[Step]:
        """Return the checks of the clock that are red or stale."""
        found = []
        for check in by_clock():
            entry = self.plan.record.entry(f"check {check.title}", "")
            has_changed = bool(self.since(entry.failed if entry.is_red else entry.commit, check))
            if entry.is_red or has_changed:
                check.kind, check.again, check.blocks = "red" if entry.is_red else "stale", check.again or {}, False
                check.expected = self.plan.record.wall(f"check {check.title}", "")
                check.place = self.plan.place(check.kind, entry, has_changed, check.title)
                found.append(check)
        return found

    def narrowed(self, check: Step) -> Step | None:
        """Return a check that looks at changed files alone, if it can.

        None: it has nothing to look at.
        """
        files = self.since(self.plan.record.base(f"check {check.title}"), check)
        is_whole = any(re.fullmatch(TOOLS, name) for name in files) or self.has_lost_users(check, files)
        if files and check.narrow and not is_whole:
            look = {"yaml": self.linted, "files": self.existing, "tests": self.tests}[check.narrow](check, files)
            if not look:
                return None
            if len(look) <= FEW:
                check.is_narrowed = True
                check.command = [*(check.command[:-1] if check.narrow == "tests" else check.command), *look]
        return check if files else None

    def has_lost_users(self, check: Step, files: set[str]) -> bool:
        """Return whether something is gone whose users can't be found any more."""
        gone = [name for name in files if not (ROOT / name).exists()]
        if check.narrow == "yaml":  # a module, a playbook or a role
            gone = [name for name in gone if not (name.startswith("roles/") and (ROOT / PurePosixPath(*name.split("/")[:2])).exists())]
            gone = [name for name in gone if name.startswith(("plugins/modules/", "playbooks/", "roles/"))]
        return bool(gone) and check.narrow in ("tests", "yaml")

    def existing(self, _check: Step, files: set[str]) -> list[str]:
        return sorted(name for name in files if (ROOT / name).is_file() and not name.startswith("tests/golden/"))

    def linted(self, _check: Step, files: set[str]) -> list[str]:
        """Return the roles and files that changed, and those that name a changed module."""
        modules = {name for name in files if name.startswith("plugins/modules/")}
        tasks = [name for name in self.tree.files if modules and re.match(r"(roles/\w+/(tasks|handlers)|playbooks)/", name)]
        files = (files - modules) | {name for name in tasks if self.tree.named_by(name) & modules}
        folders = {"/".join(PurePosixPath(name).parts[:2]) if name.startswith("roles/") else name for name in files}
        return sorted(name for name in folders if (ROOT / name).exists())

    def tests(self, check: Step, files: set[str]) -> list[str]:
        """Return tests that a changed file can reach, and those that walk the tree."""
        folder = str(check.command[-1])
        tests = [name for name in self.tree.below(folder) if PurePosixPath(name).match("test_*.py")]
        return sorted(name for name in tests if WALKS.search(self.tree.text(name)) or self.reached(name) & files)

    def reached(self, test: str) -> set[str]:
        """Return the files that a unit test may read.

        These are those that it names, and those that have its place in the code.
        """
        path = PurePosixPath(test)
        conftests = [f"{folder}/conftest.py" for folder in path.parents if f"{folder}/conftest.py" in self.tree.files]
        fixtures = {name: re.findall(r"@pytest\.fixture.*?\ndef (\w+)", self.tree.text(name), re.DOTALL) for name in conftests}
        used = [name for name in conftests if re.search(rf"\b({'|'.join(fixtures[name])})\b", self.tree.text(test))]
        seeds = [test, *used]
        parts = path.parts[2:-1]  # below tests/unit
        seeds += self.tree.below("/".join(parts[:2])) if parts[:1] == ("roles",) and len(parts) > 1 else []
        name = path.stem.removeprefix("test_")
        seeds += [f"{'/'.join(parts)}/{name}.py"] if f"{'/'.join(parts)}/{name}.py" in self.tree.files else []
        return {*conftests, *self.tree.reached(seeds)}

    def unnamed(self, test: str, read: set[str]) -> list[str]:
        """Return the files that a unit test read and that nothing in it leads to."""
        walks = WALKS.search(self.tree.text(test))
        return [] if walks else sorted((read & set(self.tree.files)) - self.reached(test))
