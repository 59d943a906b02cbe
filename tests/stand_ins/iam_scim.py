#!/usr/bin/python3
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the SCIM interface of an INDIGO IAM, which no registry offers: PyPI's scim2-server with the IAM's ways put in front of it.

Real: the server's protocol, schemas, ids and storage, and TLS. The IAM's ways, as its sources have them: the path /scim, at most 100
entries a page, no filter, a user's groups with the user and no members with the groups, SSH keys and end times in an extension of
users, tokens by client credentials.
Tests fill the server itself, at /v2 on the loopback port.

usage: iam_scim.py PORT CERTIFICATE KEY STATE.json     Packages of tests are found by PYTHONPATH.

state: {"client_id": ..., "client_secret": ..., "token": ..., "fault": "" or what goes wrong: see Handler.broken}
"""

from __future__ import annotations

import base64
import importlib.resources
import json
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

PORT, CERTIFICATE, KEY = int(sys.argv[1]), sys.argv[2], sys.argv[3]
STATE = Path(sys.argv[4])
INSIDE = 18080
SERVER = f"http://127.0.0.1:{INSIDE}/v2"
PAGE = 100
USER = "urn:indigo-dc:scim:schemas:IndigoUser"


def attribute(name: str, kind: str, **more: object) -> dict:
    return {"name": name, "type": kind, "multiValued": False, "description": name, "required": False, **more}


EXTENSION = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
    "id": USER,
    "name": "IndigoUser",
    "description": "What INDIGO IAM adds to a user",
    "attributes": [
        attribute("endTime", "dateTime"),
        attribute("serviceAccount", "boolean"),
        attribute(
            "sshKeys",
            "complex",
            multiValued=True,
            subAttributes=[
                attribute("display", "string"),
                attribute("primary", "boolean"),
                attribute("fingerprint", "string"),
                attribute("value", "string", caseExact=True),
            ],
        ),
    ],
}


def start_server(directory: str) -> subprocess.Popen[bytes]:
    """The real server, with the IAM's extension of users."""
    resources = importlib.resources.files("scim2_server") / "resources"
    schemas = json.loads((resources / "default-schemas.json").read_text(encoding="utf-8"))
    types = json.loads((resources / "default-resource-types.json").read_text(encoding="utf-8"))
    types[0]["schemaExtensions"] = [{"schema": USER, "required": False}]
    files = []
    for option, content in (("--schema", [*schemas, EXTENSION]), ("--resource-type", types)):
        path = Path(directory) / f"{option[2:]}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        files += [option, str(path)]
    return subprocess.Popen([sys.executable, "-m", "scim2_server.testserver.cli", "--port", str(INSIDE), *files])


def ask(path: str) -> dict:
    with urllib.request.urlopen(f"{SERVER}{path}") as found:
        return json.load(found)


def add_groups(users: list[dict]) -> None:
    """The server knows the members of each group.

    The IAM's answer has the groups of each user.
    """
    of: dict[str, list[dict]] = {}
    for group in ask("/Groups?count=1000").get("Resources", []):
        for member in group.get("members", []):
            of.setdefault(member["value"], []).append({"value": group["id"], "display": group["displayName"]})
    for user in users:
        if user["id"] in of:
            user["groups"] = of[user["id"]]


def large(value: object) -> object:
    """The same with the names of attributes in large letters."""
    if isinstance(value, dict):
        return {key.upper(): large(one) for key, one in value.items()}
    return [large(one) for one in value] if isinstance(value, list) else value


class Handler(BaseHTTPRequestHandler):
    """The IAM's side."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        state = json.loads(STATE.read_text(encoding="utf-8"))
        url = urlparse(self.path)
        if self.headers["Authorization"] != f"Bearer {state['token']}":
            self.answer(401, {"error": "invalid_token"})
        elif not url.path.startswith("/scim/"):
            self.answer(404, {"error": "not found"})
        else:
            self.list(url.path[len("/scim") :], {key: values[0] for key, values in parse_qs(url.query).items()}, state["fault"])

    def do_POST(self) -> None:
        state = json.loads(STATE.read_text(encoding="utf-8"))
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        wanted = base64.b64encode(f"{state['client_id']}:{state['client_secret']}".encode()).decode()
        if self.path != "/token" or self.headers["Authorization"] != f"Basic {wanted}" or form.get("scope") != ["scim:read"]:
            self.answer(401, {"error": "invalid_client"})
        else:
            self.answer(200, {"access_token": state["token"], "token_type": "Bearer", "expires_in": 3599, "scope": "scim:read"})

    def list(self, path: str, query: dict[str, str], fault: str) -> None:
        start, count = int(query.get("startIndex", 1)), min(int(query.get("count", PAGE)), PAGE)
        try:
            body = ask(f"{path}?startIndex={start}&count={count}")
        except urllib.error.HTTPError as error:
            self.answer(error.code, json.load(error))
            return
        if path == "/Groups":
            for group in body.get("Resources", []):
                group.pop("members", None)
        else:
            add_groups(body.get("Resources", [body]))
        self.answer(200, self.broken(body, path, start, fault))

    def broken(self, body: dict, path: str, start: int, fault: str) -> object:
        """What another IAM, a faulty one or a proxy makes of an answer."""
        if path == "/Users" and fault == "half a list" and start > 1:
            body["Resources"] = []
        elif path == "/Users" and fault == "short list":  # whole in itself
            body["Resources"] = body["Resources"][:1]
            body["totalResults"] = len(body["Resources"])
        elif path == "/Users" and fault == "no users":
            body.update(Resources=[], totalResults=0)
        elif path.startswith("/Users") and fault in ("no groups", "empty groups"):
            for user in body.get("Resources", [body]):
                user.pop("groups", None)
                user.update({"groups": []} if fault == "empty groups" else {})
        elif fault == "large letters":  # no fault: names of attributes have no case
            body = large(body)
        return body

    def answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/scim+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    with tempfile.TemporaryDirectory() as directory:
        server = start_server(directory)
        front = ThreadingHTTPServer(("0.0.0.0", PORT), Handler)
        front.socket = context.wrap_socket(front.socket, server_side=True)
        try:
            front.serve_forever()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
