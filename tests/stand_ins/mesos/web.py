# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""HTTP of the stand-ins: a server with TLS and streams, and a client. Python's own library is all they need."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from options import Refused


@dataclass
class Request:
    """What came in. Repeated keys of a query are lists, as 'embed' and 'event_type' may be."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Any
    body: bytes
    target: str

    def one(self, key: str, default: str = "") -> str:
        return self.query.get(key, [default])[0]

    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass
class Reply:
    """What goes out: JSON, text, or a stream of pieces."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = None


class Failure(Exception):
    """An answer that is raised; without a text of its own it has libprocess' one."""

    def __init__(self, status: int, body: Any = None, **headers: str) -> None:
        if body is None and status >= 400:
            body = f"{status} {http.HTTPStatus(status).phrase}."
        super().__init__(str(body))
        self.reply = Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def unauthorized(realm: str, body: Any = None) -> Failure:
    return Failure(401, body, WWW_Authenticate=f'Basic realm="{realm}"')


def serve(address: str, port: int, context: ssl.SSLContext | None, answer: Callable[[Request], Reply]) -> ThreadingHTTPServer:
    """Listen and answer in threads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 120

        def log_message(self, *_words: object) -> None:
            """Requests are not logged: some have secrets."""

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            query: dict[str, list[str]] = {}
            for key, value in parse_qsl(parts.query, keep_blank_values=True):
                query.setdefault(key, []).append(value)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, unquote(parts.path), query, self.headers, body, self.path)
            try:
                reply = answer(request)
            except Failure as failure:
                reply = failure.reply
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                print(f"{self.command} {parts.path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                reply = Reply(400, {"message": f"Invalid request: {type(error).__name__}: {error}"})
            self.send(reply)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = handle_any

        def send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            kind = "text/plain" if isinstance(reply.body, str) else "application/json"
            text = reply.body.encode() if isinstance(reply.body, str) else b"" if reply.body is None else json.dumps(reply.body).encode()
            headers = {"Content-Type": kind, **reply.headers}
            if reply.stream is not None:
                headers["Transfer-Encoding"] = "chunked"
            elif reply.status != 204:
                headers["Content-Length"] = str(len(text))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.stream is None:
                self.wfile.write(b"" if self.command == "HEAD" else text)
                return
            try:
                for piece in reply.stream:
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            finally:
                self.close_connection = True
                reply.stream.close()  # type: ignore[attr-defined]  # because only iterators made by a function have it

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def get_request(self) -> tuple[Any, Any]:
            socket, client = self.socket.accept()
            # The handshake is the thread's: a client that never speaks must not stop the others.
            return (context.wrap_socket(socket, server_side=True, do_handshake_on_connect=False) if context else socket), client

        def handle_error(self, *_words: object) -> None:
            """A client that left, or that speaks no TLS, is no fault of the server."""

    server = Server((address, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def libprocess(environment: dict[str, str]) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Contexts of server and client by LIBPROCESS_SSL_*, None without TLS. SUPPORT_DOWNGRADE is not made: use one or the other."""

    def flag(name: str) -> bool:
        return environment.get(f"LIBPROCESS_SSL_{name}", "") in ("1", "true")

    if not flag("ENABLED"):
        return None, None
    key, certificate = environment.get("LIBPROCESS_SSL_KEY_FILE"), environment.get("LIBPROCESS_SSL_CERT_FILE")
    authorities = environment.get("LIBPROCESS_SSL_CA_FILE")
    if not key:
        raise Refused("NOTE: Set LIBPROCESS_SSL_KEY_FILE to your key file: SSL requires key! NOTE: Set path with LIBPROCESS_SSL_KEY_FILE")
    if not certificate:
        raise Refused("SSL requires certificate! NOTE: Set path with LIBPROCESS_SSL_CERT_FILE")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"Could not load cert file '{certificate}' or key file '{key}': {error}") from error
        if authorities:
            context.load_verify_locations(authorities)
    verify = flag("VERIFY_SERVER_CERT") or flag("VERIFY_CERT")
    client.check_hostname = verify
    client.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    server.verify_mode = ssl.CERT_REQUIRED if flag("REQUIRE_CLIENT_CERT") or flag("REQUIRE_CERT") else ssl.CERT_NONE
    return server, client


def keystore(path: str, password: str) -> ssl.SSLContext:
    """A server's context from a PKCS12 keystore, as Java opens one. Python wants PEM, so openssl converts it, into a private folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        pem = Path(folder) / "key.pem"
        pem.touch(mode=0o600)
        command = ["openssl", "pkcs12", "-in", path, "-nodes", "-passin", "stdin", "-out", str(pem)]
        done = subprocess.run(command, input=password, text=True, capture_output=True, check=False)
        if done.returncode:
            raise Refused(f"java.io.IOException: keystore password was incorrect, or no keystore in {path}", 111)
        context.load_cert_chain(pem)
    return context


def java_trust(options: str) -> ssl.SSLContext:
    """Whom Java trusts by -Djavax.net.ssl.trustStore, a keystore of the form JKS with certificates alone; else whom the host trusts."""
    match = re.search(r"-Djavax\.net\.ssl\.trustStore=(\S+)", options)
    if not match:
        return ssl.create_default_context()
    data = Path(match.group(1)).read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _magic, _version, count = struct.unpack_from(">III", data)
    at = 12
    for _entry in range(count):
        at += 4
        at += 2 + struct.unpack_from(">H", data, at)[0] + 8
        at += 2 + struct.unpack_from(">H", data, at)[0]
        length = struct.unpack_from(">I", data, at)[0]
        context.load_verify_locations(cadata=data[at + 4 : at + 4 + length])
        at += 4 + length
    return context


def call(
    url: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None, context: Any = None, timeout: float = 30
) -> http.client.HTTPResponse:
    """Send one request and give the open response; the name in a certificate is checked against the URL's host."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, context=context or ssl.create_default_context(), timeout=timeout)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    sent = {"Accept": "application/json", **({"Content-Type": "application/json"} if data else {}), **(headers or {})}
    connection.request(method, f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}", data, sent)
    return connection.getresponse()


def record(event: dict[str, Any]) -> bytes:
    """One message of a RecordIO stream."""
    text = json.dumps(event).encode()
    return f"{len(text)}\n".encode() + text


def records(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Messages of a RecordIO stream, until it ends."""
    while True:
        length = response.readline()
        if not length.strip():
            return
        yield json.loads(response.read(int(length)))
