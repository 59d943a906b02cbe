#!/usr/bin/python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for an OpenStack cloud: the parts of Keystone, Nova, Glance and Neutron that the hook "openstack" talks to.

No registry offers a cloud that runs in a test host. The client is real: openstacksdk, with its catalogue, its versions and its
errors. Servers are records here, nothing boots. What the cloud was asked for, and what it must do wrong, lies in a state file:

usage: openstack_api.py PORT STATE.json

state: {"servers": [...], "password": "...", "quota": 5, "error": null or a fault's message}
"""

from __future__ import annotations

import json
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

PORT = int(sys.argv[1])
STATE = Path(sys.argv[2])
HERE = f"http://127.0.0.1:{PORT}"
PROJECT = "0123456789abcdef0123456789abcdef"
IMAGE = {"id": "11111111-1111-1111-1111-111111111111", "name": "slurm-node", "status": "active", "visibility": "private"}
FLAVOR = {"id": "2", "name": "gpu.small", "ram": 4096, "vcpus": 1, "disk": 10, "links": []}
NETWORK = {"id": "33333333-3333-3333-3333-333333333333", "name": "private", "status": "ACTIVE", "subnets": []}
SERVICES = {"identity": "v3", "compute": "compute/v2.1", "image": "image", "network": "network"}


def read() -> dict:
    return json.loads(STATE.read_text(encoding="utf-8"))


def write(state: dict) -> None:
    STATE.write_text(json.dumps(state), encoding="utf-8")


def catalog() -> list[dict]:
    return [
        {
            "type": kind,
            "name": kind,
            "id": kind,
            "endpoints": [{"id": kind, "interface": "public", "region": "here", "region_id": "here", "url": f"{HERE}/{path}"}],
        }
        for kind, path in SERVICES.items()
    ]


def version(number: str, path: str, **more: str) -> dict:
    return {"id": number, "status": "CURRENT", "links": [{"rel": "self", "href": f"{HERE}/{path}"}], **more}


def named(found: dict, key: str, one: str, parts: list[str], query: dict) -> tuple[int, dict]:
    """A listing, or one thing by its id."""
    if parts:
        return (200, {one: found} if one else found) if parts[0] == found["id"] else (404, {"itemNotFound": {"message": "not found"}})
    wanted = query.get("name", [found["name"]])[0]
    return 200, {key: [found] if wanted == found["name"] else []}


class Api(BaseHTTPRequestHandler):
    """All services on one port, distinguished by their paths."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_words: object) -> None:
        """Not a word: what was asked for is in the state."""

    def answer(self, code: int, body: dict | None, **headers: str) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    def body(self) -> dict:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def do_GET(self) -> None:
        url = urlparse(self.path)
        parts = [part for part in url.path.split("/") if part]
        query = parse_qs(url.query)
        self.answer(*self.get(parts, query))

    def get(self, parts: list[str], query: dict) -> tuple[int, dict]:
        versions: dict[str, dict] = {
            "v3": {"version": version("v3.14", "v3/")},
            "compute/v2.1": {"version": version("v2.1", "compute/v2.1/", version="2.90", min_version="2.1")},
            "image": {"versions": [version("v2.9", "image/v2/")]},
            "network": {"versions": [version("v2.0", "network/v2.0/")]},
        }
        path = "/".join(parts)
        if path in versions:
            return 200, versions[path]
        if parts[:3] == ["image", "v2", "images"]:
            return named(IMAGE, "images", "", parts[3:], query)
        if parts[:3] == ["compute", "v2.1", "flavors"]:
            return named(FLAVOR, "flavors", "flavor", [part for part in parts[3:] if part != "detail"], query)
        if parts[:3] == ["network", "v2.0", "networks"]:
            return named(NETWORK, "networks", "network", parts[3:], query)
        if path == "compute/v2.1/servers/detail":
            return 200, {"servers": read()["servers"]}
        if parts[:3] == ["compute", "v2.1", "servers"] and len(parts) == 4:
            found = [one for one in read()["servers"] if one["id"] == parts[3]]
            return (200, {"server": found[0]}) if found else (404, {"itemNotFound": {"message": "Instance could not be found."}})
        return 404, {"error": {"code": 404, "message": f"the stand-in has no {self.path}"}}

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/v3/auth/tokens":
            self.token(body)
        elif self.path == "/compute/v2.1/servers":
            self.create(body["server"])
        else:
            self.answer(404, {"error": {"code": 404, "message": f"the stand-in has no {self.path}"}})

    def token(self, body: dict) -> None:
        user = body["auth"]["identity"]["password"]["user"]
        if user["password"] != read()["password"]:
            self.answer(
                401, {"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}
            )
            return
        token = {
            "methods": ["password"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": user["name"], "domain": {"id": "default", "name": "Default"}},
            "project": {"id": PROJECT, "name": "site", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "m", "name": "member"}],
            "catalog": catalog(),
        }
        self.answer(201, {"token": token}, X_Subject_Token=uuid.uuid4().hex)

    def create(self, wanted: dict) -> None:
        state = read()
        if len(state["servers"]) >= state["quota"]:
            self.answer(403, {"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used all"}})
            return
        server = {
            "id": str(uuid.uuid4()),
            "name": wanted["name"],
            "status": "ERROR" if state["error"] else "ACTIVE",
            "metadata": wanted.get("metadata", {}),
            "flavor": {"id": wanted["flavorRef"]},
            "image": {"id": wanted["imageRef"]},
            "addresses": {},
            "asked": wanted,
        }
        if state["error"]:
            server["fault"] = {"code": 500, "message": state["error"]}
        write({**state, "servers": [*state["servers"], server]})
        self.answer(202, {"server": {"id": server["id"], "links": [], "adminPass": "x"}})

    def do_DELETE(self) -> None:
        state = read()
        server = self.path.rsplit("/", 1)[1]
        write(
            {**state, "servers": [one for one in state["servers"] if one["id"] != server], "deleted": [*state.get("deleted", []), server]}
        )
        self.answer(204, None)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Api).serve_forever()
