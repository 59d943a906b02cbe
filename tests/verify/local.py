"""How the tests reach a scenario's containers and run playbooks on them."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "molecule/shared/inventory/common.yml"


class Cluster:
    """The containers of one scenario and one release, looked at from outside; scripts/scenario says which."""

    # Seconds that a run of a playbook may take.
    limit = 600

    def __init__(self) -> None:
        self.release = os.environ["LOCAL_RELEASE"]
        self.label = os.environ["LOCAL_LABEL"]
        self.state = Path(os.environ["LOCAL_STATE"])
        self.secrets = Path(os.environ["LOCAL_SECRETS"])
        self.inventory = Path(os.environ["LOCAL_INVENTORY"])

    def run(self, host: str, command: str, user: str = "root", timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """A shell command in the user's home directory on a host; by root's connection, so that no process of the user's stays."""
        line = f"cd ~{user}; {command}"
        if user != "root":
            line = f"cd /; exec runuser {user} --shell /bin/bash --command {shlex.quote(line)}"
        words = ["ssh", "-F", str(self.secrets / "ssh_config"), f"root@{self.label}-{host}", line]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)

    def out(self, host: str, command: str, user: str = "root", timeout: float = 120) -> str:
        """What a command that must succeed printed."""
        done = self.run(host, command, user, timeout)
        assert done.returncode == 0, f"{host}: {command}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def until(self, host: str, command: str, wanted: str, seconds: float = 60) -> str:
        """Repeat a command until its output has the wanted text."""
        deadline = time.monotonic() + seconds
        while True:
            seen = self.run(host, command).stdout.strip()
            if wanted in seen:
                return seen
            assert time.monotonic() < deadline, f"{host}: {command} printed no {wanted!r} in {seconds} s, but: {seen}"
            time.sleep(0.5)

    def command(self, playbook: str, arguments: Sequence[str], inventories: Sequence[str]) -> list[str]:
        files = [COMMON, *(self.inventory / name for name in inventories)]
        sources = [word for file in files for word in ("-i", str(file))]
        # Else each task on each host would look them up in the environment, for its connection alone.
        known = json.dumps({"local_label": self.label, "local_secrets": str(self.secrets)})
        return [f"{sys.prefix}/bin/ansible-playbook", *sources, "-e", known, str(ROOT / playbook), *arguments]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.state / "facts"),
            # Molecule forces colours, and the tests read the words.
            "ANSIBLE_FORCE_COLOR": "0",
            "ANSIBLE_NOCOLOR": "1",
        }

    def playbook(
        self,
        playbook: str,
        *arguments: str,
        inventories: Sequence[str] = ("hosts.yml",),
        variables: Mapping[str, Any] | None = None,
        succeeds: bool = True,
    ) -> str:
        """Output of a playbook; variables go by a private file, as secrets do at a site."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(variables or {}, file)
            file.flush()
            words = self.command(playbook, [*arguments, "-e", f"@{file.name}"], inventories)
            done = subprocess.run(
                words,
                cwd=ROOT,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=self.limit,
                check=False,
            )
        assert (done.returncode == 0) == succeeds, done.stdout[-6000:]
        return done.stdout

    def killed_playbook(self, playbook: str, chance: random.Random, tasks: int, *arguments: str, **options: Any) -> str:
        """Start a playbook and kill it with SIGKILL during a random one of its first tasks; returns that task's name."""
        fatal = chance.randint(1, tasks)
        seen: list[str] = []

        def kill(line: str, process: subprocess.Popen[str]) -> None:
            if line.startswith("TASK ["):
                seen.append(line.split("]")[0][6:])
                if len(seen) == fatal:
                    time.sleep(chance.random())
                    os.killpg(process.pid, signal.SIGKILL)

        code, output = self.watched_playbook(playbook, kill, *arguments, **options)
        assert code == -signal.SIGKILL, f"the run ended by itself before task {fatal}: {output[-3000:]}"
        return seen[fatal - 1]

    def watched_playbook(
        self, playbook: str, on_line: Callable[[str, subprocess.Popen[str]], None], *arguments: str, **options: Any
    ) -> tuple[int, str]:
        """Run a playbook, in its own process group, and call on_line for each line it prints; returns exit code and output."""
        # Names a task when it begins; with skipped hosts hidden, when it has its first result.
        environment = {**self.environment(), "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true"}
        lines = []
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(options.get("variables") or {}, file)
            file.flush()
            words = self.command(playbook, [*arguments, "-e", f"@{file.name}"], options.get("inventories", ("hosts.yml",)))
            with subprocess.Popen(
                words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
            ) as process:
                assert process.stdout
                for line in process.stdout:
                    lines.append(line)
                    on_line(line, process)
        return process.returncode, "".join(lines)


def changed(output: str) -> list[str]:
    """The tasks that a run's output shows as changed, with their hosts."""
    found, task = [], ""
    for line in output.splitlines():
        if line.startswith("TASK ["):
            task = line.split("]")[0][6:]
        elif line.startswith("changed: "):
            found.append(f"{task}: {line.split('[', 1)[1].split(']')[0]}")
    return found
