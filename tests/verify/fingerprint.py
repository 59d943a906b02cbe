"""What a cluster is, as lines of text: a file of tests must leave it as it was.

scripts/scenario notes it when the cluster has been made; tests/verify/conftest.py compares at the end of each file.
usage: python tests/verify/fingerprint.py     note it
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPT = Path(__file__).with_name("host_state")
# Nodes report, pods end and units start a moment after the command that asked for it.
PATIENCE = 45
SHOWN = 20


def hosts() -> list[str]:
    """The containers of the cluster that scripts/scenario names."""
    command = ["docker", "ps", "--filter", f"label=deephdc.accelerators={os.environ['LOCAL_LABEL']}", "--format", "{{.Names}}"]
    return sorted(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split())


def state(host: str) -> list[str]:
    """What one host has; a host that can't say it has nothing, which is a difference."""
    with SCRIPT.open() as script:
        done = subprocess.run(
            ["docker", "exec", "-i", host, "bash", "-s"],
            stdin=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    name = host.removeprefix(os.environ["LOCAL_LABEL"] + "-")
    return sorted(f"{name}: {line}" for line in {"host", *done.stdout.splitlines()})


def fingerprint() -> list[str]:
    """All lines of all hosts."""
    found = hosts()
    with ThreadPoolExecutor(4) as pool:
        return [line for lines in pool.map(state, found) for line in lines]


def differences(before: list[str], after: list[str]) -> list[str]:
    """What was and is no more, and what is new, as in a diff."""
    return [f"-{line}" for line in sorted(set(before) - set(after))] + [f"+{line}" for line in sorted(set(after) - set(before))]


def left_behind(noted: Path) -> list[str]:
    """What differs from what was noted, as soon as nothing does, else after a while."""
    before = json.loads(noted.read_text())
    deadline = time.monotonic() + PATIENCE
    while True:
        found = differences(before, fingerprint())
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(3)


if __name__ == "__main__":
    Path(os.environ["LOCAL_STATE"], "fingerprint.json").write_text(json.dumps(fingerprint(), indent=0))
