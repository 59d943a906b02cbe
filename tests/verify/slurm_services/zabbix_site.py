"""What a site's Zabbix administrator does by hand, through Zabbix's own API; runs on the monitoring host.

usage: zabbix_site.py setup HOST PSK < template      makes the host with the template
       zabbix_site.py remove HOST                    removes the host
       zabbix_site.py values                         prints the last value of each item as JSON
"""

from __future__ import annotations

import json
import sys
import typing as t
import urllib.request

URL = "http://127.0.0.1:8080/api_jsonrpc.php"


def call(method: str, parameters: t.Any, token: str | None = None) -> t.Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    if token:
        body["auth"] = token
    request = urllib.request.Request(URL, json.dumps(body).encode(), {"Content-Type": "application/json-rpc"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        told = json.load(answer)
    if "error" in told:
        sys.exit(f"{method}: {told['error']}")
    return told["result"]


def setup(token: str, host: str, psk: str, template: str) -> None:
    version = call("apiinfo.version", [])
    groups = {"groups": {"createMissing": True}} if version.startswith("6.0") else {"template_groups": {"createMissing": True}}
    kinds = ("templates", "items", "triggers", "discoveryRules")
    rules = {**groups, **{kind: {"createMissing": True, "updateExisting": True} for kind in kinds}}
    call("configuration.import", {"format": "yaml", "rules": rules, "source": template}, token)
    (found,) = call("template.get", {"filter": {"host": ["SLURM and its GPUs"]}}, token)
    (group,) = call("hostgroup.get", {"filter": {"name": ["Linux servers"]}}, token)
    remove(token, host)
    call(
        "host.create",
        {
            "host": host,
            "groups": [{"groupid": group["groupid"]}],
            "templates": [{"templateid": found["templateid"]}],
            "tls_accept": 2,  # only with the pre-shared key
            "tls_psk_identity": host,
            "tls_psk": psk,
        },
        token,
    )


def remove(token: str, host: str) -> None:
    if known := call("host.get", {"filter": {"host": [host]}, "output": ["hostid"]}, token):
        call("host.delete", [entry["hostid"] for entry in known], token)


if __name__ == "__main__":
    session = call("user.login", {"username": "Admin", "password": "zabbix"})
    if sys.argv[1] == "setup":
        setup(session, sys.argv[2], sys.argv[3], sys.stdin.read())
    elif sys.argv[1] == "remove":
        remove(session, sys.argv[2])
    else:
        items = call(
            "item.get", {"output": ["key_", "lastvalue", "lastclock"], "filter": {"flags": [0, 4]}, "search": {"key_": "slurm."}}, session
        )
        print(json.dumps({item["key_"]: item["lastvalue"] for item in items if item["lastclock"] != "0"}))
