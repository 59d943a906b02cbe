"""Makes attempts at the API of Kubernetes, one after the other; see README.md.

usage: attempts.py KUBECONFIG < JSON     {"users": {NAME: {HEADER: VALUE or list}}, "attempts": [{id, user, method, path, body, type}]}

Prints one line of JSON: by id, the status and what the API server said.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
import tempfile
import typing as t
import urllib.parse

import yaml


class Api:
    """Connections to the API server: by the administrator's certificate for users who are impersonated, without it for a token."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        cluster, self.admin = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.address = urllib.parse.urlsplit(cluster["server"]).netloc
        self.authority = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
        self.open: dict[bool, http.client.HTTPSConnection] = {}

    def connection(self, is_admin: bool) -> http.client.HTTPSConnection:
        if is_admin not in self.open:
            context = ssl.create_default_context(cadata=self.authority or None)
            if not self.authority:
                context.check_hostname, context.verify_mode = (
                    False,
                    ssl.CERT_NONE,
                )  # a server for development, with its own certificate
            if is_admin and "client-certificate-data" in self.admin:
                with tempfile.NamedTemporaryFile() as file:
                    file.write(
                        base64.b64decode(self.admin["client-certificate-data"]) + b"\n" + base64.b64decode(self.admin["client-key-data"])
                    )
                    file.flush()
                    context.load_cert_chain(file.name)
            self.open[is_admin] = http.client.HTTPSConnection(self.address, context=context, timeout=60)
        return self.open[is_admin]

    def ask(self, headers: dict[str, t.Any], attempt: dict[str, t.Any]) -> dict[str, t.Any]:
        is_admin = "Authorization" not in headers
        connection = self.connection(is_admin)
        if is_admin and "token" in self.admin:
            headers = {**headers, "Authorization": f"Bearer {self.admin['token']}"}
        body = json.dumps(attempt["body"]) if attempt.get("body") is not None else ""
        connection.putrequest(attempt["method"], attempt["path"])
        for name, value in {"Content-Type": attempt.get("type") or "application/json", "Content-Length": str(len(body)), **headers}.items():
            for one in value if isinstance(value, list) else [value]:
                connection.putheader(name, one)
        connection.endheaders(body.encode() or None)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        try:
            data = json.loads(text)
        except ValueError:
            data = {"message": text[:500]}
        said = data.get("message", "") if isinstance(data, dict) else ""
        if attempt.get("may"):
            return {"status": 200 if data["status"]["allowed"] else 403, "said": data["status"].get("reason", "")}
        return {"status": answer.status, "said": said}


def main() -> None:
    api, given = Api(sys.argv[1]), json.load(sys.stdin)
    print(json.dumps({one["id"]: api.ask(given["users"][one["user"]], one) for one in given["attempts"]}))


if __name__ == "__main__":
    main()
