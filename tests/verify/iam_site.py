"""An IAM with SCIM for the tests and measurements of accounts: on the host idp, filled as its administrators would."""

from __future__ import annotations

import json
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local import ROOT, Cluster

PLAYBOOK = "playbooks/iam_accounts.yml"
INVENTORIES = ("hosts.yml", "iam.yml")
PORT = 8444
USER = "urn:indigo-dc:scim:schemas:IndigoUser"
CORE = "urn:ietf:params:scim:schemas:core:2.0:"
ASK = """
import json, sys, urllib.request
for method, path, body in json.load(sys.stdin):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://127.0.0.1:18080/v2" + path, data, {"Content-Type": "application/scim+json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
        print(json.loads(text)["id"] if text else "-")
"""


class Iam:
    """The stand-in on the host idp, and what the control node needs to reach it."""

    def __init__(self, cluster: Cluster, directory: Path, inventories: Sequence[str] = INVENTORIES) -> None:
        self.cluster, self.directory, self.inventories = cluster, directory, inventories
        self.token, self.secret = secrets.token_hex(24), secrets.token_hex(24)
        words = ["docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", f"{cluster.label}-idp"]
        self.address = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        for name, text in (("client.secret", self.secret), ("ca.pem", "")):
            (directory / name).touch(mode=0o600)
            (directory / name).write_text(text)
        self.ids: dict[str, str] = {}
        self.groups: dict[str, str] = {}

    def start(self) -> None:
        self.stop()
        script = (ROOT / "tests/stand_ins/iam_scim.py").read_text()
        self.cluster.out("idp", f"mkdir -p /opt/test/iam && cat > /opt/test/iam/iam_scim.py <<'END'\n{script}\nEND")
        certificate = (
            "cd /opt/test/iam && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=iam -keyout key.pem -out cert.pem "
            f"-addext subjectAltName=IP:{self.address} 2>/dev/null && cat cert.pem"
        )
        (self.directory / "ca.pem").write_text(self.cluster.out("idp", certificate))
        self.fault("")
        run = "systemd-run --quiet --collect --unit iam_scim --setenv PYTHONPATH=/opt/test/python python3 /opt/test/iam/iam_scim.py"
        self.cluster.out("idp", f"{run} {PORT} /opt/test/iam/cert.pem /opt/test/iam/key.pem /opt/test/iam/state.json")
        waiting = "python3 -c 'import socket; [socket.create_connection((\"127.0.0.1\", port)) for port in (18080, 8444)]' && echo yes"
        self.cluster.until("idp", waiting, "yes")

    def stop(self) -> None:
        self.cluster.run("idp", "systemctl stop iam_scim; rm -rf /opt/test/iam")

    def fault(self, name: str) -> None:
        """Let something go wrong from now on."""
        state = json.dumps({"client_id": "site", "client_secret": self.secret, "token": self.token, "fault": name})
        self.cluster.out("idp", f"umask 077; cat > /opt/test/iam/state.json <<'END'\n{state}\nEND")

    def ask(self, *requests: tuple[str, str, Any]) -> list[str]:
        """Requests to the server behind, as an administrator of the IAM makes them."""
        return self.cluster.out("idp", f"python3 -c {shlex.quote(ASK)} <<'END'\n{json.dumps(requests)}\nEND").split()

    def user(self, name: str, *keys: str) -> tuple[str, str, Any]:
        own = {"sshKeys": [{"display": "laptop", "value": key} for key in keys]}
        content = {"schemas": [f"{CORE}User", USER], "userName": name, "active": True, "name": {"formatted": f"{name} Ohm"}, USER: own}
        return "POST", "/Users", content

    def change(self, name: str, path: str, value: Any) -> None:
        operation = {"op": "replace", "path": path, "value": value}
        body = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [operation]}
        self.ask(("PATCH", f"/Users/{self.ids[name]}", body))

    def members(self, group: str, *names: str) -> None:
        content = {"schemas": [f"{CORE}Group"], "displayName": group, "members": [{"value": self.ids[name]} for name in names]}
        if group in self.groups:
            self.ask(("PUT", f"/Groups/{self.groups[group]}", content))
        else:
            (self.groups[group],) = self.ask(("POST", "/Groups", content))

    def play(self, *arguments: str, succeeds: bool = True, **variables: Any) -> str:
        """The playbook with this IAM."""
        own = {
            "iam_accounts_scim_url": f"https://{self.address}:{PORT}/scim",
            "iam_accounts_token_url": f"https://{self.address}:{PORT}/token",
            "iam_accounts_client_id": "site",
            "iam_accounts_client_secret_file": str(self.directory / "client.secret"),
            "iam_accounts_ca_file": str(self.directory / "ca.pem"),
        }
        output = self.cluster.playbook(
            PLAYBOOK, *arguments, inventories=self.inventories, variables={**own, **variables}, succeeds=succeeds
        )
        assert self.token not in output and self.secret not in output
        return output
