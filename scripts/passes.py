"""Which scenario passed on which release, with which inputs.

The records are in tests/passes.jsonl, one a line. Only scripts/test writes it.
A record that was changed by hand does not fit its seal and is not believed.
One whose inputs have changed since says nothing about them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "tests/passes.jsonl"


@dataclass(frozen=True)
class Pass:
    scenario: str
    release: str
    inputs: str  # digest, see inputs.py
    commit: str
    date: str
    seconds: int
    cpu_seconds: int

    def seal(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def line(self) -> str:
        return json.dumps({**asdict(self), "seal": self.seal()})


class Passes:
    """The records of a working tree, by scenario and release."""

    def __init__(self, root: Path) -> None:
        self.file = root / NAME
        self.lock = root / ".cache/passes.lock"

    def read(self) -> dict[tuple[str, str], Pass]:
        found = {}
        for number, line in enumerate(self.file.read_text(errors="replace").splitlines() if self.file.exists() else [], 1):
            try:
                values = json.loads(line)
                seal = values.pop("seal")
                record = Pass(**values)
            except (ValueError, TypeError, KeyError, AttributeError):
                print(f"{NAME}, line {number}: not a record, ignored", file=sys.stderr)
                continue
            if seal == record.seal():
                found[record.scenario, record.release] = record
            else:
                print(f"{NAME}, line {number}: changed by hand, not believed", file=sys.stderr)
        return found

    def add(self, record: Pass) -> None:
        with self._changed() as records:
            records[record.scenario, record.release] = record

    def remove(self, scenario: str, release: str, inputs: str) -> None:
        """Forget a pass with these inputs: the same has failed now.

        One with other inputs stays, it is not believed anyway.
        """
        with self._changed() as records:
            record = records.get((scenario, release))
            if record and record.inputs == inputs:
                del records[scenario, release]

    @contextmanager
    def _changed(self) -> Iterator[dict[tuple[str, str], Pass]]:
        self.lock.parent.mkdir(exist_ok=True)
        with self.lock.open("w") as handle:  # another run in this checkout may end now, too
            fcntl.flock(handle, fcntl.LOCK_EX)
            before = records = self.read()
            records = dict(before)
            yield records
            if records != before:
                self.file.parent.mkdir(exist_ok=True)
                new = self.lock.with_suffix(".new")  # not beside the file, where a killed run would leave it in git's way
                new.write_text("".join(records[key].line() + "\n" for key in sorted(records)))
                os.replace(new, self.file)
