# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""LXD's REST interface over its unix socket, with the standard library only.

Every request has a time limit, so a daemon that hangs does not hang its caller.
Source: https://documentation.ubuntu.com/lxd/en/stable-5.0/rest-api/
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from typing import Any, Iterable, Iterator, Mapping, NamedTuple
from urllib.parse import quote

from .errors import LXDError, LXDUnavailable

SUCCESS = 200  # the status of an operation that is done; 100 to 199 is one that still runs
NOT_FOUND = 404
CHANGED_MEANWHILE = 412  # the record is not the one that If-Match names


class Answer(NamedTuple):
    """The part of an answer that matters, and the ETag of what was read."""

    metadata: Any
    etag: str


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("lxd", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """Requests to one LXD.

    :arg path: of LXD's socket.
    :arg timeout: seconds that LXD may be silent within a request.
    :arg patience: seconds that an operation in the background may take.
    """

    def __init__(self, path: str, timeout: float = 30, patience: float = 600) -> None:
        self.path = path
        self.timeout = timeout
        self.patience = patience

    def get(self, *url: str, query: str = "") -> Any:
        """Read something.

        :raises LXDError: LXD refused it; the code is 404 for what does not exist.
        :raises LXDUnavailable: LXD did not answer in time.
        """
        return self.request("GET", url, query=query).metadata

    def request(
        self,
        method: str,
        url: tuple[str, ...],
        body: Any = None,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
    ) -> Answer:
        """Send a request; if LXD does it in the background, wait until it is done.

        :arg url: the parts of the path below /1.0, which are quoted here.
        :arg body: a mapping, sent as JSON; or chunks of bytes, whose headers must say their number (Content-Length).
        :arg patience: seconds that the operation may take, in place of the client's.
        :raises LXDError: LXD refused the request, or the operation failed.
        :raises LXDUnavailable: LXD did not answer, or did not end the operation, in time.
        """
        data: Any = json.dumps(body).encode() if isinstance(body, Mapping) else body
        with self._response(method, url, query, data, headers or {}) as response:
            answer = _parsed(response.status, self._read(response))
            etag = response.headers.get("ETag") or ""
        if answer.get("type") == "async":
            operation = str(answer["operation"]).rsplit("/", 1)[-1]
            return Answer(self.wait(operation, patience), etag)
        return Answer(answer.get("metadata"), etag)

    def wait(self, operation: str, patience: float | None = None) -> Any:
        """Wait for an operation and return its metadata.

        :raises LXDError: the operation failed or was cancelled.
        :raises LXDUnavailable: it took longer than its patience, in seconds, or LXD does not know how it ended.
        """
        seconds = self.patience if patience is None else patience
        deadline = time.monotonic() + seconds
        while True:
            # LXD answers after this time at the latest, also if the operation still runs: well before a silence is too long.
            step = max(1, int(min(self.timeout / 2, deadline - time.monotonic())))
            try:
                state = self.get("operations", operation, "wait", query=f"timeout={step}")
            except LXDError as error:
                if error.code == NOT_FOUND:
                    raise LXDUnavailable(f"LXD forgot the operation {operation} before its end was seen.") from error
                raise
            code = int(state["status_code"])
            if code == SUCCESS:
                return state.get("metadata")
            if code > SUCCESS:
                raise LXDError(code, str(state.get("err") or state.get("status")))
            if time.monotonic() >= deadline:
                raise LXDUnavailable(f"LXD did not end the operation {state.get('description') or operation!r} in {seconds:.0f} seconds.")

    @contextlib.contextmanager
    def stream(self, *url: str) -> Iterator[http.client.HTTPResponse]:
        """Open something that may be large, as a file to read from.

        :raises LXDError: LXD refused it.
        :raises LXDUnavailable: LXD did not answer in time.
        """
        with self._response("GET", url, "", None, {}) as response:
            if response.status != http.client.OK:
                _parsed(response.status, self._read(response))
            yield response

    def read(self, *url: str) -> bytes:
        """Read something that is not JSON and fits into memory.

        :raises LXDError: LXD refused it.
        :raises LXDUnavailable: LXD did not answer in time.
        """
        with self.stream(*url) as response:
            return self._read(response)

    def upload(self, url: tuple[str, ...], chunks: Iterable[bytes], headers: Mapping[str, str], query: str = "") -> Answer:
        """Send bytes that do not fit into memory; the headers say their number."""
        return self.request("POST", url, chunks, query=query, headers=headers)

    @contextlib.contextmanager
    def _response(
        self, method: str, url: tuple[str, ...], query: str, body: Any, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        target = "/".join(["/1.0", *(quote(part, safe="") for part in url)]) + (f"?{query}" if query else "")
        connection = _Connection(self.path, self.timeout)
        try:
            try:
                connection.request(method, target, body=body, headers=dict(headers))
            except (BrokenPipeError, ConnectionResetError):
                pass  # because LXD may refuse a body before its end: the answer, if there is one, says why
            except PermissionError as error:
                raise LXDUnavailable(f"LXD's socket {self.path} can't be opened: the user is not in LXD's group.") from error
            except OSError as error:
                raise LXDUnavailable(_silence(self.path, self.timeout, error)) from error
            try:
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise LXDUnavailable(_silence(self.path, self.timeout, error)) from error
            yield response
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise LXDUnavailable(_silence(self.path, self.timeout, error)) from error


def _silence(path: str, timeout: float, error: Exception) -> str:
    if isinstance(error, socket.timeout):  # an alias of TimeoutError from Python 3.10 on
        return f"LXD at {path} did not answer in {timeout:.0f} seconds."
    return f"LXD at {path} does not answer: {error or type(error).__name__}."


def _parsed(status: int, data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise LXDError(status, f"something that is not JSON: {data[:100]!r}") from error
    if not isinstance(answer, dict):
        raise LXDError(status, f"something that is not an object: {data[:100]!r}")
    if answer.get("type") == "error":
        raise LXDError(int(answer["error_code"]), str(answer["error"]))
    return answer
