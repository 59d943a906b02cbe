"""Connections that say nothing, or very slowly, all from this address.

Meanwhile others must be served, in time.

usage: silent.py FRONT WAYS NUMBER      WAYS: names in ways(), parted by commas, or all; NUMBER: connections at a time

Each line of the output says which way, from when to when, and how often connections were opened. Meanwhile asker.py asks from another host.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
import typing as t
from contextlib import suppress

from hostile import Hostile

HOST = "front.site.test"
TRUST = ssl.create_default_context()
SECONDS = 3
Part = t.Tuple[float, bytes]


def hello() -> bytes:
    """A ClientHello as this machine's library writes it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = TRUST.wrap_bio(incoming, outgoing, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def slowly(data: bytes, pause: float = 0.5) -> list[Part]:
    return [(pause, data[at : at + 1]) for at in range(len(data))]


def ways(front: Hostile) -> dict[str, tuple[int, bool, list[Part]]]:
    """By name: port, whether TLS is begun, and what is sent when. {token} and a session's cookie are good ones."""
    token = front.forge.good("https://front.site.test/api")
    get = f"GET /api/ HTTP/1.1\r\nHost: {HOST}\r\n".encode()
    good = get + f"Authorization: Bearer {token}\r\n".encode()
    post = f"POST /api/ HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n".encode()
    begun = hello()
    return {
        "tcp-alone": (443, False, []),
        "tcp-one-byte": (443, False, [(0, b"\x16")]),
        "hello-half": (443, False, [(0, begun[: len(begun) // 2])]),
        "hello-but-one": (443, False, [(0, begun[:-1])]),
        "hello-by-bytes": (443, False, slowly(begun)),
        "hello-alone": (443, False, [(0, begun)]),
        "hello-too-long": (443, False, [(0, b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc")]),
        "plain-http": (443, False, [(0, b"GET / HTTP/1.1\r\n")]),
        "noise": (443, False, [(0, b"\0" * 100)]),
        "tls-alone": (443, True, []),
        "one-letter": (443, True, [(0, b"G")]),
        "line-alone": (443, True, [(0, b"GET /api/ HTTP/1.1\r\n")]),
        "line-by-bytes": (443, True, slowly(get)),
        "headers-open": (443, True, [(0, good)]),
        "headers-by-bytes": (443, True, [(0, good), *slowly(b"X-Note: " + b"x" * 60)]),
        "headers-by-lines": (443, True, [(0, good), *[(0.5, b"X-Note: x\r\n") for _line in range(40)]]),
        "blank-lines": (443, True, [(0.3, b"\r\n") for _line in range(40)]),
        "body-never": (443, True, [(0, post + b"Content-Length: 1000\r\n\r\n")]),
        "body-by-bytes": (443, True, [(0, post + b"Content-Length: 1000\r\n\r\n"), *slowly(b"x" * 30)]),
        "chunks-never": (443, True, [(0, post + b"Transfer-Encoding: chunked\r\n\r\n")]),
        "chunks-by-bytes": (
            443,
            True,
            [(0, post + b"Transfer-Encoding: chunked\r\n\r\n"), *[(0.5, b"1\r\nx\r\n") for _chunk in range(30)]],
        ),
        "continue-never": (443, True, [(0, post + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n")]),
        "body-without-token": (443, True, [(0, get.replace(b"GET", b"POST") + b"Content-Length: 1000\r\n\r\n")]),
        "kept-alive": (443, True, [(0, good + b"\r\n")]),
        "asked-again": (443, True, [(1, good + b"\r\n") for _time in range(4)]),
        "never-read": (443, True, [(0, (good + b"\r\n") * 200)]),
        "slow-upstream": (443, True, [(0, good.replace(b"/api/", b"/api/slow/9") + b"\r\n")]),
        "port-80-alone": (80, False, []),
        "port-80-line": (80, False, [(0, b"GET / HTTP/1.1\r\n")]),
        "port-80-by-bytes": (80, False, slowly(b"GET / HTTP/1.1\r\nHost: front.site.test\r\nX-Note: xxxxxx")),
        "port-80-body": (80, False, [(0, b"POST / HTTP/1.1\r\nHost: front.site.test\r\nContent-Length: 1000\r\n\r\n")]),
        "port-80-kept-alive": (80, False, [(0, b"GET / HTTP/1.1\r\nHost: front.site.test\r\n\r\n")]),
    }


class Silent:
    """Many connections of one kind for some seconds.

    Each that the other side closes is opened again.
    """

    def __init__(self, way: tuple[int, bool, list[Part]], number: int) -> None:
        self.port, self.tls, self.parts = way
        self.over = threading.Event()
        self.opened = 0
        self.threads = [threading.Thread(target=self.hold, daemon=True) for _one in range(number)]
        for thread in self.threads:
            thread.start()

    def hold(self) -> None:
        while not self.over.is_set():
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=10) as plain:
                self.opened += 1
                connection = TRUST.wrap_socket(plain, server_hostname=HOST) if self.tls else plain
                for pause, data in self.parts:
                    if self.over.wait(pause):
                        return
                    connection.sendall(data)
                connection.settimeout(0.5)
                while not self.over.is_set():
                    try:
                        if not connection.recv(1):
                            break
                    except TimeoutError:
                        continue
            self.over.wait(0.05)

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(12)


def main() -> None:
    front = Hostile("front")
    for name, way in ways(front).items():
        if name not in sys.argv[2].split(",") and sys.argv[2] != "all":
            continue
        silent = Silent(way, int(sys.argv[3]))
        begun = time.time()
        time.sleep(SECONDS)
        ended = time.time()
        silent.end()
        print(json.dumps({"id": name, "from": begun + 0.5, "to": ended, "opened": silent.opened}), flush=True)


if __name__ == "__main__":
    main()
