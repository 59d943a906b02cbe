# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""State of the stand-in Marathon, its backups, and its health checks."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any
from urllib.parse import urlsplit

from web import call

EMPTY: dict[str, Any] = {"apps": {}, "deployments": {}, "tasks": {}, "framework": None}


def answers(host: str, port: int, probe: dict[str, Any]) -> bool:
    """Whether a task answers a health check."""
    try:
        response = call(f"http://{host}:{port}{probe.get('path', '/')}", timeout=min(probe.get("timeoutSeconds", 20), 2))
        response.read()
        return probe.get("protocol", "HTTP").endswith("TCP") or 200 <= response.status < 400
    except (OSError, ValueError):
        return False


def write_backup(uri: str, state: dict[str, Any]) -> None:
    """Marathon writes a tar; file:// is the only scheme here. It is the new leader's host that has the file."""
    data = json.dumps(state).encode()
    entry = tarfile.TarInfo("state.json")
    entry.size = len(data)
    with tarfile.open(urlsplit(uri).path, "w") as archive:
        archive.addfile(entry, io.BytesIO(data))


def read_backup(uri: str) -> dict[str, Any]:
    with tarfile.open(urlsplit(uri).path) as archive:
        member = archive.extractfile("state.json")
        return dict(json.loads(member.read())) if member else dict(EMPTY)
