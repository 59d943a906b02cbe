#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stand in for a cloud: the Docker engine's API, whose containers are machines that run systemd.

usage: im_cloud.py PORT LABEL [PLACE...]     listens on 127.0.0.1; PLACE: where each machine has a volume, as PATH, an empty one of its
                                              own, or as NAME:PATH, the scenario's of that name to read

The Infrastructure Manager's own connector for Docker talks to it. That connector starts sshd as a container's only process and lets it
have no rights; here a container is made as create.yml makes a test host. All calls go on to the engine, and these differ:

- images/create    answers at once: the images are there
- networks/create  adds the label LABEL, by which a scenario's clean-up finds what is left
- containers/create    adds the label, systemd's rights, the volumes, no limit of memory; ports are open on this machine alone; the
  container is called LABEL-HOSTNAME. Its own volumes go with it
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ENGINE = "/var/run/docker.sock"
LABEL_KEY = "deephdc.accelerators"
# As in molecule/shared/create.yml, which says why.
RIGHTS = {
    "CapAdd": ["SYS_ADMIN", "NET_ADMIN", "SYS_NICE", "SYS_PTRACE", "MKNOD"],
    "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"],
    "DeviceCgroupRules": ["a *:* rwm"],
    "CgroupnsMode": "private",
    # As a machine's own: else no container in it may mount a /proc.
    "MaskedPaths": [],
    "ReadonlyPaths": [],
    "Tmpfs": {"/run": "", "/run/lock": ""},
    "Memory": 0,
}


class Engine(http.client.HTTPConnection):
    """A connection to the engine's socket."""

    def __init__(self) -> None:
        super().__init__("localhost", timeout=120)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(ENGINE)


def machine(wanted: dict[str, Any], label: str, places: tuple[str, ...]) -> dict[str, Any]:
    """Make a container's description one of a machine that boots."""
    host = {**wanted.get("HostConfig", {}), **RIGHTS}
    volumes = [(place.rpartition(":")[0], place.rpartition(":")[2]) for place in places]
    host["Binds"] = [f"{label}-{name}:{path}:ro" for name, path in volumes if name]
    host["Mounts"] = [{"Type": "volume", "Target": path} for name, path in volumes if not name]
    for bindings in (host.get("PortBindings") or {}).values():
        for one in bindings:
            one["HostIp"] = "127.0.0.1"
    made = {**wanted, "HostConfig": host, "Labels": {LABEL_KEY: label}, "StopSignal": "SIGRTMIN+3"}
    # The image's entry point starts systemd.
    made.pop("Cmd", None)
    return made


class Cloud(BaseHTTPRequestHandler):
    """One call."""

    label = ""
    places: tuple[str, ...] = ()

    def answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status != http.client.NO_CONTENT:
            self.wfile.write(content)

    def pass_on(self) -> None:
        path = self.path
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path.startswith("/images/create"):
            return self.answer(http.client.OK, b"{}")
        if path.startswith("/networks/create"):
            content = json.dumps({**json.loads(content), "Labels": {LABEL_KEY: self.label}}).encode()
        if path.startswith("/containers/create"):
            wanted = json.loads(content)
            content = json.dumps(machine(wanted, self.label, self.places)).encode()
            path = f"/containers/create?name={self.label}-{wanted['Hostname']}"
        if self.command == "DELETE" and path.startswith("/containers/"):
            path += f"{'&' if '?' in path else '?'}v=true"
        engine = Engine()
        try:
            engine.request(self.command, path, content or None, {"Content-Type": "application/json"})
            answer = engine.getresponse()
            return self.answer(answer.status, answer.read())
        finally:
            engine.close()

    do_GET = do_POST = do_PUT = do_DELETE = pass_on


def main() -> None:
    port, Cloud.label, Cloud.places = int(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])
    ThreadingHTTPServer(("127.0.0.1", port), Cloud).serve_forever()


if __name__ == "__main__":
    main()
