#!/usr/bin/python3
# Made by deephdc.accelerators, role nova_lxd: changes are lost with its next run.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Look whether the GPUs of a compute host are there.

usage: nova_gpus /etc/nova/gpus.json

The program writes into their file which are lost, or back.
What is lost is written with the key "noticed", and taken back when the device answers again.
A loss without that key is the role's, and only the role takes it back.
The driver of Nova reads the file each minute, reserves a lost GPU in Placement and informs the owner of its server.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

# What the registers of a device read as that does not answer any more.
SILENCE = b"\xff" * 4


def reason(entry: dict[str, Any]) -> str:
    """Say why a GPU is lost; an empty text if it is there."""
    for path in entry.get("paths") or []:
        if not os.path.exists(path):
            return f"{path} does not exist on the host."
    for path in entry.get("paths") or []:
        try:
            with open(os.path.join(path, "config"), "rb") as file:
                if file.read(len(SILENCE)) == SILENCE:
                    return "it has fallen off the bus, the device does not answer any more."
        except OSError:
            pass  # because only the folder of a PCI device has that file
    return ""


def looked_at(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries as they are now."""
    now = []
    for entry in entries:
        if entry.get("lost") and not entry.get("noticed"):
            now.append(entry)
            continue
        kept = {key: value for key, value in entry.items() if key not in ("lost", "noticed")}
        why = reason(kept)
        now.append({**kept, "lost": why, "noticed": True} if why else kept)
    return now


def main(path: str) -> int:
    """Bring the file up to date, unless another program has just replaced it."""
    try:
        with open(path, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            content = json.load(file)
        entries = looked_at(content["devices"])
    except FileNotFoundError:
        return 0
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        print(f"{path} can't be read: {error}", file=sys.stderr)
        return 1
    if entries == content["devices"]:
        return 0
    new = f"{path}.nova_gpus"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as file:
        # As the role writes it, so that its next run changes nothing.
        file.write(json.dumps({**content, "devices": entries}, sort_keys=True, indent=4) + "\n")
        file.flush()
        os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), status.st_mode & 0o777)
        os.fsync(file.fileno())
    present = os.stat(path)
    if (present.st_ino, present.st_mtime_ns) != (status.st_ino, status.st_mtime_ns):
        os.unlink(new)
        return 0
    os.rename(new, path)
    for entry in entries:
        print(f"The GPU {entry['id']} is {'lost: ' + entry['lost'] if entry.get('lost') else 'there.'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
