# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Take the lock of a site for this run, and keep it until the run is over.

An action, because a module ends before its run does.
"""

from __future__ import annotations

import datetime
import getpass
import multiprocessing
import os
import signal
import time
import typing as t

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.deephdc.accelerators.plugins.plugin_utils import _site_lock

# Seconds: to the next renewal, and after one that failed.
RENEW = _site_lock.GOOD_FOR / 6
AGAIN = 3
# A run that has just ended on another control node gives the lock back within this time.
PATIENCE = 4


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={"host": {"type": "str", "required": True}, "ended": {"type": "str", "default": ""}}
        )
        result["changed"] = False
        # This is a worker of Ansible. Its parent may have been killed by now, and then its number would be another's.
        parent = multiprocessing.parent_process()
        ansible = parent.pid if parent and parent.pid else os.getppid()
        mine = _site_lock.this(ansible, person(), list(context.CLIARGS.get("args") or ()), now())
        word, lines = self.ask("take", mine, arguments["ended"] or "-")
        began = time.monotonic()
        while word == "held":
            other = _site_lock.holder(lines)
            if other and _site_lock.has_ended(other):
                word, lines = self.ask("take", mine, other.run)
                lines = lines or ["", other.sentence]
                break
            if time.monotonic() - began > PATIENCE:
                return {**result, "failed": True, "msg": refusal(arguments["host"], other)}
            time.sleep(1)
            word, lines = self.ask("take", mine, arguments["ended"] or "-")
        if word == "kept":
            return result  # a playbook before this one in the same run has left a process behind already
        if word != "taken":
            why = (
                f"Ansible is not root on {arguments['host']}: set ansible_become"
                if word == "not root"
                else f"{arguments['host']} said {word!r}"
            )
            return {**result, "failed": True, "msg": f"The lock of the site could not be taken: {why}."}
        if len(lines) > 1:
            result["msg"] = f"Another run ended without giving the lock of the site back: {lines[1]}. This run has it now."
        self.keep(mine, ansible)
        return result

    def ask(self, what: str, run: _site_lock.Run, other: str = "-") -> tuple[str, list[str]]:
        """What the host says, and the lines of the lock that was there."""
        done = self._low_level_execute_command(_site_lock.command(what, run, other), sudoable=True)
        lines = str(done.get("stdout") or "").strip().splitlines()
        if done.get("rc") or not lines:
            return " ".join(str(done.get("stderr") or done.get("stdout") or "nothing").split())[-200:], []
        return lines[0], lines[1:]

    def keep(self, run: _site_lock.Run, ansible: int) -> None:
        """Leave a process behind that holds the lock as long as Ansible's process lives."""
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            self.hold(run, ansible)
        finally:
            os._exit(0)

    def hold(self, run: _site_lock.Run, ansible: int) -> None:
        # Of a terminal, for the run alone; and of a service whose run has ended, when the lock must be given back still.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Who reads Ansible's output waits for the end of all who could write to it.
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, 1024)
        os.chdir("/")
        Display()._final_q = None  # of a worker of Ansible, which this is no more
        due, lost = time.monotonic() + RENEW, 0
        while _site_lock.start_of(ansible) == run.start or (run.start == "-" and _site_lock.start_of(ansible) is not None):
            time.sleep(0.5)
            if time.monotonic() > due:
                try:
                    lost = lost + 1 if self.ask("renew", run)[0] == "lost" else 0
                    due = time.monotonic() + RENEW
                except Exception:  # because a host that boots answers again later
                    due = time.monotonic() + AGAIN
                # Once is no proof: a run that is refused on another host gives back what it took here.
                if lost > 1:
                    os.kill(ansible, signal.SIGTERM)
                    return
        self.ask("release", run)


def person() -> str:
    """Who started the run, also by sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def refusal(host: str, other: _site_lock.Run | None) -> str:
    if other is None:
        return f"{_site_lock.FILE} on {host} is damaged: remove it when no other run is going on, then run again."
    return (
        f"Another run is going on at this site: {other.sentence} (lock on {host}). Wait until it has ended. If it has ended, and its "
        f"control node is gone, the lock ends by itself after {_site_lock.GOOD_FOR // 60} minutes; at once with "
        f"-e site_check_ended_run={other.run}."
    )
