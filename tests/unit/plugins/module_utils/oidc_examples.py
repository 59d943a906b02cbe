# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A front as an operator writes it, for unit tests."""

from __future__ import annotations

import copy
import typing as t

ISSUER = "https://iam.example.org/"
METADATA = {
    "issuer": ISSUER,
    "jwks_uri": "https://iam.example.org/jwk",
    "introspection_endpoint": "https://iam.example.org/introspect",
    "code_challenge_methods_supported": ["plain", "S256"],
}

SETTINGS: dict[str, t.Any] = {
    "server_name": "front.example.org",
    "certificate": "/etc/ssl/front.pem",
    "certificate_key": "/etc/ssl/front.key",
    "own_ca": False,
    "acme_command": "",
    "port": 443,
    "http_port": 80,
    "session_store": "redis",
    "session_port": 6390,
    "introspection_port": 6391,
    "session_idle": 900,
    "session_lifetime": 28800,
    "session_refresh": 300,
    "refusals_per_minute": 30,
    "connections_per_address": 50,
    "refused_users": ["root", "www-data"],
    "providers": [
        {"name": "iam", "issuer": ISSUER, "client_id": "front", "client_secret_file": "/secrets/iam", "bearer": "local"},
        {"name": "asked", "issuer": ISSUER, "client_id": "rs", "client_secret_file": "/secrets/rs", "bearer": "introspection"},
    ],
    "backends": [
        {
            "name": "marathon",
            "preset": "marathon",
            "provider": "iam",
            "upstreams": ["http://10.0.0.5:8080"],
            "audience": "https://front.example.org/mesos",
            "scopes": ["mesos:read"],
            "groups": ["gpu"],
            "credential_file": "/secrets/marathon",
        }
    ],
}


def settings(backend: dict[str, t.Any] | None = None, provider: dict[str, t.Any] | None = None, **site: t.Any) -> dict[str, t.Any]:
    """The example with some keys of its backend, its first provider or itself changed.

    A value of None takes a key away.
    """
    whole = copy.deepcopy({**SETTINGS, **site})
    for items, changes in ((whole["backends"], backend), (whole["providers"], provider)):
        for key, value in (changes or {}).items():
            if value is None:
                items[0].pop(key, None)
            else:
                items[0][key] = value
    return whole


def read(**metadata: t.Any) -> dict[str, t.Any]:
    """What is read on the host."""
    found = {"metadata": {**METADATA, **metadata}, "error": ""}
    return {"metadata": {"iam": found, "asked": found}, "module_version": "2.4.17-1+deb13u1", "ports_conf": ""}
