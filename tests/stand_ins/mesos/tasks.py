# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs tasks of the stand-in agent: a shell in control groups of v1, from which only the granted GPU opens."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

# src/slave/containerizer/mesos/isolators/cgroups/subsystems/devices.cpp; /dev/net/tun too
DEVICES = ["c *:* m", "b *:* m", "c 5:1 rwm", "c 4:0 rwm", "c 4:1 rwm", "c 136:* rwm", "c 5:2 rwm", "c 10:200 rwm"]
DEVICES += ["c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 5:0 rwm", "c 1:9 rwm", "c 1:8 rwm"]
# The wrapper joins the groups, becomes the user, and leaves the exit status where a restarted agent finds it.
WRAPPER = """for group in $GROUPS_OF_TASK; do echo $$ > "$group/cgroup.procs" || exit 126; done
exit_file=$EXIT_FILE; account=$ACCOUNT; nnp=$NO_NEW_PRIVS; unset GROUPS_OF_TASK EXIT_FILE ACCOUNT NO_NEW_PRIVS
if [ "$(id -un)" = "$account" ]; then setpriv $nnp /bin/sh -c "$0" > "$MESOS_SANDBOX/stdout" 2> "$MESOS_SANDBOX/stderr"
else setpriv --reuid="$account" --regid="$(id -g "$account")" --init-groups --inh-caps=-all $nnp \
  /bin/sh -c "$0" > "$MESOS_SANDBOX/stdout" 2> "$MESOS_SANDBOX/stderr"; fi
echo $? > "$exit_file.new"; mv "$exit_file.new" "$exit_file"
"""


def hierarchy(controller: str, mounts: str) -> Path | None:
    """Where a controller of cgroup v1 is mounted, by the text of /proc/mounts."""
    for line in mounts.splitlines():
        _device, path, kind, options = line.split(" ")[:4]
        if kind == "cgroup" and controller in options.split(","):
            return Path(path)
    return None


def rule(path: Path) -> str:
    """The device rule that allows one character device."""
    number = path.stat().st_rdev
    return f"c {os.major(number)}:{os.minor(number)} rwm"


class Task:
    """One task, kept in a folder of the agent's meta directory so that a restarted agent finds it."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.folder, self.record = folder, record
        self.kill_at: float | None = None

    @classmethod
    def load(cls, folder: Path) -> Task:
        return cls(folder, json.loads((folder / "task.json").read_text(encoding="utf-8")))

    def save(self) -> None:
        new = self.folder / "task.json.new"
        new.write_text(json.dumps(self.record), encoding="utf-8")
        new.replace(self.folder / "task.json")

    def update(self, state: str, message: str = "", reason: str = "REASON_COMMAND_EXECUTOR_FAILED") -> None:
        changed = {"state": state, "message": message, "reason": reason, "uuid": str(uuid.uuid4()), "timestamp": time.time()}
        self.record.update(changed)
        self.save()

    def groups(self) -> list[Path]:
        return [Path(path) for path in self.record.get("groups", [])]

    def start(self, environment: dict[str, str], devices: list[Path], roots: dict[str, Path], root: str) -> None:
        """Make control groups and sandbox, then start the command."""
        sandbox = Path(self.record["sandbox"])
        sandbox.mkdir(parents=True, exist_ok=True)
        try:
            account = pwd.getpwnam(self.record["user"])
        except KeyError:
            self.update("TASK_FAILED", f"Failed to get user information for '{self.record['user']}'", "REASON_CONTAINER_LAUNCH_FAILED")
            return
        os.chown(sandbox, account.pw_uid, account.pw_gid)
        name = self.record["container"]
        self.record["groups"] = [str(path / root / name) for path in roots.values()]
        for controller, path in roots.items():
            group = path / root / name
            group.mkdir(parents=True, exist_ok=True)
            if controller == "devices":
                (group / "devices.deny").write_text("a", encoding="ascii")
                for line in DEVICES + [rule(device) for device in devices]:
                    (group / "devices.allow").write_text(line, encoding="ascii")
            elif controller == "memory":
                # Mesos adds 32 MB for the executor, which the wrapper stands for.
                limit = int((self.record["resources"].get("mem", 32.0) + 32) * 2**20)
                (group / "memory.limit_in_bytes").write_text(str(limit), encoding="ascii")
        groups = " ".join(self.record["groups"])
        limits = "--no-new-privs" if self.record["nnp"] else ""
        mine = {"NO_NEW_PRIVS": limits, "GROUPS_OF_TASK": groups, "EXIT_FILE": str(self.folder / "exit"), "ACCOUNT": account.pw_name}
        process = subprocess.Popen(
            ["/bin/sh", "-c", WRAPPER, self.record["text"]],
            env={**environment, **mine},
            cwd=sandbox,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.record["pid"] = process.pid
        self.update("TASK_RUNNING", reason="REASON_TASK_CHECK_STATUS_UPDATED")

    def processes(self) -> list[int]:
        """Processes of the task: those of its control group, else of its session."""
        for group in self.groups():
            if group.is_dir():
                return [int(line) for line in (group / "cgroup.procs").read_text(encoding="ascii").split()]
        listed = subprocess.run(["ps", "-s", str(self.record.get("pid", 0)), "-o", "pid="], capture_output=True, text=True, check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def signal(self, number: int) -> None:
        for pid in self.processes():
            # The wrapper stays for the exit status, unless all have to go.
            if pid != self.record.get("pid") or number == signal.SIGKILL:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue

    def kill(self, grace: float) -> None:
        """Ask it to end, and end it after the grace period."""
        if "killed" not in self.record:
            self.record["killed"] = True
            self.save()
            self.signal(signal.SIGTERM)
        wanted = time.time() + grace
        self.kill_at = min(self.kill_at, wanted) if self.kill_at else wanted

    def look(self) -> bool:
        """Whether its state changed: it ended, was killed, or its grace period is over."""
        if self.record["state"] != "TASK_RUNNING":
            return False
        if self.kill_at and time.time() >= self.kill_at:
            self.signal(signal.SIGKILL)
        # It is no child any more if the agent was started again.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.record["pid"], os.WNOHANG)
        exit_file = self.folder / "exit"
        alive = Path(f"/proc/{self.record['pid']}").exists()
        if not exit_file.exists() and alive:
            return False
        code = int(exit_file.read_text(encoding="ascii")) if exit_file.exists() else -1
        self.signal(signal.SIGKILL)
        for group in self.groups():
            try:
                group.rmdir()
            except OSError:
                # Killed processes need a moment. What is left is an empty group.
                continue
        if self.record.get("killed"):
            state = "TASK_GONE_BY_OPERATOR" if self.record.get("gone") else "TASK_KILLED"
            self.update(state, self.record.get("why", ""), self.record.get("because", "REASON_COMMAND_EXECUTOR_FAILED"))
        elif code == 0:
            self.update("TASK_FINISHED")
        else:
            self.update("TASK_FAILED", f"Command exited with status {code}" if code >= 0 else "Command terminated with signal Killed")
        return True

    def forget(self) -> None:
        """Remove what the agent keeps of it; its sandbox stays, as Mesos keeps it for gc_delay."""
        shutil.rmtree(self.folder, ignore_errors=True)
