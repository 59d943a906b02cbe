"""Run long commands side by side, and keep their whole output in files.

Used by scripts/step (one command), scripts/lint and scripts/test. Why not a task runner of others: docs/testing.md.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from archives import answers, unanswered
from usage import Containers, adopt_orphans, end_with_parent, seconds_of, variable_of

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache/logs"
MARK = "TEST_STEP"  # variable that shows whose process an orphan is
SECONDS_BETWEEN_REPORTS, SECONDS_BETWEEN_LOOKS, CLEANUP_SECONDS = 60, 3, 120
SECONDS_FOR_AN_ANSWER, WAITS = 60, 2  # between tries of what an archive of packages did not answer, and how often
SECOND_TRY = "\n----- tried again -----\n"
TAIL_LINES, SUMMARY_LINES, FAILED_TASKS, LONG_LINE = 30, 40, 8, 1000


@dataclass
class Step:
    """One command with a name.

    ``after``: titles of steps that must have succeeded. ``lane``: steps of one lane run one at a time, as they share a cluster.
    ``reads``: which files it looks at, as a regular expression; empty: all.
    ``narrow``: how it can look at changed files alone (narrow.py). ``blocks``: a failure fails the run.
    ``optional``: of the clock, which begins when nothing else waits. ``again``: the variables of a second try, None for no such try.
    ``cleanup`` is run when the step had to be stopped. ``limit`` and ``expected`` are in seconds.
    """

    title: str
    command: Sequence[str | os.PathLike[str]]
    after: tuple[str, ...] = ()
    lane: str = ""
    optional: bool = False
    blocks: bool = True
    again: Mapping[str, str] | None = None
    cleanup: Sequence[str | os.PathLike[str]] = ()
    reads: str = ""
    narrow: str = ""
    is_narrowed: bool = False
    kind: str = ""  # of a check of the clock: red or stale
    place: tuple[object, ...] = ()  # of the same among others
    limit: float = 900
    expected: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)
    label: str = ""  # of its containers
    started: float = 0.0
    used_before: float = 0.0  # by its containers
    seconds: float = 0.0
    cpu: float = 0.0  # seconds, of processes and containers
    state: str = "waiting"  # running, ok, failed, no answer, not run, no time, stopped, or what `ended` makes of these
    note: str = ""
    tries: int = 0
    failures: int = 0
    asks_archives: bool = True  # of packages
    silent: str = ""  # what says that an archive did not answer
    waits: int = 0  # for it
    not_before: float = 0.0
    try_started: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None

    @property
    def log(self) -> Path:
        return LOGS / (re.sub(r"[^A-Za-z0-9.]+", "-", self.title).strip("-").lower() + ".log")

    def start(self, more: Mapping[str, str] | None = None) -> None:
        self.state, self.code, self.tries = "running", None, self.tries + 1
        self.try_started = time.monotonic()
        self.started = self.started or self.try_started
        LOGS.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab" if self.tries > 1 else "wb") as output:
            output.write(SECOND_TRY.encode() if self.tries > 1 else b"")
            output.flush()
            # A separate session: the whole tree of processes can be ended, and none of them asks at the terminal.
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", MARK: self.title, **self.environment, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: end_with_parent(signal.SIGTERM),
            )

    def last_try(self) -> str:
        return self.log.read_text(errors="replace").rpartition(SECOND_TRY)[2]

    def tail(self) -> str:
        """Return the log's end; before it what Ansible and pytest say of what failed.

        Molecule buries that.
        """
        lines = self.last_try().splitlines()
        # A result can be as long as a file.
        tasks = [line[:LONG_LINE] for line in lines if re.match(r"(fatal: \[|failed: \[|\[ERROR\])", line)][-FAILED_TASKS:]
        failures = [line for line in lines if re.match(r"(E  |FAILED |ERROR )", line)][:SUMMARY_LINES]
        return "\n".join("    " + line for line in [*tasks, *failures, *lines[-TAIL_LINES:]])


def clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


class Runner:
    """Runs steps in their order, ``at_once`` at a time.

    ``after``, lanes and the deadline (time.monotonic) may hold them up.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        at_once: int = 2,
        deadline: float | None = None,
        rest: float = float("inf"),
        checkout: str = "",
        starting: Callable[[Step], None] = lambda step: None,
        ended: Callable[[Step], None] = lambda step: None,
    ) -> None:
        self.steps, self.at_once, self.deadline, self.rest = steps, at_once, deadline or float("inf"), rest
        self.starting, self.ended = starting, ended
        self.by_title = {step.title: step for step in steps}
        self.by_pid: dict[int, Step | None] = {}
        self.containers, self.looked, self.reported = Containers(checkout), 0.0, time.monotonic()
        self.clock_end: float | None = None  # when what is optional has to end

    @property
    def running(self) -> list[Step]:
        return [step for step in self.steps if step.state == "running"]

    def run(self) -> bool:
        """Run them, and return whether all that must not fail succeeded."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self._interrupted)
        adopt_orphans()
        while True:
            self._account()
            for step in self.running:
                self._look_at(step)
            self._start_what_can()
            now = time.monotonic()
            if not self.running and not any(now < step.not_before or self._ready(step) for step in self.steps if step.waits):
                break
            if now - self.reported >= SECONDS_BETWEEN_REPORTS:
                self.reported = now
                print("  running", " | ".join(f"{step.title}: {clock(step.seconds)}" for step in self.running), flush=True)
            time.sleep(0.2)
        for step in self.steps:
            if step.state == "waiting":
                late = any(self.by_title[title].state == "no time" for title in step.after)
                step.state = "not run" if self._hopeless(step) and not late else "no answer" if step.waits else "no time"
        return all(step.state == "ok" or not step.blocks for step in self.steps)

    def end_of(self, step: Step) -> float:
        """Return when a step is stopped, in seconds of time.monotonic."""
        return min(self.deadline, self.clock_end or float("inf")) if step.optional else self.deadline

    def _interrupted(self, signum: int, _frame: FrameType | None) -> None:
        for step in self.running:
            self._stop(step)
            step.state = "stopped"
        sys.exit(128 + signum)

    def _account(self) -> None:
        """Bury what has ended, and add its processor time to its step."""
        if time.monotonic() - self.looked > SECONDS_BETWEEN_LOOKS:
            self.looked = time.monotonic()
            self.containers.look()
            self._find_orphans()
        with suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                step = self.by_pid.pop(pid, None)
                if step is not None:
                    step.cpu += used.ru_utime + used.ru_stime
                    if step.process is not None and pid == step.process.pid:
                        step.code = step.process.returncode = os.waitstatus_to_exitcode(status)

    def _find_orphans(self) -> None:
        for file in Path("/proc/self/task").glob("*/children"):
            for pid in map(int, file.read_text().split()):
                if pid not in self.by_pid:
                    self.by_pid[pid] = self.by_title.get(variable_of(pid, MARK))

    def _look_at(self, step: Step) -> None:
        now = time.monotonic()
        step.seconds = now - step.started
        if step.code is None and now - step.try_started > step.limit:
            self._stop(step)
            with step.log.open("a") as output:
                output.write(f"\nended after its limit of {step.limit:.0f} s\n")
            step.code = step.code or 1
        if step.code is None and now > self.end_of(step):
            self._stop(step)
            step.state = "no time"
        elif step.code is None or (step.code and self._tries_again(step, now)):
            return
        else:
            no_try = step.failures == 1 and step.again is not None and (step.silent or now > self.end_of(step))
            step.state = "ok" if step.code == 0 else "no answer" if not step.failures else "no time" if no_try else "failed"
        self.containers.look()
        step.cpu += self.containers.seconds.get(step.label, 0.0) - step.used_before if step.label else 0.0
        # What goes on without it, such as kept connections.
        self._find_orphans()
        for pid in [pid for pid, owner in self.by_pid.items() if owner is step]:
            step.cpu += seconds_of(pid)
            self.by_pid[pid] = None
        more = f", its last lines:\n{step.tail()}\n  whole log: {step.log.relative_to(ROOT)}" if step.state == "failed" else ""
        self.ended(step)
        word = {"ok": "ok     ", "no time": "stopped", "failed": "FAILED "}.get(step.state, f"{step.state:<7}")
        print(f"{word} {step.title} ({clock(step.seconds)}){more or (step.note and f': {step.note}')}", flush=True)

    def _tries_again(self, step: Step, now: float) -> bool:
        """Start a step that failed again, and return whether.

        At once, or a minute later if an archive of packages did not answer.
        """
        step.silent = unanswered(step.tail()) if step.asks_archives else ""
        if step.silent and step.waits < WAITS and now < self.end_of(step):
            step.waits, step.not_before, step.state = step.waits + 1, now + SECONDS_FOR_AN_ANSWER, "waiting"
            print(f"wait    {step.title} ({clock(step.seconds)}); no answer: {step.silent}", flush=True)
            return True
        if step.silent and answers(step.silent):  # but not to this step, which may have broken the way to it
            step.silent = ""
        step.failures += not step.silent
        step.note = step.silent or step.note
        if step.silent or step.again is None or step.failures > 1 or now > self.end_of(step):
            return False
        print(f"again   {step.title} ({clock(step.seconds)}); the first try ended so:\n{step.tail()}", flush=True)
        self._start(step)
        return True

    def _stop(self, step: Step) -> None:
        """End a step's processes, and remove what it made."""
        assert step.process is not None
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if step.code is None:
                with suppress(ProcessLookupError):
                    os.killpg(step.process.pid, signum)
            patience = time.monotonic() + 10
            while step.code is None and time.monotonic() < patience:
                time.sleep(0.1)
                self._account()
        if step.cleanup:
            with suppress(subprocess.TimeoutExpired), step.log.open("ab") as output:
                environment = {**os.environ, **step.environment}
                subprocess.run(step.cleanup, cwd=ROOT, env=environment, stdout=output, stderr=output, timeout=CLEANUP_SECONDS, check=False)

    def _start(self, step: Step) -> None:
        step.start(step.again if step.failures else None)
        assert step.process is not None
        self.by_pid[step.process.pid] = step

    def _start_what_can(self) -> None:
        for step in self.steps:
            if len(self.running) < self.at_once and self._ready(step):
                self.starting(step)
                self.containers.look()
                step.used_before = self.containers.seconds.get(step.label, 0.0)
                self._start(step)
                print(f"start   {step.title}", flush=True)

    def _ready(self, step: Step) -> bool:
        now = time.monotonic()
        if step.state != "waiting" or now < step.not_before or any(self.by_title[title].state != "ok" for title in step.after):
            return False
        if step.lane and any(other.lane == step.lane for other in self.running):
            return False
        # An estimate is another machine's, so it refuses no test that must run: the deadline ends one that does not fit.
        if not step.optional:
            return now < self.deadline
        if self.clock_end is None:
            if any(other.state == "running" and not other.lane for other in self.steps):
                return False  # a check, which may be the same as one of the clock
            if any(other.state == "waiting" and not other.optional and not self._hopeless(other) for other in self.steps):
                return False
            self.clock_end = now + self.rest
        return now + step.expected < self.end_of(step)

    def _hopeless(self, step: Step) -> bool:
        return any(self.by_title[title].state not in ("ok", "waiting", "running") for title in step.after)


def table(steps: Iterable[Step]) -> str:
    """Return a line for each step, and the count alone on the last line."""
    steps = list(steps)
    width = max(len(step.title) for step in steps)
    rows = ["", f"{'':<{width}} {'wall':>10} {'processor':>10}"]
    for step in steps:
        times = f"{step.seconds:8.1f} s {step.cpu:8.1f} s" if step.process else " " * 21
        rows.append(f"{step.title:<{width}} {times}  {step.state}{': ' if step.note else ''}{step.note}")
    states = [step.state for step in steps]
    counts = [f"{states.count('ok')} passed", f"{states.count('failed')} failed"]
    counts += [f"{states.count(state)} {state}" for state in ("red", "owed") if state in states]
    left = sum(state not in ("ok", "failed", "red", "owed") for state in states)
    return "\n".join([*rows, "", ", ".join([*counts, *([f"{left} not run"] if left else [])])])
