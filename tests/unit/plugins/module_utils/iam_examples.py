# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an IAM and hosts have, for the unit tests of accounts."""

from __future__ import annotations

import base64
import struct

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._iam.plan import Host

INDIGO = "urn:indigo-dc:scim:schemas:IndigoUser"
ISSUER = "https://iam.example.org/"
SETTINGS = {
    "scim_url": "https://iam.example.org/scim",
    "issuer": ISSUER,
    "groups": [{"name": "deep/gpu", "group": "gpu"}, {"name": "deep/ml", "group": "ml"}],
    "token_file": "/etc/token",
    "token_url": "",
    "client_id": "",
    "client_secret_file": "",
    "names": {},
    "uid_first": 20000,
    "uid_last": 29999,
    "disable_limit": 50,
    "add_limit": 10,
}
GROUPS = [{"id": "g-gpu", "name": "deep/gpu"}, {"id": "g-ml", "name": "deep/ml"}, {"id": "g-other", "name": "deep/other"}]


def key(kind: str = "ssh-ed25519", seed: int = 1) -> str:
    blob = struct.pack(">I", len(kind)) + kind.encode() + struct.pack(">I", 32) + bytes([seed]) * 32
    return f"{kind} {base64.b64encode(blob).decode()}"


def resource(one: str, **changes: object) -> dict:
    """A user as SCIM has it."""
    return {"id": one, "userName": one, "active": True, "groups": [{"value": "g-gpu", "display": "deep/gpu"}], **changes}


def person(one: str, *groups: str, **changes: object) -> dict:
    """A user as the planning takes it."""
    own = {
        "id": f"id-{one}",
        "name": one,
        "full_name": "",
        "active": True,
        "groups": list(groups or ["g-gpu"]),
        "ssh_keys": [],
        "bad_keys": 0,
    }
    return {**own, **changes}


def host(record: str = "", users: dict | None = None, groups: dict | None = None, claimed: dict | None = None) -> Host:
    return Host(record, {"root": 0, **(users or {})}, {"root": 0, **(groups or {})}, claimed or {})
