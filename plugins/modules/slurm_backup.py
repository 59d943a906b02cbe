#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Back up a SLURM cluster's accounting database and state while jobs run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_backup
version_added: 0.1.0
short_description: Back up SLURM's accounting database, state and configuration
author: deephdc.accelerators contributors (@deephdc)
description:
  - On the host of slurmdbd, writes a verified dump of the accounting database. On a controller, writes a consistent copy of slurmctld's
    state and of C(/etc/slurm). Daemons and jobs go on.
  - The backup is a new directory that only root can read.
  - A dump counts only if it was written to its end and each table has as many rows as the database. The directory gets its
    final name when everything in it was verified, so an incomplete backup is never mistaken for a complete one.
attributes:
  check_mode:
    description: Predicts the backup without making it.
    support: full
  diff_mode:
    description: Not needed, a backup is always new.
    support: none
options:
  directory:
    description: Directory that holds all backups.
    type: path
    required: true
  name:
    description: Name of the new backup, beginning with its time. If there is a backup of that name, nothing is done.
    type: str
    required: true
  database:
    description: Whether to dump the accounting database that C(slurmdbd.conf) names.
    type: bool
    default: false
  state:
    description: Whether to copy slurmctld's state, C(/etc/slurm) and the record of accelerators.
    type: bool
    default: false
  state_directory:
    description: C(StateSaveLocation) of C(slurm.conf).
    type: path
    default: /var/lib/slurm/slurmctld
  keep:
    description: How many backups are kept, the newest; V(0) for all.
    type: int
    default: 0
seealso:
  - module: deephdc.accelerators.slurm_restore
"""

EXAMPLES = r"""
- name: Back up a cluster whose controller has the database too
  deephdc.accelerators.slurm_backup:
    directory: /var/backups/slurm
    name: 20261121T150000Z
    database: true
    state: true
    keep: 7
"""

RETURN = r"""
path:
  description: The backup's directory.
  type: str
  returned: always
  sample: /var/backups/slurm/20261121T150000Z
files:
  description: Names of its files, the manifest last.
  type: list
  elements: str
  returned: always
rows:
  description: Rows of each table in the dump.
  type: dict
  returned: when the database was dumped
removed:
  description: Names of older backups that were removed.
  type: list
  elements: str
  returned: always
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import tarfile
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import service_file
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import backup
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.database import Database

# slurmctld writes some state every few seconds; a copy takes milliseconds.
TRIES = 20
# Whose the state is. It is read with the rights of this account, so no link of it leads root elsewhere.
USER = "slurm"


def version(module: AnsibleModule) -> str:
    """Version of the SLURM that wrote what is backed up."""
    for program in ("slurmdbd", "slurmctld"):
        path = module.get_bin_path(program, opt_dirs=["/usr/sbin"])
        found = re.search(r"\d\d\.\d\d\.\S+", module.run_command([path, "-V"])[1]) if path else None
        if found:
            return found.group()
    module.fail_json(msg="neither slurmdbd nor slurmctld is installed here: there is nothing to back up")
    raise AssertionError


def dump(module: AnsibleModule, directory: str) -> dict[str, int]:
    """Write the dump and return its rows by table; fails where it is not whole."""
    database = Database(module)
    before = database.rows()
    path = os.path.join(directory, backup.DUMP)
    words = [database.dump_program(), f"--defaults-extra-file={database.options}", "--single-transaction", "--quick", "--skip-lock-tables"]
    command = " ".join(shlex.quote(word) for word in [*words, "--hex-blob", database.name])
    # Compressed while it is made: the text may be many times larger.
    code, _out, err = module.run_command(["bash", "-c", f"set -o pipefail; {command} | gzip --fast > {shlex.quote(path)}"])
    if code != 0:
        raise ValueError(f"the accounting database can't be dumped: {' '.join(err.split())}")
    rows, complete = backup.read_dump(path)
    if not complete:
        raise ValueError("the dump of the accounting database was not written to its end")
    wrong = backup.dump_errors(before, rows, database.rows())
    if wrong:
        raise ValueError(f"the dump of the accounting database is not whole: {'; '.join(wrong)}")
    return rows


def top_level(directory: str) -> dict[str, tuple[int, int, int]]:
    """What shows that a file was replaced or written.

    The heartbeat is left out: controllers write it all the time, and nothing reads an old one.
    """
    found = {}
    with as_user(USER):
        for entry in os.scandir(directory):
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("heartbeat"):
                status = entry.stat(follow_symlinks=False)
                found[entry.name] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return found


