"""Run long commands side by side, and keep their whole output in files.

It shows what runs and for how long. Used by scripts/step (one command), scripts/lint and scripts/test.
Why not a task runner of others: docs/testing.md.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from usage import Containers, Idle, adopt_orphans, children, end_with_parent, seconds_of, variable_of

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache/logs"
MARK = "TEST_STEP"  # variable that shows whose process an orphan is
PLAIN_REPORT_SECONDS = 30
TAIL_LINES = 30
SUMMARY_LINES = 40
FAILED_TASKS = 8
LONG_LINE = 1000
STAGE_BYTES = 8192
CLEANUP_SECONDS = 120
# A light step runs as a third one while this share of the processors has been idle for so many seconds: scenarios wait a lot.
IDLE_SHARE = 0.4
IDLE_SECONDS = 15


@dataclass
class Step:
    """One command with a name.

    ``after`` names steps that must have succeeded before; ``limit`` and ``expected`` are in seconds; ``cleanup`` is run when the
    step had to be stopped. A ``light`` step makes no hosts; an ``optional`` one may be left out when time is short.
    A failure whose log has a line that matches ``nothing_tested`` is tried once more: what was to be tested was not reached.
    """

    title: str
    command: Sequence[str | os.PathLike[str]]
    after: tuple[str, ...] = ()
    limit: float = 3600
    environment: dict[str, str] = field(default_factory=dict)
    label: str = ""  # of its containers
    cleanup: Sequence[str | os.PathLike[str]] = ()
    light: bool = False
    optional: bool = False
    nothing_tested: str = ""
    expected: float = 0.0
    started: float = 0.0
    used_before: float = 0.0  # processor seconds of containers with this label that an earlier run left
    seconds: float = 0.0
    cpu: float = 0.0  # seconds, of processes and containers
    state: str = "waiting"  # running, ok, failed, not run, no time, stopped
    note: str = ""
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None

    @property
    def log(self) -> Path:
        return LOGS / (re.sub(r"[^A-Za-z0-9.]+", "-", self.title).strip("-").lower() + ".log")

    def start(self) -> None:
        self.state, self.started = "running", time.monotonic()
        LOGS.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            # A separate session: the whole tree of processes can be ended, and none of them asks at the terminal.
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", MARK: self.title, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: end_with_parent(signal.SIGTERM),
            )

    def stage(self) -> str:
        """The play, task or test that runs now, as far as the log's end shows one."""
        with self.log.open("rb") as output:
            output.seek(max(0, self.log.stat().st_size - STAGE_BYTES))
            found = re.findall(rb"(?:PLAY|TASK) \[([^\n]*?)\] \*|::(test_\w+)", output.read())
        return b"".join(found[-1]).decode(errors="replace") if found else ""

    def tail(self) -> str:
        """Return the log's end; before it what Ansible and pytest say of what failed.

        Molecule buries that under its cleaning up.
        """
        lines = self.log.read_text(errors="replace").splitlines()
        # A result can be as long as a file.
        tasks = [line[:LONG_LINE] for line in lines if re.match(r"(fatal: \[|failed: \[|\[ERROR\])", line)][-FAILED_TASKS:]
        failures = [line for line in lines if re.match(r"(E  |FAILED |ERROR )", line)][:SUMMARY_LINES]
        return "\n".join("    " + line for line in [*tasks, *failures, *lines[-TAIL_LINES:]])


def clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


