# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# The role marathon_lb installs it on balancers with the files beside it whose names begin with balancer_.
"""Marathon's API for the balancer: the list of applications, the stream of events.

A standby passes requests on to the leader, or redirects them (events, since 1.7). A redirect is followed to the site's own
addresses only, as the credential goes with it. Each wait has an end: what hangs counts as away.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
import typing as t
import urllib.parse

LARGEST = 256 * 1024 * 1024  # bytes of an answer; 5000 applications have about 20 million
EVENTS = (
    "api_post_event",
    "app_terminated_event",
    "deployment_failed",
    "deployment_success",
    "health_status_changed_event",
    "instance_health_changed_event",
    "status_update_event",
)
REDIRECTS = (301, 302, 303, 307, 308)


class Away(Exception):
    """One sentence: why Marathon gave no answer that can be used."""


class Address(t.NamedTuple):
    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def address(url: str) -> Address:
    """The address in a URL.

    :raises ValueError: it is not a URL with an address.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("it is no URL of http or https")
    return Address(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))


def sentence(error: BaseException) -> str:
    """What went wrong, on one line."""
    text = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error) or type(error).__name__
    return "".join(one if " " <= one <= "~" else "?" for one in " ".join(text.split())[:200])


class Stream:
    """An open stream of events."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    def lines(self) -> t.Iterator[bool]:
        """Yield for each line, heartbeats too, whether it is an event.

        It ends when Marathon ends the stream.

        :raises Away: nothing came for longer than the timeout, or the connection broke.
        """
        try:
            while True:
                line = self._response.readline(65536)
                if not line:
                    return
                yield line.startswith(b"event:")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Away(f"the stream of events ended: {sentence(error)}") from None

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class Marathon:
    """All addresses of Marathon; the one that answered last is asked first."""

    def __init__(
        self, urls: t.Sequence[str], credential: str = "", ca_file: str = "", timeout: float = 10.0, deadline: float = 60.0
    ) -> None:
        """Take the addresses.

        :param credential: user:password; empty without one.
        :param timeout: seconds without a byte.
        :param deadline: seconds for a whole list of applications.
        :raises ValueError: a URL is invalid, or the CA file has no certificate.
        """
        self._addresses = [address(url) for url in urls]
        self._timeout = timeout
        self._deadline = deadline
        self._headers = {"User-Agent": "deephdc-marathon-lb"}
        if credential:
            self._headers["Authorization"] = "Basic " + base64.b64encode(credential.encode()).decode()
        self._tls: t.Optional[ssl.SSLContext] = None
        if any(one.scheme == "https" for one in self._addresses):
            try:
                self._tls = ssl.create_default_context(cafile=ca_file or None)
            except (OSError, ssl.SSLError) as error:
                raise ValueError(f"the CA file {ca_file} can't be used: {sentence(error)}") from None
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def apps(self) -> t.List[t.Any]:
        """All applications with their tasks.

        :raises Away: no Marathon gave a list of them.
        """
        return self._first(self._apps)

    def events(self, timeout: float) -> Stream:
        """Open the stream of events.

        :param timeout: seconds without a byte, after which the stream counts as broken; Marathon sends a heartbeat each 10 seconds.
        :raises Away: no Marathon gave one.
        """
        query = urllib.parse.urlencode([("plan-format", "light"), *(("event_type", one) for one in EVENTS)])
        return self._first(lambda one: Stream(*self._ask(one, f"/v2/events?{query}", "text/event-stream", timeout)))

    def _first(self, ask: t.Callable[[Address], t.Any]) -> t.Any:
        reasons = []
        for one in list(self._addresses):
            try:
                answer = ask(one)
            except Away as error:
                reasons.append(str(error))
            else:
                self._addresses.remove(one)
                self._addresses.insert(0, one)
                return answer
        raise Away("; ".join(reasons) or "there is no address of Marathon")

    def _apps(self, one: Address) -> t.List[t.Any]:
        end = time.monotonic() + self._deadline
        connection, response = self._ask(one, "/v2/apps?embed=apps.tasks", "application/json", self._timeout)
        try:
            parts: t.List[bytes] = []
            size = 0
            while True:
                part = response.read1(1 << 20)
                if not part:
                    break
                size += len(part)
                parts.append(part)
                if size > LARGEST:
                    raise Away(f"{one} answers with more than {LARGEST >> 20} MiB")
                if time.monotonic() > end:
                    raise Away(f"{one} takes more than {self._deadline:g} seconds for the list of applications")
            if response.length:  # read1 does not notice that less came than was announced
                raise Away(f"{one} ended its answer half-way")
            answer = json.loads(b"".join(parts))
        except (OSError, http.client.HTTPException) as error:
            raise Away(f"{one} broke off: {sentence(error)}") from None
        except (ValueError, RecursionError):
            raise Away(f"{one} answers with something that is not JSON") from None
        finally:
            response.close()
            connection.close()
        if not isinstance(answer, dict) or not isinstance(answer.get("apps"), list):
            raise Away(f"{one} answers without a list of applications")
        return answer["apps"]

    def _ask(self, one: Address, target: str, accept: str, timeout: float) -> t.Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A response with the status 200."""
        for _try in range(3):
            connection = self._connection(one, timeout)
            try:
                connection.request("GET", target, headers={**self._headers, "Accept": accept})
                response = connection.getresponse()
            except (OSError, http.client.HTTPException, ValueError) as error:
                connection.close()
                raise Away(f"{one} does not answer: {sentence(error)}") from None
            if response.status == 200:
                return connection, response
            location = response.getheader("Location") or ""
            response.close()
            connection.close()
            if response.status not in REDIRECTS:
                hint = ": the credential is refused" if response.status in (401, 403) else ""
                raise Away(f"{one} answers with the status {response.status}{hint}")
            try:
                leader = address(urllib.parse.urljoin(f"{one}/", location))
            except ValueError:
                raise Away(f"{one} redirects to no address") from None
            if leader not in self._addresses:
                raise Away(f"{one} redirects to {sentence(ValueError(str(leader)))}, which is not in marathon_lb_marathon_urls")
            one = leader
        raise Away(f"{one} redirects again and again")

    def _connection(self, one: Address, timeout: float) -> http.client.HTTPConnection:
        if one.scheme == "https":
            return http.client.HTTPSConnection(one.host, one.port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(one.host, one.port, timeout=timeout)


class Resolver:
    """Addresses of agents by name, kept for a minute.

    A name server that is slow must not be asked for each task.
    """

    def __init__(self, keep: float = 60.0) -> None:
        self._keep = keep
        self._known: t.Dict[str, t.Tuple[float, str]] = {}

    def __call__(self, host: str) -> str:
        now = time.monotonic()
        until, known = self._known.get(host, (0.0, ""))
        if until > now:
            return known
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            # IPv4 first: an agent that has both listens on both, and its tasks often on IPv4 only.
            known = str(sorted(found, key=lambda one: one[0] != socket.AF_INET)[0][4][0])
        except (OSError, UnicodeError, IndexError):
            pass  # the last address that it had is better than none
        self._known[host] = (now + self._keep, known)
        return known