def copy_top_level(source: str, copy: str) -> bool:
    """Copy the files of the directory itself, and whether none changed meanwhile."""
    try:
        before = top_level(source)
        for name in before:
            service_file.copy(os.path.join(source, name), os.path.join(copy, name), USER)
        return top_level(source) == before
    except FileNotFoundError:  # it was just replaced
        return False


def copy_state(source: str, copy: str) -> None:
    """Copy the state as it was at one moment, then the jobs' scripts.

    In this order, as superfluous scripts do no harm, and missing ones would.
    """
    for _try in range(TRIES):
        shutil.rmtree(copy, ignore_errors=True)
        os.mkdir(copy, 0o700)
        if copy_top_level(source, copy):
            break
        time.sleep(0.2)
    else:
        raise ValueError(f"{source} changes all the time, so there is no consistent copy: try again")
    with as_user(USER):
        names = [entry.name for entry in os.scandir(source) if entry.is_dir(follow_symlinks=False)]
    for name in names:
        if name.startswith("hash."):
            copy_scripts(os.path.join(source, name), os.path.join(copy, name))


def copy_scripts(source: str, target: str) -> None:
    """Copy the directories of jobs.

    What belongs to a job that ends meanwhile is left out.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    with as_user(USER):
        found = list(os.walk(source, onerror=refuse))
    for folder, _folders, names in found:
        into = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(into, 0o700, exist_ok=True)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                service_file.copy(os.path.join(folder, name), os.path.join(into, name), USER)


def archive(path: str, members: dict[str, str]) -> None:
    """Write a compressed archive of the members that exist.

    :param members: path on the host to name in the archive.
    """
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for source, name in members.items():
            if os.path.exists(source):
                tar.add(source, arcname=name)


def make(module: AnsibleModule, partial: str) -> dict:
    manifest = {
        "format": 1,
        "host": socket.gethostname(),
        "version": version(module),
        "database": module.params["database"],
        "state": module.params["state"],
        "rows": {},
    }
    if module.params["state"]:
        source = module.params["state_directory"]
        with as_user(USER):
            is_there = os.path.isdir(source)
        if not is_there:
            raise ValueError(f"{source} is not there: give slurm_controller_state_directory its right value")
        copy = os.path.join(partial, "state")
        copy_state(source, copy)
        archive(os.path.join(partial, backup.STATE), {copy: "."})
        shutil.rmtree(copy)
        archive(os.path.join(partial, backup.CONFIGURATION), {"/etc/slurm": "etc/slurm", backup.RECORD: backup.RECORD.lstrip("/")})
    # After the state: the jobs in it are then in the database too.
    if module.params["database"]:
        manifest["rows"] = dump(module, partial)
    manifest["files"] = {name: backup.digest(os.path.join(partial, name)) for name in sorted(os.listdir(partial))}
    with open(os.path.join(partial, backup.MANIFEST), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)
    for name in os.listdir(partial):
        path = os.path.join(partial, name)
        os.chmod(path, 0o600)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return manifest


def complete(directory: str) -> list[str]:
    return [entry.name for entry in os.scandir(directory) if os.path.exists(os.path.join(entry.path, backup.MANIFEST))]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "database": {"type": "bool", "default": False},
            "state": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": "/var/lib/slurm/slurmctld"},
            "keep": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    directory, name = module.params["directory"], module.params["name"]
    path = os.path.join(directory, name)
    if not backup.NAME.fullmatch(name):
        module.fail_json(msg=f"{name!r} is no name of a backup")
    if module.check_mode or os.path.exists(path):
        module.exit_json(changed=not os.path.exists(path), path=path, files=[], rows={}, removed=[])
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o700)
    for entry in os.scandir(directory):  # what killed runs left
        if entry.name.startswith(".partial."):
            shutil.rmtree(entry.path)
    partial = tempfile.mkdtemp(prefix=".partial.", dir=directory)
    try:
        manifest = make(module, partial)
        os.rename(partial, path)
    except (OSError, ValueError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        module.fail_json(msg=f"No backup was made: {error}.")
    removed = backup.superfluous(complete(directory), module.params["keep"])
    for old in removed:
        shutil.rmtree(os.path.join(directory, old))
    files = [*manifest["files"], backup.MANIFEST]
    module.exit_json(changed=True, path=path, files=files, rows=manifest["rows"], removed=removed)


if __name__ == "__main__":
    main()
