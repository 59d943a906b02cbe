"""When each test passed last, with which commit, and what it took.

That is in tests/passed.json, and this machine knows more beside it.

The runner writes the machine's own file. `scripts/test --record` merges it into tests/passed.json, once for a submission.
`landed` is a commit of which all that was due has passed, such as the newest one of the main branch.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

NAME = "tests/passed.json"
MACHINE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "deephdc.accelerators/passed.json"


@cache
def is_ancestor(root: Path, commit: str, of: str) -> bool:
    words = ["git", "merge-base", "--is-ancestor", commit, of]
    return subprocess.run(words, cwd=root, stderr=subprocess.DEVNULL, check=False).returncode == 0


@dataclass(frozen=True)
class Pass:
    commit: str  # empty: it never passed by itself, what it takes is known from elsewhere
    date: str  # ISO 8601, UTC
    seconds: int
    cpu_seconds: int
    flaky: int = 0  # how often it passed at the second try alone


class Record:
    """Passes by test and release; `made FOLDER` is the making of a cluster."""

    def __init__(self, root: Path) -> None:
        self.root, self.landed = root, ""
        self.passes: dict[tuple[str, str], Pass] = {}
        for file in (root / NAME, MACHINE):
            self._read(file)

    def _read(self, file: Path) -> None:
        try:
            values = json.loads(file.read_text())
        except FileNotFoundError:
            return
        self.landed = self.landed or values["landed"]
        for key, value in values["passed"].items():
            name, _blank, release = key.rpartition(" ")
            found, known = Pass(**value), self.passes.get((name, release))
            if (not found.commit or self.is_ours(found.commit)) and (known is None or known.date <= found.date):
                self.passes[name, release] = found

    def is_ours(self, commit: str, of: str = "HEAD") -> bool:
        """Whether a commit is in the history of another one.

        What is not says nothing about these files.
        """
        return bool(commit) and is_ancestor(self.root, commit, of)

    def bases(self, name: str, release: str) -> list[str]:
        """The commits with which this test is known to pass.

        These are the commit that landed and the commit of the last pass. A test that never passed has [""].
        """
        passed = self.passes.get((name, release))
        found = [self.landed] if self.is_ours(self.landed) else []
        if passed and passed.commit and not (found and self.is_ours(passed.commit, self.landed)):
            found.append(passed.commit)
        return found or [""]

    def cpu(self, name: str, release: str, unknown: int = 120) -> int:
        """Processor seconds of the last pass, on another release if not on this one."""
        others = [one for (test, _release), one in self.passes.items() if test == name]
        known = self.passes.get((name, release)) or (others[0] if others else None)
        return known.cpu_seconds if known else unknown

    def add(self, name: str, release: str, found: Pass) -> None:
        """Note a pass, and leave what is known of other branches."""
        self.passes[name, release] = found
        MACHINE.parent.mkdir(parents=True, exist_ok=True)
        with MACHINE.with_suffix(".lock").open("w") as lock:  # another run may end now, too
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = json.loads(MACHINE.read_text())["passed"] if MACHINE.exists() else {}
            write(MACHINE, self.landed, known | {f"{name} {release}": asdict(found)})

    def write(self, file: Path) -> None:
        write(file, self.landed, {f"{name} {release}": asdict(one) for (name, release), one in self.passes.items()})


def write(file: Path, landed: str, passed: dict[str, dict[str, object]]) -> None:
    lines = [f' "{key}": {json.dumps(one)}' for key, one in sorted(passed.items())]
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(f'{{"landed": "{landed}", "passed": {{\n' + ",\n".join(lines) + "\n}}\n")
    os.replace(new, file)
