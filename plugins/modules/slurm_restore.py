#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring a SLURM cluster's accounting database or state back from a backup."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore
version_added: 0.1.0
short_description: Restore SLURM's accounting database, state and configuration from a backup
author: deephdc.accelerators contributors (@deephdc)
description:
  - Checks a backup that M(deephdc.accelerators.slurm_backup) made and restores it on a host on which SLURM is installed. Running units
    are stopped first.
  - Refuses a backup that is damaged or that the installed SLURM can't read.
  - Without O(overwrite), refuses to replace a database that has jobs, or an existing state. This is also so if an earlier run restored
    them and SLURM has changed them since.
  - What was restored is recorded in C(/var/lib/deephdc/slurm_restored). So a run that was killed can be continued, and what did not
    change since it was restored is not restored again.
attributes:
  check_mode:
    description: Checks the backup and predicts whether it would be restored.
    support: full
  diff_mode:
    description: Not needed, the result names what was restored.
    support: none
options:
  path:
    description: The backup's directory on this host.
    type: path
    required: true
  database:
    description: Whether to restore the accounting database.
    type: bool
    default: false
  state:
    description: Whether to restore slurmctld's state, and the files of C(/etc/slurm) that are missing.
    type: bool
    default: false
  state_directory:
    description: C(StateSaveLocation) of C(slurm.conf).
    type: path
    default: /var/lib/slurm/slurmctld
  version:
    description: The SLURM that will run with the restored data, a version or a major release.
    type: str
    required: true
  overwrite:
    description:
      - Replace a database that has jobs, or an existing state. The former state is kept in a directory C(before-restore-TIME)
        below it. The former database is lost.
    type: bool
    default: false
  once:
    description: Do not restore a backup a second time on this host, even if SLURM has changed the data since.
    type: bool
    default: false
  resume:
    description:
      - Parts that a killed run has begun to restore, as an earlier call with O(only_check) returned them in RV(begun).
      - They may be replaced although a daemon was started since.
    type: list
    elements: str
    choices: [database, state]
    default: []
  only_check:
    description: Check the backup and the host, restore nothing.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.slurm_backup
"""

EXAMPLES = r"""
- name: Restore a cluster on an empty host
  deephdc.accelerators.slurm_restore:
    path: /var/backups/slurm/20261121T150000Z
    database: true
    state: true
    version: "24.11"
"""

RETURN = r"""
restored:
  description: What was restored, or would be in check mode.
  type: list
  elements: str
  returned: always
  sample: [database, state]
begun:
  description: Parts that a killed run with this backup has begun to restore, and that no daemon has used since.
  type: list
  elements: str
  returned: always
manifest:
  description: The backup's manifest.
  type: dict
  returned: always
