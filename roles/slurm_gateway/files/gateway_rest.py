# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SLURM's REST interface on its private socket.

It is asked as a user, by a token that lives for a minute.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
import typing as t
import urllib.parse

import jwt
from gateway_accounts import Broken

Record = t.Dict[str, t.Any]

# Seconds: long enough for one request, whatever the clocks differ by.
TOKEN_LIFE = 60
TIMEOUT = 20.0
# Bytes of an answer; a cluster of thousands of nodes stays below.
ANSWER_LIMIT = 64 * 1024 * 1024

# Versions of the interface whose words gateway_jobs knows, newest first.
VERSIONS = (42, 41, 40, 38)

# In SLURM's words for a token that it does not take; 22.05 writes the second where its daemons hang up, the third for anything.
NOT_TRUSTED = ("uthentication", "Zero Bytes were transmitted", "Unspecified error")
# In its words for daemons that do not answer: "Unable to contact slurm controller", "Unable to connect to database".
NOT_THERE = ("Unable to con", "onnection refused", "onnection failure")


class Unavailable(Exception):
    """SLURM does not answer, or not to the gateway; the text is for the operator."""


class Declined(Exception):
    """SLURM said no; its words may be shown to whoever asked."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def token(key: bytes, user: str, now: int) -> str:
    """SLURM's own kind of token; its library wants exactly these claims."""
    return jwt.encode({"exp": now + TOKEN_LIFE, "iat": now, "sun": user}, key, algorithm="HS256")


def said(answer: Record) -> str:
    """SLURM's errors in an answer, as one line."""
    found = []
    for entry in answer.get("errors") or []:
        if isinstance(entry, dict):
            found += [str(entry[key]) for key in ("error", "description") if entry.get(key)]
    return "; ".join(dict.fromkeys(" ".join(words.split()) for words in found))


class Slurm:
    """Requests for one user each.

    key_file: what tokens are signed with, read for each request, so that a new key counts at once.
    """

    def __init__(self, path: str, key_file: str) -> None:
        self.path, self.key_file = path, key_file
        self.known_version = 0

    def version(self, user: str) -> int:
        """Return the newest version that both sides know.

        It is asked for again when slurmrestd was replaced.
        """
        if not self.known_version:
            for number in VERSIONS:
                status, _answer = self.exchange("GET", f"/slurm/v0.0.{number}/ping", user, None)
                if status != 404:
                    self.known_version = number
                    break
            else:
                raise Unavailable("slurmrestd speaks no version of its interface that the gateway knows")
        return self.known_version

    def ask(self, method: str, path: str, user: str, body: Record | None = None) -> Record:
        """The answer to a request; path: with VERSION in it.

        Raises Declined with SLURM's own words.
        """
        status, answer = self.exchange(method, path.replace("VERSION", f"v0.0.{self.version(user)}"), user, body)
        words = said(answer)
        if status in (401, 403, 511) or any(sign in words for sign in NOT_TRUSTED):
            raise Unavailable(f"SLURM does not take the gateway's tokens: {status} {words}")
        if any(sign in words for sign in NOT_THERE):
            raise Unavailable(f"SLURM's daemons do not answer: {words}")
        if status == 404:
            self.known_version = 0
        if status >= 400 or words:
            raise Declined(words or f"SLURM answered with status {status}.")
        return answer

    def listed(self, path: str, user: str, key: str) -> list[Record]:
        """The list under a key of an answer; older versions call an empty one an error."""
        try:
            return self.ask("GET", path, user).get(key) or []
        except Declined as reason:
            if "Nothing found" in str(reason):
                return []
            raise

    def exchange(self, method: str, path: str, user: str, body: Record | None) -> tuple[int, Record]:
        try:
            with open(self.key_file, "rb") as file:
                key = file.read()
        except OSError as error:
            raise Broken(f"the key can't be read: {error.strerror}") from None
        headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token(key, user, int(time.time())), "Content-Type": "application/json"}
        connection = UnixConnection(self.path)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            content = answer.read(ANSWER_LIMIT + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"slurmrestd does not answer: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if len(content) > ANSWER_LIMIT:
            raise Unavailable("slurmrestd's answer is too large")
        try:
            parsed = json.loads(content)
        except ValueError:
            parsed = {}
        return answer.status, parsed if isinstance(parsed, dict) else {}


def query(**parameters: str) -> str:
    return "?" + urllib.parse.urlencode(parameters)
