# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# It runs on targets whose Python may be as old as 2.7, so types are in comments.
"""Run a command that may hang, and lose a known time at most."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import collections
import os
import resource
import signal
import subprocess
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO  # absent from Python 2.7

# nvidia-smi says about 50 KiB per GPU. A command that says more than this is ended by the kernel.
MAXIMUM_OUTPUT_BYTES = 16 * 1024 * 1024

# time.monotonic is absent from Python 2.7.
_clock = getattr(time, "monotonic", time.time)

# rc (int or None: killed, or never started), stdout and stderr (bytes), timed_out (bool)
CommandResult = collections.namedtuple("CommandResult", "rc stdout stderr timed_out")


class TimeBudget:
    """Seconds that all commands of one run share.

    :param seconds: float, counted from the creation of the budget.
    """

    def __init__(self, seconds):
        # type: (float) -> None
        self.seconds = seconds
        self._end = _clock() + seconds

    def remaining(self):
        # type: () -> float
        """Seconds that are left, 0.0 when none are."""
        return max(0.0, self._end - _clock())


def find_command(name):
    # type: (str) -> str | None
    """The full path of an executable file *name* in PATH, or None."""
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def run_bounded(argv, budget):
    # type: (list[str], TimeBudget) -> CommandResult
    """Run *argv* without a shell for the rest of *budget*.

    Then kill it and all that it started.
    Output goes to files, not pipes: a grandchild that keeps a pipe open could make a reader wait for ever.
    A process that even SIGKILL does not end at once (a driver that hangs in the kernel) is left behind.

    :returns: CommandResult; a command that cannot be started has rc None and the reason in stderr.
    """
    end = _clock() + budget.remaining()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr, open(os.devnull, "rb") as nothing:
        try:
            # run_command has no time limit: a hung nvidia-smi would hang it.
            process = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn,ansible-bad-function
                argv,
                stdin=nothing,
                stdout=stdout,
                stderr=stderr,
                close_fds=True,
                env=dict(os.environ, LC_ALL="C"),
                preexec_fn=_bound_child,
            )
        except (OSError, ValueError) as error:
            return CommandResult(None, b"", str(error).encode("utf-8"), False)
        pause = 0.001
        while process.poll() is None and _clock() < end:
            time.sleep(min(pause, max(0.0, end - _clock())))
            pause = min(pause * 2, 0.02)
        rc = process.poll()
        _kill_group(process.pid)
        if rc is None:
            process.poll()
        return CommandResult(rc, _content(stdout), _content(stderr), rc is None)


def _bound_child():
    # type: () -> None
    """A separate process group, to kill all of it; and no more output than is read."""
    os.setsid()
    hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    limit = MAXIMUM_OUTPUT_BYTES if hard_limit == resource.RLIM_INFINITY else min(MAXIMUM_OUTPUT_BYTES, hard_limit)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard_limit))


def _kill_group(pid):
    # type: (int) -> None
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass  # the whole group has ended by itself


def _content(stream):
    # type: (IO[bytes]) -> bytes
    stream.seek(0)
    return stream.read(MAXIMUM_OUTPUT_BYTES)
