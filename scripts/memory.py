"""What was computed of files' contents, kept on this machine.

To parse all code takes a minute.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from record import CACHE

MOST = 50_000_000  # bytes


def blob(data: bytes) -> str:
    """Return git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@cache
def _store() -> sqlite3.Connection:
    CACHE.mkdir(parents=True, exist_ok=True)
    file = CACHE / "computed.sqlite"
    if file.exists() and file.stat().st_size > MOST:
        file.unlink()
    store = sqlite3.connect(file, isolation_level=None)
    store.execute("create table if not exists value (key text primary key, json text)")
    return store


def remembered(key: str, make: Callable[[], Any]) -> Any:
    """Return a value by what it was computed of.

    Without the file, or with a torn one, it is computed again.
    """
    with suppress(sqlite3.Error, ValueError, OSError):
        for (found,) in _store().execute("select json from value where key = ?", (key,)):
            return json.loads(found)
    value = make()
    with suppress(sqlite3.Error, OSError):
        _store().execute("insert or replace into value values (?, ?)", (key, json.dumps(value)))
    return value
