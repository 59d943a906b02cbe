"""Count module executions and spent time, for scripts/bench.

It writes JSON to the file that EXECUTIONS names.
"""

from __future__ import annotations

import json
import os
import time
import typing as t
from collections import Counter
from pathlib import Path

from ansible.plugins.callback import CallbackBase

# They run on the control node and contact no host.
WITHOUT_MODULE = ("assert", "debug", "fail", "include_role", "include_tasks", "include_vars", "meta", "set_fact", "validate_argument_spec")


class CallbackModule(CallbackBase):
    """Executions by role and host, seconds and changes by task.

    The play counts where a task belongs to no role.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "executions"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.executions: Counter[tuple[str, str]] = Counter()
        self.seconds: dict[str, float] = {}
        self.task = ""
        self.started = time.monotonic()
        self.play = ""

    def next_task(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[self.task] = self.seconds.get(self.task, 0.0) + now - self.started
        self.task, self.started = name, now

    def count(self, result: t.Any) -> None:
        task = result.task
        if task.action.rpartition(".")[2] in WITHOUT_MODULE:
            return
        where = result.result.get("_ansible_delegated_vars", {}).get("ansible_delegated_host") or result.host.get_name()
        role = task._role.get_name(include_role_fqcn=False) if task._role else self.play
        self.executions[role, where] += 1

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self.play = play.get_name()

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self.next_task(f"{task.get_name()} [{task.action.rpartition('.')[2]}]")

    def v2_runner_on_ok(self, result: t.Any) -> None:
        if not result.task.loop:  # its items were counted
            self.count(result)

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        self.count(result)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self.next_task("")
        found = {
            "executions": [[role, host, number] for (role, host), number in self.executions.items()],
            "seconds": self.seconds,
            "changed": sum(stats.changed.values()),
        }
        Path(os.environ["EXECUTIONS"]).write_text(json.dumps(found))
