"""Run long commands side by side, show what runs and for how long, keep their whole output in files.

Used by scripts/step (one command), scripts/lint and scripts/test.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache/logs"
PLAIN_REPORT_SECONDS = 30
TAIL_LINES = 30
SUMMARY_LINES = 40
STAGE_BYTES = 8192


@dataclass
class Step:
    """One command with a name.

    ``after`` names steps that must have succeeded before; ``limit`` is in seconds.
    """

    title: str
    command: Sequence[str | os.PathLike[str]]
    after: tuple[str, ...] = ()
    limit: float = 3600
    environment: dict[str, str] = field(default_factory=dict)
    started: float = 0.0
    seconds: float = 0.0
    state: str = "waiting"  # running, ok, failed, not run
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return LOGS / (re.sub(r"[^A-Za-z0-9.]+", "-", self.title).strip("-").lower() + ".log")

    def start(self) -> None:
        self.state, self.started = "running", time.monotonic()
        LOGS.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            # A session of its own: the whole tree of processes can be ended, and none of them asks the terminal.
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> bool:
        """Whether the step has just ended."""
        assert self.process is not None
        self.seconds = time.monotonic() - self.started
        code = self.process.poll()
        if code is None and self.seconds > self.limit:
            self.stop()
            with self.log.open("a") as output:
                output.write(f"\nended after its limit of {self.limit:.0f} s\n")
            code = 1
        if code is None:
            return False
        self.state = "ok" if code == 0 else "failed"
        return True

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def stage(self) -> str:
        """The name of the play or task that Ansible runs now, as far as the log's end shows one."""
        with self.log.open("rb") as output:
            output.seek(max(0, self.log.stat().st_size - STAGE_BYTES))
            found = re.findall(rb"^(?:PLAY|TASK) \[(.*)\] \*", output.read(), re.MULTILINE)
        return found[-1].decode(errors="replace") if found else ""

    def tail(self) -> str:
        """The log's end; before it what pytest says of the tests that failed, which Molecule buries under its cleaning up."""
        lines = self.log.read_text(errors="replace").splitlines()
        failures = [line for line in lines if re.match(r"(E  |FAILED |ERROR )", line)][:SUMMARY_LINES]
        return "\n".join("    " + line for line in [*failures, *lines[-TAIL_LINES:]])


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
        else:
            self.say(
                f"FAILED  {step.title} ({clock(step.seconds)}), its last lines:\n{step.tail()}\n  whole log: {step.log.relative_to(ROOT)}"
            )


def ready(step: Step, by_title: dict[str, Step]) -> bool:
    return step.state == "waiting" and all(by_title[title].state == "ok" for title in step.after)


def hopeless(step: Step, by_title: dict[str, Step]) -> bool:
    return step.state == "waiting" and any(by_title[title].state in ("failed", "not run") for title in step.after)


def run(steps: Sequence[Step], at_once: int = 2) -> bool:
    """Run all steps, in their order where ``after`` lets them, and say whether all of them succeeded."""
    by_title = {step.title: step for step in steps}
    display = Display()

    def end_all(signum: int, _frame: FrameType | None) -> None:
        for step in steps:
            step.stop()
        sys.exit(128 + signum)

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, end_all)

    running: list[Step] = []
    while True:
        for step in [step for step in running if step.poll()]:
            running.remove(step)
            display.ended(step)
        for step in steps:
            if hopeless(step, by_title):
                step.state = "not run"
            elif len(running) < at_once and ready(step, by_title):
                step.start()
                running.append(step)
                if not display.terminal:
                    display.say(f"start   {step.title}")
        if not running:
            break
        display.tick(running)
        time.sleep(0.2)
    return all(step.state == "ok" for step in steps)


def table(steps: Iterable[Step]) -> str:
    """One line per step, and the count alone on the last line."""
    steps = list(steps)
    width = max(len(step.title) for step in steps)
    rows = [f"{step.title:<{width}}  {step.seconds:7.1f} s  {step.state}" for step in steps]
    passed = sum(step.state == "ok" for step in steps)
    return "\n".join(["", *rows, "", f"{passed} passed, {len(steps) - passed} failed"])
