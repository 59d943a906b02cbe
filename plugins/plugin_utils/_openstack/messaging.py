# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""RabbitMQ's accounts as it imports them: pure functions."""

from __future__ import annotations

import base64
import hashlib
import typing as t

ALGORITHM = "rabbit_password_hashing_sha256"


def definitions(passwords: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Accounts by name and password, each with all rights in the only virtual host."""
    return {
        "users": [
            {"name": name, "password_hash": password_hash(name, password), "hashing_algorithm": ALGORITHM, "tags": []}
            for name, password in sorted(passwords.items())
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": name, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"} for name in sorted(passwords)],
    }


def password_hash(name: str, password: str) -> str:
    """Return a password as RabbitMQ keeps it.

    The salt is made of name and password, so that the same password gives the same text.
    """
    salt = hashlib.sha256(f"{name}\0{password}".encode()).digest()[:4]
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def lacking(wanted: t.Mapping[str, t.Any], known: t.Mapping[str, t.Any]) -> list[str]:
    """Return the accounts whose password or rights are not what is wanted.

    :param known: what rabbitmqctl exports.
    """
    has = {user["name"]: user.get("password_hash") for user in known.get("users") or []}
    rights = [{key: one.get(key) for key in ("user", "vhost", "configure", "write", "read")} for one in known.get("permissions") or []]
    right = {one["user"]: one for one in wanted["permissions"]}
    return [user["name"] for user in wanted["users"] if has.get(user["name"]) != user["password_hash"] or right[user["name"]] not in rights]
