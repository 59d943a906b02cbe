# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What users ask of the front of the scenario mesos_front, with tokens good and forged, and what the cluster got of it."""

from __future__ import annotations

import base64
import csv
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from local import ROOT, Cluster

# The front's attacks are programs beside each other, no package.
sys.path.insert(0, str(ROOT / "tests/attacks"))

import forge
import run as attacks

IAM, FRONT = "iam1", "front.site.test"
# Marathon's is the one that the attacks' data have.
AUDIENCES = {name: f"https://{FRONT}/{name}" for name in ("chronos", "mesos", "mesos-admin")}
AUDIENCES |= {"marathon": f"https://{FRONT}/api", "train": "https://train.site.test"}
ASK = ROOT / "tests/verify/openstack/ask.py"
# Prints the statistics of the HAProxy that finds the leaders.
SHOW = (
    "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/mesos-front/admin.sock'); s.sendall(b'show stat\\n'); "
    "print(b''.join(iter(lambda: s.recv(65536), b'')).decode())\""
)


class Answer(NamedTuple):
    status: int
    head: str
    body: str

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        lines = [line.partition(": ") for line in self.head.splitlines()]
        return next((value.strip() for key, _colon, value in lines if key.lower() == name), "")


class Provider:
    """The keys and users of the provider on iam1."""

    def __init__(self, cluster: Cluster) -> None:
        with tempfile.TemporaryDirectory() as folder:
            keys, site = Path(folder) / "keys.json", Path(folder) / "site.json"
            keys.write_text(cluster.out(IAM, "cat /var/lib/idp/keys.json"), encoding="utf-8")
            site.write_text(cluster.out(IAM, "cat /etc/idp/site.json"), encoding="utf-8")
            forge.KEYS, forge.SITE = keys, site
            self.forge = forge.Forge()

    def token(self, user: str = "alice", backend: str = "marathon", sign: str = "key1", **changes: Any) -> str:
        """A token for a user with other claims; one that is None is left out, and now+60 is a time."""
        claims = {**self.forge.claims(AUDIENCES[backend], user), **{name: attacks.moment(value) for name, value in changes.items()}}
        return self.forge.token({name: value for name, value in claims.items() if value is not None}, None, sign)


def issued(cluster: Cluster, user: str, backend: str, scope: str = "api:read") -> str:
    """A token that the provider itself gives to a user who signs in."""
    return cluster.out(IAM, f"SSL_CERT_FILE=/etc/idp/ca.pem python3 /opt/test/login.py token {user} {AUDIENCES[backend]} {scope}")


def request(path: str, *headers: str, method: str = "GET", token: str = "", body: Any = None, host: str = FRONT) -> bytes:
    text = "" if body is None else json.dumps(body)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, *([f"Authorization: Bearer {token}"] if token else [])]
    lines += ["Content-Type: application/json", f"Content-Length: {len(text)}"] if body is not None else []
    return "\r\n".join([*lines, "", text]).encode("utf-8")


def send(cluster: Cluster, requests: Mapping[str, bytes]) -> dict[str, Answer]:
    """The front's answers by name."""
    for_last = [
        text if b"\r\nConnection:" in text else text.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1) for text in requests.values()
    ]
    given = {"host": FRONT, "address": FRONT, "port": 443, "requests": [base64.b64encode(text).decode() for text in for_last]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(given, file)
        file.flush()
        for source, target in ((file.name, "/opt/requests.json"), (str(ASK), "/opt/ask.py")):
            subprocess.run(["docker", "cp", "-q", source, f"{cluster.label}-{IAM}:{target}"], check=True)
    answers = json.loads(cluster.out(IAM, "chmod 0644 /opt/requests.json; python3 /opt/ask.py /opt/requests.json", timeout=590))
    return {name: Answer(*answer) for name, answer in zip(requests, answers)}


def get(cluster: Cluster, text: bytes) -> Answer:
    return send(cluster, {"": text})[""]


def statistics(cluster: Cluster) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(cluster.out("front", SHOW).removeprefix("# "))))


def reached(cluster: Cluster) -> dict[str, int]:
    """How many requests of users came to each system until now; those that ask for its leader are not among them."""
    return {row["pxname"]: int(row["req_tot"]) for row in statistics(cluster) if row["svname"] == "FRONTEND"}


def leaders(cluster: Cluster) -> dict[str, list[str]]:
    """The hosts that requests go to, by system."""
    found: dict[str, list[str]] = {}
    for row in statistics(cluster):
        if row["svname"] not in ("FRONTEND", "BACKEND"):
            found.setdefault(row["pxname"], []).extend([row["svname"]] if row["status"].startswith("UP") else [])
    return found


def known_attacks(provider: Provider, name: str, path: str, comes: Iterable[str], expect: str = "refused") -> dict[str, bytes]:
    """The requests of one of the attacks' files by name, to Marathon's door; those of the file that come and are judged so."""
    front = object.__new__(attacks.Front)
    front.forge, front.host, front.callback = provider.forge, FRONT, "/oidc/redirect_uri"
    front.data = {"session": "__Host-front"}
    front.doors = {"both": {"path": path, "audience": AUDIENCES["marathon"]}}
    front.sessions = {"alice": {}}
    made = {}
    for attack in attacks.attacks(["both"], [name]):
        if attack.data["comes"] in tuple(comes) and attack.data["expect"] == expect:
            made[f"{attack.id} {len(made)}"] = front.request(attack)
    return made
