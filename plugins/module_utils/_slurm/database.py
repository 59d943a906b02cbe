# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The accounting database of slurmdbd.conf, reached by MariaDB's own programs."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import backup as slurm_backup

CONFIGURATION = "/etc/slurm/slurmdbd.conf"


class Database:
    """On a host where slurmdbd is configured, as root.

    The password, if there is one, stays in a private file.
    """

    def __init__(self, module: t.Any) -> None:
        self.module = module
        with open(CONFIGURATION, encoding="utf-8") as file:
            settings = slurm_backup.settings_of(file.read())
        self.name = settings.get("storageloc", "slurm_acct_db")
        if not re.fullmatch(r"\w+", self.name):
            raise ValueError(f"StorageLoc in {CONFIGURATION} is {self.name!r}, which is no plain name")
        self.options = os.path.join(module.tmpdir, "deephdc_client.cnf")
        descriptor = os.open(self.options, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(slurm_backup.client_options(settings))

    def program(self, *names: str) -> str:
        """Path of the first of these programs; MariaDB and MySQL name them differently."""
        for name in names:
            path = self.module.get_bin_path(name)
            if path:
                return str(path)
        raise ValueError(f"the program {names[0]} is missing: install the package mariadb-client")

    def dump_program(self) -> str:
        return self.program("mariadb-dump", "mysqldump")

    def client(self) -> list[str]:
        return [self.program("mariadb", "mysql"), f"--defaults-extra-file={self.options}", "--batch", "--skip-column-names"]

    def query(self, statement: str, database: str = "") -> list[list[str]]:
        code, out, err = self.module.run_command([*self.client(), *([database] if database else [])], data=statement)
        if code != 0:
            raise ValueError(f"the accounting database does not answer: {' '.join(err.split())}")
        return [line.split("\t") for line in out.splitlines()]

    def tables(self) -> list[str]:
        where = f"table_schema = '{self.name}' and table_type = 'BASE TABLE'"
        return [row[0] for row in self.query(f"select table_name from information_schema.tables where {where}")]

    def rows(self) -> dict[str, int]:
        """Rows by table, all of one moment."""
        counts = " union all ".join(f"select '{table}', count(*) from `{table}`" for table in self.tables())
        return {table: int(number) for table, number in self.query(counts, self.name)} if counts else {}

    def jobs(self) -> int:
        """How many jobs the accounting knows."""
        return sum(number for table, number in self.rows().items() if table.endswith("_job_table"))
