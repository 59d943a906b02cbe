#!/usr/bin/env python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Send requests byte by byte and print the answers: usage: ask.py FILE, with {host, address, port, requests: [base64]}."""

import base64
import json
import re
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
# What is tried is the server; who it is, other tests say.
trust = ssl._create_unverified_context()


def joined(body: bytes):
    """The chunks of a body."""
    while body:
        size, _end, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        yield body[:length]
        body = body[length + 2 :]


def exchange(text: str) -> list:
    received = b""
    plain = socket.create_connection((given["address"], given["port"]), timeout=60)
    connection = trust.wrap_socket(plain, server_hostname=given["host"]) if given.get("tls", True) else plain
    try:
        connection.sendall(base64.b64decode(text))
        while True:
            part = connection.recv(65536)
            if not part:
                break
            received += part
    except OSError:
        pass
    finally:
        connection.close()
    head, _blank, body = received.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        body = b"".join(joined(body))
    status = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    return [int(status[1]) if status else 0, head.decode("latin-1"), body.decode("latin-1")[:20000]]


with ThreadPoolExecutor(4) as pool:
    print(json.dumps(list(pool.map(exchange, given["requests"]))))