"""

import contextlib
import json
import os
import pwd
import shlex
import tarfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import backup, restored_state
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import state as slurm_state
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.database import CONFIGURATION, Database
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.releases import release_of, step_error

NOTE = "/var/lib/deephdc/slurm_restored"
# Where the playbook slurm_move_controller notes that the state of this host is out of date.
MOVED = "/var/lib/deephdc/slurm_moved"
USER = "slurm"
REMEDY = "to go on with what is there, run the playbook slurm; to replace it, set slurm_restore_overwrite to the cluster's name"
# Tables that slurmdbd itself fills and empties, without any job.
OWN_TABLES = ("_usage_day_table", "_usage_hour_table", "_usage_month_table", "_last_ran_table")


def noted() -> dict[str, dict[str, str]]:
    """Return what earlier runs restored.

    Each part has its backup and what it was then, which is empty while it is under way.
    """
    try:
        with open(NOTE, encoding="utf-8") as file:
            return {part: entry for part, entry in json.load(file).items() if isinstance(entry, dict)}
    except (AttributeError, OSError, ValueError):
        return {}


def note(part: str, identity: str, was: str) -> None:
    os.makedirs(os.path.dirname(NOTE), exist_ok=True)
    with open(f"{NOTE}.new", "w", encoding="utf-8") as file:
        json.dump({**noted(), part: {"backup": identity, "was": was}}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{NOTE}.new", NOTE)


def stop(module: AnsibleModule, unit: str) -> None:
    """Stop a unit, as nothing may write while its files are replaced.

    :raises ValueError: it does not stop.
    """
    if module.run_command(["systemctl", "cat", unit])[0] != 0:
        return
    code, _out, err = module.run_command(["systemctl", "stop", unit])
    if code != 0 or module.run_command(["systemctl", "is-active", "--quiet", unit])[0] == 0:
        raise ValueError(f"{unit} does not stop: {' '.join(err.split()) or 'it is still active'}")


def used_since_note(module: AnsibleModule, unit: str) -> bool:
    """Whether a unit runs, or has been started since the note was written."""
    out = module.run_command(["systemctl", "show", "-P", "ActiveEnterTimestampMonotonic", unit])[1].strip()
    started = time.time() - time.monotonic() + int(out) / 1e6 if out.isdecimal() and int(out) else 0.0
    active = module.run_command(["systemctl", "is-active", "--quiet", unit])[0] == 0
    return active or started > os.stat(NOTE).st_mtime


def rows_of_jobs(rows: dict[str, int]) -> str:
    """What changes in the database as soon as a cluster works with it."""
    return json.dumps({table: count for table, count in sorted(rows.items()) if not table.endswith(OWN_TABLES)})


def rows_there(module: AnsibleModule) -> dict[str, int]:
    """Rows of the database that is there; none where none can be yet."""
    try:
        return Database(module).rows() if os.path.exists(CONFIGURATION) else {}
    except ValueError:
        return {}  # not installed, or not running: it is asked again before it is replaced


class Part:
    """The database or the state: what is there, and how a backup takes its place."""

    name = ""
    unit = ""

    def __init__(self, module: AnsibleModule, path: str, manifest: dict, identity: str) -> None:
        self.module, self.path, self.manifest, self.identity = module, path, manifest, identity

    def is_there(self) -> str:
        """What is there now; empty where nothing is that could be lost."""
        raise NotImplementedError

    def loss(self) -> str:
        """What a restore would replace, for a sentence; empty where nothing is lost."""
        raise NotImplementedError

    def begun(self) -> bool:
        """Return whether a killed run of the same backup is to be completed.

        Nothing has worked with what it left.
        """
        return noted().get(self.name) == {"backup": self.identity, "was": ""} and not used_since_note(self.module, self.unit)

    def confirmed(self) -> bool:
        """Whether what is there may be replaced."""
        return self.module.params["overwrite"] or self.name in self.module.params["resume"] or self.begun()

    def restore(self) -> None:
        raise NotImplementedError

    def restore_noted(self) -> None:
        """Restore a part, and record that it is under way, then what it was."""
        stop(self.module, self.unit)
        # Asked again, as MariaDB may have been down when the run was checked.
        if not self.confirmed() and self.loss():
            raise ValueError(f"{self.loss()}: {REMEDY}")
        note(self.name, self.identity, "")
        self.restore()
        note(self.name, self.identity, self.is_there())


class DatabasePart(Part):
    name = "database"
    unit = "slurmdbd"

    def is_there(self) -> str:
        return rows_of_jobs(rows_there(self.module))

    def loss(self) -> str:
        jobs = sum(count for table, count in rows_there(self.module).items() if table.endswith("_job_table"))
        return f"the accounting database has {jobs} jobs already, which would be lost" if jobs else ""

    def restore(self) -> None:
        database = Database(self.module)
        database.query(f"drop database if exists `{database.name}`; create database `{database.name}`")
        client = " ".join(shlex.quote(word) for word in [*database.client(), database.name])
        command = f"set -o pipefail; gzip -dc {shlex.quote(os.path.join(self.path, backup.DUMP))} | {client}"
        code, _out, err = self.module.run_command(["bash", "-c", command])
        if code != 0:
            raise ValueError(f"the database refuses the dump: {' '.join(err.split())}")
        got = database.rows()
        wrong = [
            f"{table} has {got.get(table, 0)} rows of {number}"
            for table, number in self.manifest["rows"].items()
            if got.get(table) != number
        ]
        if wrong:
            raise ValueError(f"the database is not what was dumped: {'; '.join(wrong)}")


class StatePart(Part):
    name = "state"
    unit = "slurmctld"

    @property
    def directory(self) -> str:
        return str(self.module.params["state_directory"])

    def is_there(self) -> str:
        with as_user(USER):
            return restored_state.fingerprint(self.directory) if slurm_state.has_state(self.directory) else ""

    def loss(self) -> str:
        with as_user(USER):
            there = os.path.exists(os.path.join(self.directory, "job_state"))
        return f"{self.directory} has a controller's state already" if there else ""

    def begun(self) -> bool:
        with as_user(USER):
            under_way = restored_state.under_way(self.directory)
        return under_way == self.identity if under_way else super().begun()

    def restore(self) -> None:
        # First, because what follows ends with a whole state.
        bring_configuration(
            os.path.join(self.path, backup.CONFIGURATION), replaced={backup.RECORD} if self.module.params["once"] else set()
        )
        if not os.path.isdir(self.directory):
            slurm = pwd.getpwnam(USER)
            safe_directory.give(self.directory, slurm.pw_uid, slurm.pw_gid, 0o700, make=True)
        with open(os.path.join(self.path, backup.STATE), "rb") as archive, as_user(USER):
            restored_state.put(archive, self.directory, self.identity)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(MOVED)


def bring_configuration(archive: str, replaced: t.Collection[str]) -> None:
    """Write the files of the archive that this host does not have.

    They get their modes and owners' names.

    replaced: those that it may have.
    """
    with tarfile.open(archive, "r:gz") as tar:
        for member in restored_state.members(tar):
            target = os.path.normpath(os.path.join("/", member.name))
            user = pwd.getpwnam(member.uname if member.uname in ("root", USER) else "root")
            if member.isdir():
                if not os.path.isdir(target):
                    os.makedirs(target, member.mode)
                    os.chown(target, user.pw_uid, user.pw_gid)
                continue
            source = tar.extractfile(member)
            if source is None or (os.path.lexists(target) and target not in replaced):
                continue
            partial = f"{target}.deephdc-partial"
            restored_state.remove(partial)  # what a killed run left
            restored_state.write_file(source, partial, member.mode, (user.pw_uid, user.pw_gid))
            os.utime(partial, (member.mtime, member.mtime))
            os.rename(partial, target)


def refusal(part: Part) -> str:
    """Why a part is not restored, empty where it may be."""
    if part.confirmed():
        return ""
    loss = part.loss()
    if not loss:
        return ""
    entry = noted().get(part.name, {})
    since = ""
    if entry.get("backup") == part.identity:
        since = " (restored from this backup and used since)" if entry.get("was") else " (a restore of this backup was not finished)"
    return f"Nothing was restored: {loss}{since}: {REMEDY}."


def is_done(part: Part) -> bool:
    """Whether what is there is what an earlier run restored from this backup."""
    entry = noted().get(part.name, {})
    if part.module.params["once"] and entry.get("backup") == part.identity and entry.get("was"):
        return True
    return bool(entry.get("was")) and entry == {"backup": part.identity, "was": part.is_there()} and not part.begun()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "database": {"type": "bool", "default": False},
            "state": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": "/var/lib/slurm/slurmctld"},
            "version": {"type": "str", "required": True},
            "overwrite": {"type": "bool", "default": False},
            "once": {"type": "bool", "default": False},
            "resume": {"type": "list", "elements": "str", "choices": ["database", "state"], "default": []},
            "only_check": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    path = module.params["path"]
    kinds = [kind for kind in (DatabasePart, StatePart) if module.params[kind.name]]
    try:
        manifest = backup.read_manifest(path)
        absent = [kind.name for kind in kinds if not manifest[kind.name]]
        if absent:
            raise ValueError(f"{path} has no {absent[0]}: restore a backup that has it.")
        old, new = release_of(manifest["version"]), release_of(f"{module.params['version']}.")
        if not new:
            raise ValueError(
                "This host would get no SLURM, as apt knows no package of it: run 'apt-get update' there, and look at slurm_packages_suite."
            )
        wrong = step_error(old, new, f"The backup {path}")
        if wrong:
            raise ValueError(wrong)
        identity = backup.digest(os.path.join(path, backup.MANIFEST))
        todo = [part for part in (kind(module, path, manifest, identity) for kind in kinds) if not is_done(part)]
        refused = [sentence for sentence in map(refusal, todo) if sentence]
        if refused:
            raise ValueError(refused[0])
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    begun = [part.name for part in todo if part.begun()]
    if todo and not module.check_mode and not module.params["only_check"]:
        try:
            for part in todo:
                part.restore_noted()
        except (OSError, ValueError, safe_directory.UnsafeLink) as error:
            module.fail_json(msg=f"The backup was not restored completely, run again when this is repaired: {error}.")
    changed = bool(todo) and not module.params["only_check"]
    module.exit_json(changed=changed, restored=[part.name for part in todo], begun=begun, manifest=manifest)


if __name__ == "__main__":
    main()
