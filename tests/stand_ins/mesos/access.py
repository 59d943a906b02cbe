# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may do what: credentials as Mesos 1.11 reads them, basic authentication, and its ACLs."""

from __future__ import annotations

import base64
import hmac
import json
from pathlib import Path
from typing import Any

from options import Refused


def _json(path: str, what: str) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"Failed to read {what} file '{path}': {error.strerror}") from error
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Refused(f"Invalid json format: syntax error at line 1 near: {text.split()[0] if text.split() else ''}") from error
    if not isinstance(value, dict):
        raise Refused("Invalid json format: Expecting a JSON object")
    return value


def credentials(path: str, flag: str) -> dict[str, str]:
    """Secrets by principal, of a JSON file {"credentials": [{"principal", "secret"}]}. Text was allowed before Mesos 1.11."""
    try:
        value = _json(path, "credentials")
    except Refused as error:
        raise Refused(f"{error} (see --{flag} flag)") from error
    if not value or not value.get("credentials"):
        raise Refused(f"Credentials file must contain at least one credential (see --{flag} flag)")
    return {entry["principal"]: entry.get("secret", "") for entry in value["credentials"]}


def credential(path: str) -> tuple[str, str]:
    """Principal and secret of an agent or framework."""
    try:
        value = _json(path, "credential")
    except Refused as error:
        raise Refused(f"{error} (see --credential flag)") from error
    if not value:
        raise Refused(f"Empty credential file '{path}' (see --credential flag)")
    if "principal" not in value:
        raise Refused("Failed to parse credential: Missing required fields: principal (see --credential flag)")
    return value["principal"], value.get("secret", "")


def basic(principal: str, secret: str) -> str:
    """The header Authorization."""
    return "Basic " + base64.b64encode(f"{principal}:{secret}".encode()).decode()


def principal_of(header: str, secrets: dict[str, str]) -> str | None:
    """Whose header this is; None if it belongs to no account."""
    if not header.startswith("Basic "):
        return None
    try:
        name, _colon, secret = base64.b64decode(header[len("Basic ") :], validate=True).decode().partition(":")
    except ValueError:
        return None
    return name if name in secrets and hmac.compare_digest(secrets[name], secret) else None


def _matches(value: str | None, entity: dict[str, Any]) -> bool:
    """Whether an ACL speaks of a value. ANY and NONE speak of all; a value of None means any object at all."""
    return entity.get("type", "SOME") != "SOME" or "values" not in entity or value in entity["values"]


def _allows(value: str | None, entity: dict[str, Any]) -> bool:
    kind = entity.get("type", "SOME")
    return kind == "ANY" or (kind == "SOME" and value in entity.get("values", []))


# The key of the objects, by ACL; include/mesos/authorizer/acls.proto
OBJECTS = {
    "register_frameworks": "roles",
    "run_tasks": "users",
    "register_agents": "agents",
    "drain_agents": "agents",
    "deactivate_agents": "agents",
    "reactivate_agents": "agents",
    "mark_agents_gone": "agents",
    "get_endpoints": "paths",
    "teardown_frameworks": "framework_principals",
    "view_frameworks": "users",
    "view_tasks": "users",
    "view_executors": "users",
    "view_roles": "roles",
    "view_flags": "flags",
    "access_sandboxes": "users",
    "access_mesos_logs": "logs",
    "update_maintenance_schedules": "machines",
    "get_maintenance_schedules": "machines",
    "start_maintenances": "machines",
    "stop_maintenances": "machines",
    "get_maintenance_statuses": "machines",
    "get_quotas": "roles",
    "update_quotas": "roles",
    "update_weights": "roles",
}


def approved(acls: dict[str, Any] | None, action: str, principal: str | None, value: str | None = None) -> bool:
    """The first ACL that speaks of both decides; without one, permissive does, which is true by default."""
    if acls is None:
        return True
    for acl in acls.get(action, []):
        subjects, objects = acl["principals"], acl[OBJECTS[action]]
        if _matches(principal, subjects) and _matches(value, objects):
            return _allows(principal, subjects) and _allows(value, objects)
    return bool(acls.get("permissive", True))


def acls_of(text: str | None) -> dict[str, Any] | None:
    """ACLs of the flag --acls: JSON, or the path of a file."""
    if text is None:
        return None
    if text.startswith("/"):
        text = Path(text).read_text(encoding="utf-8")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Refused(f"Failed to load flag 'acls': Failed to load value '{text}': {error}") from error
    return dict(value)
