"""A client that sends exactly the given bytes, and the application's view of what came through."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import typing as t
from contextlib import suppress

MARK = re.compile(r"a=([a-z0-9]+)~")


class Reply(t.NamedTuple):
    """status is 0 where the connection ended without an answer."""

    status: int
    head: str
    body: str

    def headers(self, name: str) -> list[str]:
        found = []
        for line in self.head.split("\r\n")[1:]:
            key, _colon, value = line.partition(":")
            if key.strip().lower() == name:
                found.append(value.strip())
        return found


TRUST = ssl.create_default_context()


def exchange(host: str, request: bytes, linger: float = 0.0) -> Reply:
    """Send over a new TLS connection and read one answer.

    With linger, all that comes until nothing has come for so long.
    """
    received = b""
    plain = socket.create_connection((host, 443), timeout=15)
    with TRUST.wrap_socket(plain, server_hostname=host) as connection, suppress(OSError):
        connection.sendall(request)
        if linger:
            connection.settimeout(linger)
        while part := connection.recv(65536):
            received += part
            if not linger and complete(received, request):
                break
    head, _blank, body = received.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    return Reply(int(status[1]) if status else 0, head.decode("latin-1"), body.decode("latin-1"))


def complete(received: bytes, request: bytes) -> bool:
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return False
    if request.startswith(b"HEAD ") or re.match(rb"HTTP/1\.[01] (204|304)", head):
        return True
    if size := re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE):
        return len(body) >= int(size[1])
    return b"chunked" in head.lower() and body.endswith(b"0\r\n\r\n")


class Application:
    """What reached it since it was asked last, by the mark that each attack carries in its address."""

    def __init__(self, host: str = "app", port: int = 8001) -> None:
        self.lock = threading.Lock()
        self.connection = http.client.HTTPConnection(host, port, timeout=20)
        self.seen: dict[str, list[dict[str, str]]] = {}

    def look(self) -> None:
        with self.lock:
            self.connection.request("DELETE", "/records")
            for record in json.load(self.connection.getresponse()):
                mark = MARK.search(record["head"])
                self.seen.setdefault(mark[1] if mark else "", []).append(record)

    def of(self, mark: str) -> list[dict[str, str]]:
        return self.seen.get(mark, [])
