# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""HAProxy: try a configuration, put it in place, and see that it runs.

HAProxy runs in its master-worker mode. The master gets the command to reload by its socket, so this program needs no rights. A new
worker takes over the listening sockets of the former one, which answers what it has begun. What HAProxy runs is asked, not remembered.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import socket
import subprocess
import time
import typing as t

from . import balancer_conf
from .balancer_conf import Written

CHECK_SECONDS = 120
PATIENCE = 20.0  # seconds for a reload; a configuration of thousands of services takes some


class Failed(Exception):
    """One sentence: why a configuration did not come to run."""


def put(path: str, text: str, mode: int = 0o640) -> None:
    """Replace a file at once; what was written is on the disk before the name is."""
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def get(path: str) -> str:
    """The text of a file; empty if it can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


class HAProxy:
    def __init__(self, state: str, runtime: str, program: str = "/usr/sbin/haproxy", patience: float = PATIENCE) -> None:
        self.configuration = f"{state}/haproxy.cfg"
        self._state = state
        self._runtime = runtime
        self._program = program
        self._patience = patience

    def ask(self, name: str, command: str, seconds: float = 10.0) -> str:
        """What a socket answers; empty if it does not."""
        end = time.monotonic() + seconds
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(seconds)
                client.connect(f"{self._runtime}/{name}.sock")
                client.sendall(f"{command}\n".encode())
                while time.monotonic() < end:
                    part = client.recv(1 << 16)
                    if not part:
                        break
                    answer += part
        except OSError:
            return ""
        return answer.decode("utf-8", "replace")

    def running(self) -> str:
        """The mark of the configuration that HAProxy runs; empty if it does not run."""
        seen = re.search(r"^[Dd]escription: *(\S+)$", self.ask("admin", "show info"), re.MULTILINE)
        return seen.group(1) if seen else ""

    def check(self, written: Written) -> str:
        """What HAProxy says against a configuration; empty if it takes it."""
        put(written.routes_path, written.routes)
        put(f"{self.configuration}.try", written.text)
        if not os.path.exists(f"{self._state}/servers.state"):
            put(f"{self._state}/servers.state", "1\n")  # the version of its form
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function  # because a program calls it, no module
                [self._program, "-c", "-f", f"{self.configuration}.try"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=CHECK_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"haproxy -c could not be run: {type(error).__name__}") from None
        return "" if done.returncode == 0 else done.stdout.decode("utf-8", "replace") or "no reason"

    def take(self, written: Written) -> None:
        """Put a configuration that was checked in place, and reload.

        :raises Failed: HAProxy does not run it; then the former one is in its place again, and its worker goes on.
        """
        former = get(self.configuration)
        os.replace(f"{self.configuration}.try", self.configuration)
        if not self.running():
            return  # its unit starts with this one
        # Which servers were down: without it each would get requests until its first check after the reload.
        states = self.ask("admin", "show servers state")
        if states:
            put(f"{self._state}/servers.state", states)
        if self._reload(written.digest):
            self._remove_maps()
            return
        if former:
            # The master has no worker of the new one and waits: the former one brings it back to work.
            put(self.configuration, former)
            self._reload(re.sub(r"(?s).*?\n  description (\S+)\n.*", r"\1", former))
        raise Failed("HAProxy does not start with the new configuration, such as for a port in use; the former one goes on")

    def _reload(self, digest: str) -> bool:
        self.ask("master", "reload")
        end = time.monotonic() + self._patience
        while time.monotonic() < end:
            if self.running() == digest:
                return True
            time.sleep(0.1)
        return False

    def _remove_maps(self) -> None:
        """Remove maps of former configurations. Workers have read theirs."""
        text = get(self.configuration)
        for path in glob.glob(f"{glob.escape(self._state)}/routes-*.map"):
            if path not in text:
                os.remove(path)

    def others(self, ports: t.Iterable[int], address: str) -> t.Set[int]:
        """Return those of the ports that another process of this host has.

        HAProxy would refuse the whole configuration for one of them.
        """
        known = balancer_conf.ports_of(get(self.configuration)) if self.running() else set()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        found = set()
        for port in sorted(set(ports) - known):
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("" if address == "*" else address, port))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        found.add(port)
        return found
