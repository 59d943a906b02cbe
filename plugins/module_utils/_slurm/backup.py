# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a backup of a SLURM cluster consists of, and how it is found to be whole.

A backup is a directory with a manifest (names, SHA-256, versions, rows of the database's tables), which is written last.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import typing as t

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
MANIFEST = "manifest.json"
DUMP = "database.sql.gz"
STATE = "state.tar.gz"
CONFIGURATION = "configuration.tar.gz"
# What mariadb-dump writes last, and only when all went well.
COMPLETE = b"-- Dump completed"
INSERT = re.compile(rb"INSERT (?:IGNORE )?INTO `([^`]+)` VALUES")
# Which accelerators the nodes are promised to have (role slurm_cluster).
RECORD = "/var/lib/deephdc/slurm_accelerators"


def settings_of(text: str) -> dict[str, str]:
    """Return settings of slurmdbd.conf or slurm.conf, with names in small letters.

    Only those that stand on their own lines are read.
    """
    pairs = (line.split("#", 1)[0].split("=", 1) for line in text.splitlines())
    return {pair[0].strip().lower(): pair[1].strip().strip('"') for pair in pairs if len(pair) == 2}


def client_options(settings: t.Mapping[str, str]) -> str:
    """Return an option file for MariaDB's programs.

    With it they reach the accounting database as slurmdbd does. For a local one they use root's own socket.
    """
    if settings.get("storagehost", "localhost") == "localhost" and not settings.get("storagepass"):
        return "[client]\n"
    options = {"host": settings.get("storagehost", "localhost"), "user": settings.get("storageuser", "slurm")}
    if settings.get("storageport"):
        options["port"] = settings["storageport"]
    if settings.get("storagepass"):
        options["password"] = '"' + settings["storagepass"].replace("\\", "\\\\").replace('"', '\\"') + '"'
    tls = dict(pair.split("=", 1) for pair in settings.get("storageparameters", "").split(",") if "=" in pair)
    options.update({f"ssl-{key[4:].lower()}": value for key, value in tls.items() if key in ("SSL_CA", "SSL_CERT", "SSL_KEY")})
    # The password goes to the server that the certificate names, and to no other.
    verify = "ssl-verify-server-cert\n" if "ssl-ca" in options else ""
    return "[client]\n" + "".join(f"{key}={value}\n" for key, value in options.items()) + verify


def rows_of_dump(lines: t.Iterable[bytes]) -> tuple[dict[str, int], bool]:
    """Rows by table, and whether the dump was written to its end.

    mariadb-dump writes a line per row.
    """
    rows: dict[str, int] = {}
    table, complete = "", False
    for line in lines:
        found = INSERT.match(line)
        if found:
            table = found.group(1).decode()
            rows.setdefault(table, 0)
            rest = line[found.end() :].strip()
            # Elsewhere than in MariaDB's newer releases the first row, or every one, follows on the same line.
            rows[table] += 1 if rest.startswith(b"(") else 0
        elif table and line.startswith(b"("):
            rows[table] += 1
        else:
            table = ""
        if line.strip():
            complete = line.startswith(COMPLETE)
    return rows, complete


def read_dump(path: str) -> tuple[dict[str, int], bool]:
    with gzip.open(path, "rb") as file:
        return rows_of_dump(file)


def dump_errors(before: t.Mapping[str, int], dumped: t.Mapping[str, int], after: t.Mapping[str, int]) -> list[str]:
    """Report tables of which a dump has too few or too many rows.

    Its rows must be between those that the database had before and after it.
    """
    return [
        f"table {table} had {before[table]} rows before and {after.get(table, 0)} after the dump, which has {dumped.get(table, 0)}"
        for table in sorted(before)
        if not min(before[table], after.get(table, 0)) <= dumped.get(table, 0) <= max(before[table], after.get(table, 0))
    ]


def digest(path: str) -> str:
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            sha.update(block)
    return sha.hexdigest()


def read_manifest(directory: str) -> dict[str, t.Any]:
    """The manifest of a whole backup.

    :raises ValueError: it is damaged or was never completed; one sentence.
    """
    try:
        with open(os.path.join(directory, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        files = dict(manifest["files"])
    except FileNotFoundError as error:
        raise ValueError(f"{directory} is no complete backup, as it has no {MANIFEST}: name another one.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{MANIFEST} in {directory} is damaged: restore another backup.") from error
    for name, wanted in files.items():
        path = os.path.join(directory, name)
        if not NAME.fullmatch(name) or not os.path.isfile(path):
            raise ValueError(f"{path} is missing: restore another backup.")
        if digest(path) != wanted:
            raise ValueError(f"{path} is damaged, its checksum is not that of the manifest: restore another backup.")
    return dict(manifest)


def superfluous(names: t.Iterable[str], keep: int) -> list[str]:
    """Return the backups to remove, the oldest ones.

    Names begin with their time, so they sort by age.
    """
    return sorted(names)[:-keep] if keep > 0 else []
