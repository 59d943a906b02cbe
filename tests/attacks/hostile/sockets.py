"""Websockets: how long an allowed one lives, and that others can't open or use one.

usage: sockets.py FRONT CLASS      the last line is as hostile.py's; CLASS is sockets
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
import typing as t
from contextlib import suppress

import yaml
from hostile import HERE, Hostile
from login import Browser

HOST = "front.site.test"
TRUST = ssl.create_default_context()
UPGRADE = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="]
ORIGIN = f"Origin: https://{HOST}"


class Websocket:
    """Open if the front, and what is behind it, agreed."""

    def __init__(self, path: str, lines: list[str], method: str = "GET", upgrade: list[str] | None = None) -> None:
        self.connection = TRUST.wrap_socket(socket.create_connection((HOST, 443), timeout=10), server_hostname=HOST)
        head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", *(UPGRADE if upgrade is None else upgrade), *lines, "", ""]
        self.connection.sendall("\r\n".join(head).encode())
        received = b""
        with suppress(OSError):
            while b"\r\n\r\n" not in received and (part := self.connection.recv(4096)):
                received += part
        self.open = received.startswith(b"HTTP/1.1 101") and self.says("hello")

    def says(self, text: str) -> bool:
        """Whether it says back what it hears."""
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text.encode()))
        try:
            self.connection.sendall(bytes([129, 128 + len(masked)]) + mask + masked)
            self.connection.settimeout(3)
            return text.encode() in self.connection.recv(4096)
        except OSError:
            return False


def cookie(cookies: dict[str, str]) -> str:
    return "Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items())


def main() -> None:
    front = Hostile("front")
    result: dict[str, t.Any] = {"attacks": 0, "known": 0, "must_pass": 0, "let_in": [], "turned_away": []}

    def attack(name: str, was_open: bool) -> None:
        result["attacks"] += 1
        if was_open:
            result["let_in"].append({"id": name, "door": "websocket", "reason": "open"})

    def good(name: str, was_open: bool, kind: str = "must_pass") -> None:
        result[kind] += 1
        if not was_open:
            result["turned_away"].append({"id": name, "door": "websocket", "reason": "not open"})

    front.sign_in()
    session = dict(front.sessions["alice"])
    token = front.forge.good("https://front.site.test/api")
    bearer = f"Authorization: Bearer {token}"
    data = yaml.safe_load((HERE / "sockets.yml").read_text(encoding="utf-8"))
    for door in ("both", "web", "short"):
        good(f"session at {door}", Websocket(f"/{door}/ws", [cookie(session), ORIGIN]).open)
        attack(f"nobody at {door}", Websocket(f"/{door}/ws", [ORIGIN]).open)
        attack(f"foreign at {door}", Websocket(f"/{door}/ws", [cookie(session), "Origin: https://evil.test"]).open)
    for door in ("both", "short"):
        good(f"token at {door}", Websocket(f"/{door}/ws", [bearer]).open)
        good(f"program with the session at {door}", Websocket(f"/{door}/ws", [cookie(session)]).open)
    # Where websockets are not switched on.
    for door in ("answers", "tomcat"):
        attack(f"switched off at {door}", Websocket(f"/{door}/ws", [cookie(session), ORIGIN]).open)
    for name, claims in data["claims"].items():
        bad = {**front.forge.claims("https://front.site.test/api"), **claims}
        attack(f"token: {name}", Websocket("/both/ws", [f"Authorization: Bearer {front.forge.token(bad)}"]).open)
    for name, lines in data["requests"].items():
        filled = [line.replace("{bearer}", bearer).replace("{cookie}", cookie(session)) for line in lines]
        attack(f"request: {name}", Websocket("/both/ws", filled).open)

    # The life of open ones: after a logout, after the end of a token, and idle.
    now = int(time.time())
    brief = front.forge.good("https://front.site.test/api", exp=now + 4, iat=now, nbf=now)
    of_token = Websocket("/both/ws", [f"Authorization: Bearer {brief}"])
    good("token that ends soon", of_token.open)
    of_session, idle = Websocket("/both/ws", [cookie(session), ORIGIN]), Websocket("/short/ws", [cookie(session), ORIGIN])
    busy = Websocket("/short/ws", [cookie(session), ORIGIN])
    good("session before its logout", of_session.open)
    browser = Browser()
    browser.cookies[HOST] = dict(session)
    answer = browser.ask(f"https://{HOST}/oidc/redirect_uri?logout=https%3A%2F%2F{HOST}%2F.front%2Floggedout.html")
    assert answer.status == 302, answer
    for door in ("both", "web", "short"):
        attack(f"new one after the logout at {door}", Websocket(f"/{door}/ws", [cookie(session), ORIGIN]).open)
    kept = True
    for _second in range(5):
        time.sleep(1)
        kept = kept and busy.says("x")
    good("one that is used goes on", kept)
    # Apache's own Timeout, 300 s, is longer, and the longer one holds.
    good("one that is idle outlives the back end's timeout", idle.says("x"), "known")
    attack("new one with a token that has ended", Websocket("/both/ws", [f"Authorization: Bearer {brief}"]).open)
    # Nothing asks again once a connection is a websocket.
    good("open one after the logout", of_session.says("x"), "known")
    good("open one after the end of its token", of_token.says("x"), "known")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
