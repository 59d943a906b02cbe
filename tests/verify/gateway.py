"""Requests to the gateway to SLURM, on its socket on the host slurm: what only the front can send."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from local import Cluster

SOCKET = "/run/slurm_gateway/http.socket"
MAP = "/etc/slurm_gateway/accounts.json"
KEY = "/etc/slurm_gateway/jwt_hs256.key"
ISSUER = "https://iam.site.test"
# The provider's immutable ids; the inventory maps alice to ada and bob to eve.
ALICE, BOB, CAROL, MALLORY = (f"11111111-1111-4111-8111-00000000000{number}" for number in range(1, 5))

CLIENT = """
import http.client, json, socket, sys
request = json.loads(sys.argv[1])
connection = http.client.HTTPConnection("localhost", timeout=60)
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(request["socket"])
body = request["body"]
if body is not None and request["pad"]:
    body = body.replace("PAD", "x" * request["pad"])
connection.putrequest(request["method"], request["path"])
for name, value in request["headers"]:
    connection.putheader(name, value)
if body is not None:
    connection.putheader("Content-Length", str(len(body.encode())))
try:
    connection.endheaders(body.encode() if body is not None else None)
except (BrokenPipeError, ConnectionResetError):
    pass  # refused before all was sent
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


def identity(subject: str, issuer: str = ISSUER) -> list[tuple[str, str]]:
    return [("X-Token-Issuer", issuer), ("X-Token-Subject", subject)]


def ask(
    cluster: Cluster,
    subject: str | None,
    path: str,
    body: Any = None,
    *,
    method: str = "",
    more: list[tuple[str, str]] | None = None,
    pad: int = 0,
) -> tuple[int, Any]:
    """Status and content of an answer to the front; more: further headers; pad: the length that PAD in the body gets."""
    headers = [*(identity(subject) if subject else []), *(more or []), *([("Content-Type", "application/json")] if body else [])]
    request = {
        "socket": SOCKET,
        "method": method or ("POST" if body else "GET"),
        "path": path,
        "headers": headers,
        "body": json.dumps(body) if body else None,
        "pad": pad,
    }
    command = f"python3 -c {shlex.quote(CLIENT)} {shlex.quote(json.dumps(request))}"
    status, _blank, text = cluster.out("slurm", command, user="www-data").partition(" ")
    return int(status), json.loads(text) if text.startswith(("{", "[")) else text


def raw(cluster: Cluster, request: bytes) -> str:
    """What the gateway answers to bytes that no library would send."""
    code = (
        f"import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect({SOCKET!r}); "
        f"s.sendall({request!r}); print(s.recv(4096))"
    )
    return cluster.out("slurm", f"python3 -c {shlex.quote(code)}", user="www-data")


def submit(cluster: Cluster, subject: str, program: str, **job: Any) -> int:
    status, answer = ask(
        cluster, subject, "/v1/jobs", {"script": f"#!/bin/bash\n{program}\n", "time_limit_minutes": 5, "memory_mib": 64, **job}
    )
    assert status == 201, answer
    return int(answer["id"])


def watched(cluster: Cluster, subject: str, job: int, state: str = "", seconds: float = 90) -> dict[str, Any]:
    """A job once it has ended, or is in a state."""
    deadline = time.monotonic() + seconds
    while True:
        status, answer = ask(cluster, subject, f"/v1/jobs/{job}")
        assert status == 200, answer
        if answer["state"] == state if state else answer["ended"]:
            return answer
        assert time.monotonic() < deadline, f"job {job} is not {state or 'at its end'} in {seconds} s: {answer}"
        time.sleep(0.5)
