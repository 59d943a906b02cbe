"""Tokens of users, and the settings of the site that let them in."""

from __future__ import annotations

import base64
import json
import shlex
from typing import Any

import yaml
from kubernetes_site import LOGIN, PLAYBOOK, VISITOR, Site

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
PROGRAM = "/usr/local/libexec/deephdc/kubernetes_token"
ONLY = ("--tags", "kubernetes_control_plane,kubernetes_cluster")
# Asks the API on the login host, with the users' kubeconfig for address and authority alone: name to token and path, to a status.
ASK = """
import base64, json, ssl, sys, urllib.error, urllib.request
where = json.loads(open('/etc/kubernetes/users.conf').read().split('\\n', 1)[1])['clusters'][0]['cluster']
trust = ssl.create_default_context(cadata=base64.b64decode(where['certificate-authority-data']).decode())
said = {}
for name, (token, path) in json.loads(base64.b64decode(sys.argv[1])).items():
    request = urllib.request.Request(where['server'] + path)
    if token is not None:
        request.add_unredirected_header('Authorization', 'Bearer ' + token)
    try:
        said[name] = urllib.request.urlopen(request, context=trust, timeout=20).status
    except urllib.error.HTTPError as error:
        said[name] = error.code
print(json.dumps(said))
"""


def asked(site: Site, tokens: dict[str, tuple[str | None, str]]) -> dict[str, int]:
    given = base64.b64encode(json.dumps(tokens).encode()).decode()
    return json.loads(site.out(LOGIN, f"python3 -c {shlex.quote(ASK)} {given}", VISITOR))


def token(site: Site, name: str = "ben", groups: list[str] | None = None, **more: Any) -> str:
    return site.as_user(name, groups, **more).token


def inventory(site: Site, name: str) -> Any:
    """A variable of the site as the inventory has it.

    The authority's certificate is what the look-up would give.
    """
    value = yaml.safe_load((site.inventory / "hosts.yml").read_text(encoding="utf-8"))["all"]["vars"][f"kubernetes_cluster_{name}"]
    for issuer in value if name == "issuers" else ():
        issuer["certificate_authority"] = (site.secrets / "pki/ca.pem").read_text(encoding="utf-8")
    return value


def issuer(site: Site, **change: Any) -> dict[str, Any]:
    return {**inventory(site, "issuers")[0], **change}


def run(site: Site, succeeds: bool = True, **variables: Any) -> str:
    given = {f"kubernetes_cluster_{name}": value for name, value in variables.items()}
    return " ".join(site.playbook(PLAYBOOK, *ONLY, variables=given, succeeds=succeeds).split())
