# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Files of masters and agents that root alone may read: pure functions.

Mesos 1.11 reads credentials as JSON only.
"""

from __future__ import annotations

import base64
import json
import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos.master import FOLDER, access_rules

# Who may speak with a master, to the secret's name.
PRINCIPALS = ("operator", "agents", "marathon", "chronos")


def secret_files(plan: t.Mapping[str, t.Any], secrets: t.Mapping[str, str], part: str) -> list[dict[str, str]]:
    """What file_set writes on a master or an agent.

    Rights are among them, as JSON has no place for the mark by which file_set would know its own file.

    :param plan: the plan of the cluster.
    :param part: master or agent.
    """
    if part not in ("master", "agent"):
        raise ValueError(f"There are no secrets for {part}: write master or agent.")
    operator = {"credentials": [{"principal": "operator", "secret": secrets["operator"]}]}
    acls = access_rules(plan["users"], bool(plan["hosts"]["chronos"]))
    rules = _file("acls.json", json.dumps(acls, indent=2) + "\n")
    if part == "agent":
        own = {"principal": "agents", "secret": secrets["agents"]}
        return [_file("agent_credential.json", _json(own)), _file("http_credentials.json", _json(operator)), rules]
    known = [{"principal": name, "secret": secrets[name]} for name in PRINCIPALS if secrets.get(name)]
    url = str(plan["zookeeper"]["url"]).replace("zk://", f"zk://mesos:{secrets['zookeeper_mesos']}@", 1)
    return [_file("credentials.json", _json({"credentials": known})), rules, _file("zk", url)]


def _json(content: t.Mapping[str, t.Any]) -> str:
    return json.dumps(content) + "\n"


def _file(name: str, content: str) -> dict[str, str]:
    """One that root alone may read, which also keeps it out of logs."""
    return {"path": f"{FOLDER}/{name}", "secret_base64": base64.b64encode(content.encode()).decode(), "mode": "0400"}
