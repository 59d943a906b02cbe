"""Looks for a secret where it must not be: process lists while something runs, logs, and what every user can read."""

from __future__ import annotations

import base64
import threading
from pathlib import Path

from local import ROOT, Cluster


class ProcessWatch(threading.Thread):
    """Reads every command line and environment on this machine, which includes the containers', until it is stopped."""

    def __init__(self, needles: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.needles, self.found, self.rounds = needles, set[str](), 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            self.rounds += 1
            for process in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        text = (process / name).read_bytes()
                    except OSError:
                        continue  # gone, or another user's
                    if any(needle in text for needle in self.needles):
                        self.found.add(f"{name}: {text[:200]!r}")

    def stop(self) -> None:
        self.done.set()
        self.join()
        assert self.rounds > 50


def needles(key: bytes) -> list[bytes]:
    """A part is enough to find a key, whatever a log does to line lengths."""
    return [base64.b64encode(key)[:40], key[:24]]


def on_control_node(cluster: Cluster, key: bytes) -> list[Path]:
    """Fact caches and logs of the control node that have the key."""
    files = [*cluster.state.joinpath("facts").glob("*"), *(ROOT / ".cache/logs").glob("*")]
    return [file for file in files if file.is_file() and any(needle in file.read_bytes() for needle in needles(key))]


def on_host(cluster: Cluster, host: str, key: bytes, path: str) -> list[str]:
    """Where a host has the key beside its own file: in its journal, its logs, or readable for every user.

    The search finds two copies that are planted for it, as text and as bytes; one that finds less is no proof.
    """
    text = base64.b64encode(key).decode()
    found = cluster.out(host, f"journalctl --no-pager -o cat | grep -aF '{text[:40]}'; grep -rlaF '{text[:40]}' /var/log; true").split()
    cluster.out(host, f"umask 022; cp {path} /var/tmp/bytes; chmod 644 /var/tmp/bytes; base64 -w0 /var/tmp/bytes > /var/tmp/text")
    search = (
        "import os, sys\n"
        f"needles = {needles(key)!r}\n"
        "for top in ('/etc', '/home', '/opt', '/root', '/run', '/srv', '/tmp', '/usr/local', '/var'):\n"
        "    for folder, _folders, names in os.walk(top):\n"
        "        for path in (os.path.join(folder, name) for name in names):\n"
        "            try:\n"
        "                if os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_mode & 4:\n"
        "                    if any(needle in open(path, 'rb').read() for needle in needles): print(path)\n"
        "            except FileNotFoundError: pass  # a temporary file that is gone\n"
    )
    readable = cluster.run(host, f"python3 - <<'END'\n{search}\nEND").stdout.split()
    cluster.out(host, "rm /var/tmp/bytes /var/tmp/text")
    planted = ["/var/tmp/bytes", "/var/tmp/text"]
    assert set(planted) <= set(readable), f"{host}: the search does not work: {readable}"
    return found + [file for file in readable if file not in planted]
