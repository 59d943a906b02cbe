"""Stands in for an identity provider, or an application, that lies, fails or is slow: it answers exactly the bytes that a test set.

usage: lying_provider.py PORT ANSWERS.json [CERTIFICATE KEY]

ANSWERS.json has what it says from the beginning; PUT /answers, with the same in its body, adds to that. An object: a path, or
"token X" for whoever asks what the token X is worth, to
  status, type, headers (a list of lines), json or body (text), fill (so many x behind it)      an answer of the usual form
  raw                                                                                         or each byte of the answer
  delay         seconds before it
  cut           bytes of the answer that are left out at its end
  pause         seconds between the pieces of an answer, which are parted by a NUL in raw
Other paths are 404. GET /asked: how often each was asked for.
"""

from __future__ import annotations

import collections
import json
import socket
import socketserver
import ssl
import sys
import threading
import time
import typing as t
import urllib.parse
from contextlib import suppress

ANSWERS: dict[str, dict[str, t.Any]] = {}
ASKED: collections.Counter[str] = collections.Counter()
LOCK = threading.Lock()


def written(answer: dict[str, t.Any]) -> bytes:
    if "raw" in answer:
        return answer["raw"].encode("latin-1")
    body = json.dumps(answer["json"]) if "json" in answer else answer.get("body", "")
    body += "x" * answer.get("fill", 0)
    lines = [
        f"HTTP/1.1 {answer.get('status', 200)} Said",
        f"Content-Type: {answer.get('type', 'application/json')}",
        f"Content-Length: {len(body.encode())}",
        "Connection: close",
        *answer.get("headers", []),
    ]
    return "\r\n".join([*lines, "", body]).encode()


class Handler(socketserver.StreamRequestHandler):
    timeout = 60

    def setup(self) -> None:
        if TRUST:
            # Here, so that no connection waits for the handshake of another.
            self.request = TRUST.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            method, path, *_rest = self.rfile.readline(65536).decode("latin-1").split(" ")
            size = 0
            while line := self.rfile.readline(65536).strip():
                name, _colon, value = line.decode("latin-1").partition(":")
                if name.lower() == "content-length":
                    size = int(value)
            self.answer(method, path.partition("?")[0], self.rfile.read(size).decode())

    def answer(self, method: str, path: str, body: str) -> None:
        if (method, path) == ("PUT", "/answers"):
            with LOCK:
                ANSWERS.update(json.loads(body))
            self.wfile.write(written({"json": "told"}))
            return
        if path == "/asked":
            self.wfile.write(written({"json": ASKED}))
            return
        token = urllib.parse.parse_qs(body).get("token", [""])[0]
        key = f"token {token}" if token else path
        with LOCK:
            ASKED[key] += 1
            answer = ANSWERS.get(key, {"status": 404})
        time.sleep(answer.get("delay", 0))
        content = written(answer)
        for piece in content[: len(content) - answer.get("cut", 0)].split(b"\0"):
            self.wfile.write(piece)
            time.sleep(answer.get("pause", 0))

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
            self.request.shutdown(socket.SHUT_WR)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that goes away early is not an error."""


TRUST: ssl.SSLContext | None = None
if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        ANSWERS.update(json.load(file))
    if len(sys.argv) > 3:
        TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        TRUST.load_cert_chain(sys.argv[3], sys.argv[4])
    Server(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
