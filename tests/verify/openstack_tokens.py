# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The identity provider of the scenario openstack, its tokens, good and forged ones, and requests of any kind to Keystone."""

from __future__ import annotations

import base64
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

IAM = "iam1"
AUDIENCE = "https://front.site.test/api"  # as the attacks' data have it
KEYSTONE = "https://ctl:5000/v3"
# Gives a token of Keystone to whose token of the provider is good.
ENTRANCE = "/v3/OS-FEDERATION/identity_providers/iam/protocols/openid/auth"
ASK = Path(__file__).parent / "openstack/ask.py"


class Answer(NamedTuple):
    status: int
    head: str
    body: str

    @property
    def token(self) -> str:
        """Keystone's token, if there is one."""
        lines = [line.partition(": ") for line in self.head.splitlines()]
        return next((value.strip() for name, _colon, value in lines if name.lower() == "x-subject-token"), "")


class Provider:
    """The keys and users of the provider on iam1; number is that of the second one."""

    def __init__(self, cluster: Cluster, number: str = "") -> None:
        self.cluster = cluster
        with tempfile.TemporaryDirectory() as folder:
            keys, site = Path(folder) / "keys.json", Path(folder) / "site.json"
            keys.write_text(cluster.out(IAM, f"cat /var/lib/idp/keys{number}.json"), encoding="utf-8")
            site.write_text(cluster.out(IAM, f"cat /etc/idp/site{number}.json"), encoding="utf-8")
            forge.KEYS, forge.SITE = keys, site
            self.forge = forge.Forge()

    def token(self, user: str = "alice", sign: str = "key1", **changes: Any) -> str:
        """A token for a user with other claims; one that is None is left out, and now+60 is a time."""
        claims = {**self.forge.claims(AUDIENCE, user), **{name: attacks.moment(value) for name, value in changes.items()}}
        return self.forge.token({name: value for name, value in claims.items() if value is not None}, None, sign)


def front_of(provider: Provider) -> attacks.Front:
    """What makes requests of the attacks' data, without the hosts of the front."""
    front = object.__new__(attacks.Front)
    front.forge = provider.forge
    front.host = "ctl:5000"
    front.callback = "/"
    front.data = {"session": "session"}
    front.doors = {"api": {"path": ENTRANCE, "audience": AUDIENCE}}
    front.sessions = {"alice": {}}
    return front


def known_attacks(provider: Provider, name: str, changes: Mapping[str, Any], leave: Iterable[str]) -> dict[str, bytes]:
    """The requests of one of the attacks' files by name, to Keystone's entrance; leave: beginnings of names that are no attacks here."""
    front = front_of(provider)
    made = {}
    for attack in attacks.attacks(["api"], [name]):
        if attack.id.removeprefix(f"{name}/").startswith(tuple(leave)):
            continue
        data = {**attack.data, **changes, "headers": [*attack.data.get("headers", []), *changes.get("headers", [])]}
        made[f"{attack.id} {len(made)}"] = front.request(attack._replace(data=data))
    return made


def request(path: str = ENTRANCE, *headers: str, method: str = "POST", token: str = "", body: str = "") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: ctl:5000", *headers]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += ["Content-Type: application/json"] if body else []
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode("utf-8")


def ask(
    cluster: Cluster, requests: Mapping[str, bytes], origin: str = IAM, port: int = 5000, address: str = "ctl", tls: bool = True
) -> dict[str, Answer]:
    """The answers by name, asked from a host."""
    for_last = [
        text if b"\r\nConnection:" in text else text.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1) for text in requests.values()
    ]
    given = {
        "host": "ctl",
        "address": address,
        "port": port,
        "tls": tls,
        "requests": [base64.b64encode(text).decode() for text in for_last],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(given, file)
        file.flush()
        for source, target in ((file.name, "/opt/requests.json"), (str(ASK), "/opt/ask.py")):
            subprocess.run(["docker", "cp", "-q", source, f"{cluster.label}-{origin}:{target}"], check=True)
    answers = json.loads(cluster.out(origin, "chmod 0644 /opt/requests.json; python3 /opt/ask.py /opt/requests.json", timeout=590))
    return {name: Answer(*answer) for name, answer in zip(requests, answers)}


def let_in(answers: Mapping[str, Answer]) -> list[str]:
    """Names of requests that got a token of Keystone."""
    return [name for name, answer in answers.items() if answer.token]
