# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Metadata for a server that has no metadata service to ask: a config drive.

A container has no drive. cloud-init reads the same files from the seed folder of its source ConfigDrive.
"""

from __future__ import annotations

import posixpath
from typing import Iterable
from urllib.parse import urlencode

from .client import NOT_FOUND, Client
from .errors import LXDError

FOLDER = "/var/lib/cloud/seed/config_drive"


def write(client: Client, name: str, files: Iterable[tuple[str, object]]) -> None:
    """Put files that only root may read into an instance, which may be stopped.

    :arg files: paths below the folder, and contents as bytes or text.
    :raises LXDError: LXD can't write into the instance.
    """
    present: set[str] = set()
    for path, content in files:
        target = posixpath.normpath(posixpath.join(FOLDER, path))
        if not target.startswith(f"{FOLDER}/"):
            continue  # because a path with dots must not leave the folder
        for folder in _parents(target):
            if folder not in present and not _exists(client, name, folder):
                _post(client, name, folder, b"", {"X-LXD-type": "directory", "X-LXD-mode": _mode(folder)})
            present.add(folder)
        data = content.encode() if isinstance(content, str) else bytes(content)  # type: ignore[call-overload]  # because Nova gives either
        _post(client, name, target, data, {"X-LXD-type": "file", "X-LXD-mode": "0400"})


def _mode(folder: str) -> str:
    return "0700" if folder.startswith(FOLDER) else "0755"


def _parents(path: str) -> list[str]:
    """The folders above a path, from the top, without the root."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: number + 1]) for number in range(len(parts))]


def _exists(client: Client, name: str, folder: str) -> bool:
    try:
        client.get("instances", name, "files", query=urlencode({"path": folder}))
    except LXDError as error:
        if error.code == NOT_FOUND:
            return False
        raise
    return True


def _post(client: Client, name: str, path: str, data: bytes, headers: dict[str, str]) -> None:
    # Chunks, as the body of a file is not JSON.
    sent = {**headers, "X-LXD-uid": "0", "X-LXD-gid": "0", "Content-Length": str(len(data)), "Content-Type": "application/octet-stream"}
    client.request("POST", ("instances", name, "files"), [data], query=urlencode({"path": path}), headers=sent)