class Display:
    """A ticking line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self.reported = time.monotonic()

    def say(self, text: str) -> None:
        print(("\r\x1b[K" if self.terminal else "") + text, flush=True)

    def tick(self, running: list[Step]) -> None:
        text = " | ".join(f"{step.title}: {clock(step.seconds)}" for step in running)
        if len(running) == 1 and running[0].stage():
            text += f", {running[0].stage()}"
        if self.terminal:
            width = os.get_terminal_size().columns - 1
            print("\r\x1b[K" + text[:width], end="", flush=True)
        elif time.monotonic() - self.reported >= PLAIN_REPORT_SECONDS:
            self.say("  still running | " + text)
            self.reported = time.monotonic()

    def ended(self, step: Step) -> None:
        if step.state == "ok":
            self.say(f"ok      {step.title} ({clock(step.seconds)})")
        elif step.state == "no time":
            self.say(f"stopped {step.title} ({clock(step.seconds)}): the time for this run is over")
        else:
            self.say(
                f"FAILED  {step.title} ({clock(step.seconds)}), its last lines:\n{step.tail()}\n  whole log: {step.log.relative_to(ROOT)}"
            )


class Runner:
    """Runs steps in their order, as far as ``after`` and the deadline let them.

    The deadline is of time.monotonic.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        at_once: int = 2,
        deadline: float | None = None,
        ended: Callable[[Step], None] = lambda step: None,
    ) -> None:
        self.steps, self.at_once, self.deadline, self.ended = steps, at_once, deadline, ended
        self.by_title = {step.title: step for step in steps}
        self.running: list[Step] = []
        self.owners: dict[int, Step | None] = {}
        self.display, self.containers, self.idle = Display(), Containers(), Idle(IDLE_SECONDS)

    def run(self) -> bool:
        """Whether all steps succeeded but optional ones that there was no time for."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self._interrupted)
        adopt_orphans()
        while True:
            self._account()
            for step in list(self.running):
                self._look_at(step)
            self._start_what_can()
            if not self.running:
                break
            self.display.tick(self.running)
            time.sleep(0.2)
        for step in self.steps:
            if step.state == "waiting":
                step.state = "not run" if self._hopeless(step) else "no time"
        return all(step.state == "ok" or (step.optional and step.state == "no time") for step in self.steps)

    def _interrupted(self, signum: int, _frame: FrameType | None) -> None:
        for step in self.running:
            self._stop(step)
            step.state = "stopped"
        sys.exit(128 + signum)

    def _account(self) -> None:
        """Bury what has ended, and add its processor time to its step."""
        self.containers.look()
        for pid in children():
            if pid not in self.owners:
                self.owners[pid] = self.by_title.get(variable_of(pid, MARK))
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended(pid, status, used.ru_utime + used.ru_stime)

    def _ended(self, pid: int, status: int, seconds: float) -> None:
        step = self.owners.pop(pid, None)
        if step is not None:
            step.cpu += seconds
            if step.process is not None and pid == step.process.pid:
                step.code = step.process.returncode = os.waitstatus_to_exitcode(status)

    def _look_at(self, step: Step) -> None:
        now = time.monotonic()
        step.seconds = now - step.started
        if step.code and self._again(step):
            return
        if step.code is not None:
            step.state = "ok" if step.code == 0 else "failed"
        elif step.seconds > step.limit:
            self._stop(step)
            with step.log.open("a") as output:
                output.write(f"\nended after its limit of {step.limit:.0f} s\n")
            step.state = "failed"
        elif self.deadline is not None and now > self.deadline:
            self._stop(step)
            step.state = "no time"
        else:
            return
        self.containers.look(now=True)
        if step.label:
            step.cpu += self.containers.seconds.get(step.label, 0.0) - step.used_before
        # What goes on without it, such as kept connections.
        for pid in [pid for pid, owner in self.owners.items() if owner is step]:
            step.cpu += seconds_of(pid)
            self.owners[pid] = None
        self.running.remove(step)
        self.display.ended(step)
        self.ended(step)

    def _again(self, step: Step) -> bool:
        """Begin a step once more whose failure says nothing about what it tests."""
        text = step.log.read_text(errors="replace")
        if step.note or not step.nothing_tested or not re.search(step.nothing_tested, text, re.MULTILINE):
            return False
        self.display.say(f"again   {step.title}: it could not begin, see below\n{step.tail()}")
        step.note = "at the second try, the hosts could not be made before"
        step.code = None
        step.start()
        assert step.process is not None
        self.owners[step.process.pid] = step
        return True

    def _stop(self, step: Step) -> None:
        """End a step's processes, and what it made."""
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
            environment = {**os.environ, **step.environment}
            with step.log.open("ab") as output:
                try:
                    done = subprocess.run(
                        step.cleanup, cwd=ROOT, env=environment, stdout=output, stderr=output, timeout=CLEANUP_SECONDS, check=False
                    )
                    problem = f"ended with {done.returncode}" if done.returncode else ""
                except subprocess.TimeoutExpired:
                    problem = f"did not end in {CLEANUP_SECONDS} s"
            if problem:
                self.display.say(f"  what {step.title} made could not be removed: {step.cleanup[0]} {problem}; the next run tries again")

    def _start_what_can(self) -> None:
        idle = self.idle.share() > IDLE_SHARE
        for step in self.steps:
            places = self.at_once + (1 if step.light and idle else 0)
            if len(self.running) < places and self._ready(step):
                if step.label:
                    self.containers.look(now=True)
                    step.used_before = self.containers.seconds.get(step.label, 0.0)
                step.start()
                assert step.process is not None
                self.owners[step.process.pid] = step
                self.running.append(step)
                self.idle.restart()
                idle = False
                if not self.display.terminal:
                    self.display.say(f"start   {step.title}")

    def _ready(self, step: Step) -> bool:
        in_time = self.deadline is None or time.monotonic() + step.expected < self.deadline
        return step.state == "waiting" and in_time and all(self.by_title[title].state == "ok" for title in step.after)

    def _hopeless(self, step: Step) -> bool:
        return any(self.by_title[title].state in ("failed", "not run") for title in step.after)


def table(steps: Iterable[Step]) -> str:
    """One line per step, and the count alone on the last line."""
    rows, steps = [], list(steps)
    width = max(len(step.title) for step in steps)
    for step in steps:
        ran = step.process is not None
        times = f"{step.seconds:8.1f} s {step.cpu:8.1f} s" if ran else " " * 21
        rows.append(f"{step.title:<{width}} {times}  {step.state}{': ' if step.note else ''}{step.note}")
    states = [step.state for step in steps]
    head = f"{'':<{width}} {'wall':>10} {'processor':>10}"
    count = f"{states.count('ok')} passed, {states.count('failed')} failed"
    left = len(steps) - states.count("ok") - states.count("failed")
    return "\n".join(["", head, *rows, "", f"{count}, {left} not run" if left else count])
