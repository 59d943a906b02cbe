# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Another size for an instance, which stays the same one.

What it was is kept in LXD until the user confirms.
"""

from __future__ import annotations

import json
from typing import Any, Mapping

from . import instances

BEFORE = "user.nova.before_resize"  # what the instance was, as JSON


def before_resize(record: Mapping[str, Any]) -> str:
    """Compute what is kept of an instance until its resize is confirmed."""
    config = {
        key: value for key, value in record["config"].items() if key in (*instances.LIMIT_KEYS, instances.GPUS) or key.startswith("nvidia.")
    }
    devices = {key: value for key, value in record["devices"].items() if key == "root" or key.startswith("gpu")}
    return json.dumps({"config": config, "devices": devices}, sort_keys=True)


def replace(record: instances.Record, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]]) -> None:
    """Give a record other limits, root disk and GPUs; ports and identity stay."""
    kept = {
        key: value
        for key, value in record["config"].items()
        if key not in (*instances.LIMIT_KEYS, instances.GPUS) and not key.startswith("nvidia.")
    }
    record["config"] = {**kept, **config}
    ports = {key: value for key, value in record["devices"].items() if key != "root" and not key.startswith("gpu")}
    record["devices"] = {**ports, **{key: dict(value) for key, value in devices.items()}}


def restore(record: instances.Record, used: int = 0) -> bool:
    """Make a record what it was before its resize; False if nothing of it is kept.

    :arg used: bytes on the root disk. If they would not fit any more, the disk keeps its new size: a server over its limit can't start.
    """
    kept = record["config"].pop(BEFORE, None)
    if not kept:
        return False
    former = json.loads(kept)
    root = former["devices"].get("root", {})
    if 0 < _bytes(root.get("size")) < used:
        root["size"] = record["devices"]["root"]["size"]
    replace(record, former["config"], former["devices"])
    return True


def _bytes(size: Any) -> int:
    """Compute the bytes of a size in the driver's form, such as 10GiB; 0 is no limit."""
    return int(str(size)[: -len("GiB")]) << 30 if str(size).endswith("GiB") else 0


def change(record: instances.Record, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]]) -> None:
    """Give a record its new size and keep what it was.

    A change that is repeated keeps what it was at first.
    """
    former = record["config"].get(BEFORE) or before_resize(record)
    replace(record, config, devices)
    record["config"][BEFORE] = former


def confirm(record: instances.Record) -> None:
    """Forget what a record was."""
    record["config"].pop(BEFORE, None)
