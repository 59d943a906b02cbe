"""Processor time of a step: of the processes that it started, and its containers.

Processes that outlive the step count, too. Not counted is what the container engine spends itself.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from pathlib import Path

CONTAINER_LABEL = "deephdc.accelerators"
SECONDS_BETWEEN_LOOKS = 2
PR_SET_CHILD_SUBREAPER = 36
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends.

    So their time can be read when they end.
    """
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(signum: int) -> None:
    """For a new process: get the signal when its parent is gone, however that ended."""
    _libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)


def children() -> list[int]:
    try:
        return [int(word) for task in Path("/proc/self/task").iterdir() for word in (task / "children").read_text().split()]
    except OSError:
        return []


def variable_of(pid: int, name: str) -> str:
    """Read an environment variable of a running process, as of its program's start."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.decode().partition("=")[2] for word in words if word.startswith(f"{name}=".encode())), "")


def _container_usage() -> dict[str, float]:
    """Seconds by container's id, with cgroup v1 or v2."""
    places = [
        ("/sys/fs/cgroup/cpuacct/docker", "*/cpuacct.usage", 1e9),
        ("/sys/fs/cgroup/docker", "*/cpu.stat", 1e6),
        ("/sys/fs/cgroup/system.slice", "docker-*.scope/cpu.stat", 1e6),
    ]
    found = {}
    for folder, pattern, unit in places:
        for file in Path(folder).glob(pattern):
            name = file.parent.name.removeprefix("docker-").removesuffix(".scope")
            try:
                found[name] = int(file.read_text().split()[-1 if unit == 1e9 else 1]) / unit
            except (OSError, ValueError, IndexError):
                continue
    return found


def seconds_of(pid: int) -> float:
    """Processor time of a running process and of its children that have ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


class Containers:
    """Processor time of all containers with the project's label, by label.

    Containers that are gone count, too.
    """

    def __init__(self) -> None:
        self._label: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self._looked = 0.0

    def look(self, now: bool = False) -> None:
        """Read the counters, if the last look is not recent.

        What a container uses after the last look is lost.
        """
        if not now and time.monotonic() - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        self._looked = time.monotonic()
        usage = _container_usage()
        if set(usage) - set(self._label):
            self._read_labels()
        for name, seconds in usage.items():
            label = self._label.setdefault(name, "")
            last = self._last.get(name, 0.0)
            # A container that was restarted counts from zero.
            self.seconds[label] = self.seconds.get(label, 0.0) + (seconds - last if seconds >= last else seconds)
            self._last[name] = seconds

    def _read_labels(self) -> None:
        command = ["docker", "ps", "--all", "--no-trunc", "--format", f'{{{{.ID}}}} {{{{.Label "{CONTAINER_LABEL}"}}}}']
        listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        self._label.update((line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in listed.splitlines() if " " in line)


class Idle:
    """How much of the machine's processor time was idle lately."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._seen: list[tuple[float, int, int]] = []

    def share(self) -> float:
        """0 to 1, over the last seconds; 0 until they have passed."""
        values = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        now = time.monotonic()
        self._seen.append((now, values[3] + values[4], sum(values)))
        while len(self._seen) > 1 and now - self._seen[1][0] >= self.seconds:
            self._seen.pop(0)
        began, idle, whole = self._seen[0]
        if now - began < self.seconds:
            return 0.0
        return (self._seen[-1][1] - idle) / max(1, self._seen[-1][2] - whole)

    def restart(self) -> None:
        """Something has begun: what was before says nothing any more."""
        self._seen.clear()
