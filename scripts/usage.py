"""Processor time of a step: of its processes and of its containers.

Not counted is what the container engine spends itself.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

LABEL = "deephdc.accelerators"
PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
_libc = ctypes.CDLL(None, use_errno=True)
# Folder, file of a container, units in a second: control groups v1, v2 with cgroupfs, v2 with systemd.
PLACES = (
    ("/sys/fs/cgroup/cpuacct/docker", "*/cpuacct.usage", 1e9),
    ("/sys/fs/cgroup/docker", "*/cpu.stat", 1e6),
    ("/sys/fs/cgroup/system.slice", "docker-*.scope/cpu.stat", 1e6),
)


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends.

    So their time can be read when they end.
    """
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(signum: int) -> None:
    """For a new process: get the signal when its parent is gone, however that ended."""
    _libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)


def variable_of(pid: int, name: str) -> str:
    """Read an environment variable of a running process, as of its program's start."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.decode().partition("=")[2] for word in words if word.startswith(f"{name}=".encode())), "")


def seconds_of(pid: int) -> float:
    """Processor time of a running process and of its children that have ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


class Containers:
    """Processor seconds of all containers by label; those that are gone count, too."""

    def __init__(self, checkout: str = "") -> None:
        self.checkout = checkout
        self._label: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def look(self) -> None:
        """Read the counters. What a container uses after the last look is lost."""
        for folder, pattern, unit in PLACES:
            for file in Path(folder).glob(pattern):
                name = file.parent.name.removeprefix("docker-").removesuffix(".scope")
                try:
                    seconds = int(file.read_text().split()[-1 if unit == 1e9 else 1]) / unit
                except (OSError, ValueError, IndexError):
                    continue
                if name not in self._label:
                    self._read_labels()
                    self._lower(name)
                label, last = self._label.setdefault(name, ""), self._last.get(name, 0.0)
                # A container that was restarted counts from zero.
                self.seconds[label] = self.seconds.get(label, 0.0) + (seconds - last if seconds >= last else seconds)
                self._last[name] = seconds

    def _lower(self, name: str) -> None:
        """Give a container of a run at low priority little of the processors."""
        if os.nice(0) > 0 and self._label.get(name, "").endswith(f"-{self.checkout}"):
            subprocess.run(["docker", "update", "--cpu-shares", "100", name], stdout=subprocess.DEVNULL, check=False)

    def _read_labels(self) -> None:
        command = ["docker", "ps", "--all", "--no-trunc", "--format", f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}']
        listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
        self._label.update((line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in listed.splitlines() if " " in line)
