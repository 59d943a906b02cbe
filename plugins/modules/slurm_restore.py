#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring a SLURM cluster's accounting database or state back from a backup."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore
version_added: 0.1.0
short_description: Bring SLURM's accounting database, state and configuration back from a backup
author: deephdc.accelerators contributors (@deephdc)
description:
  - Checks a backup that M(deephdc.accelerators.slurm_backup) made and brings it back on a host whose SLURM is installed and does not
    run; units that run are stopped first.
  - Refuses a backup that is damaged or that the installed SLURM can't take over, and refuses to replace a database that has jobs or
    a state that is there. What was restored is remembered in C(/var/lib/deephdc/slurm_restored), so that a run that was killed goes on
    and one that was completed is not repeated.
attributes:
  check_mode:
    description: Checks the backup and predicts whether it would be restored.
    support: full
  diff_mode:
    description: Not needed.
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
    description: Whether to restore slurmctld's state, and the files in C(/etc/slurm) that are not there.
    type: bool
    default: false
  state_directory:
    description: C(StateSaveLocation) of C(slurm.conf).
    type: path
    default: /var/lib/slurm/slurmctld
  version:
    description: The SLURM that shall go on with it, a version or a major release.
    type: str
    required: true
  overwrite:
    description:
      - Replace a database that has jobs, or a state that is there. The former state is kept in the directory C(before-restore) below it;
        the former database is lost.
    type: bool
    default: false
  only_check:
    description: Check the backup and what is there, restore nothing.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.slurm_backup
"""

EXAMPLES = r"""
- name: Bring a cluster back on an empty host
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
manifest:
  description: The backup's manifest.
  type: dict
  returned: always
"""

import json
import os
import pwd
import shlex
import shutil
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils import _slurm_backup as backup
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm_database import CONFIGURATION, Database
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm_releases import release_of, step_error

REMEMBERED = "/var/lib/deephdc/slurm_restored"
OVERWRITE = "slurm_restore_overwrite=true replaces it"


def remembered() -> dict[str, str]:
    """What earlier runs did: part to the backup's identity, with a '?' while it was under way."""
    try:
        with open(REMEMBERED, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


def remember(part: str, identity: str) -> None:
    os.makedirs(os.path.dirname(REMEMBERED), exist_ok=True)
    with open(f"{REMEMBERED}.new", "w", encoding="utf-8") as file:
        json.dump({**remembered(), part: identity}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{REMEMBERED}.new", REMEMBERED)


def stop(module: AnsibleModule, unit: str) -> None:
    if module.run_command(["systemctl", "cat", unit])[0] == 0:
        module.run_command(["systemctl", "stop", unit], check_rc=True)


def jobs_there(module: AnsibleModule) -> int:
    """Jobs in the database that is there; none where none can be yet."""
    try:
        return Database(module).jobs() if os.path.exists(CONFIGURATION) else 0
    except ValueError:
        return 0  # not installed, or not running: it is asked again before it is replaced


def refusals(module: AnsibleModule, part: str) -> list[str]:
    if module.params["overwrite"] or not module.params[part]:
        return []
    if part == "database":
        jobs = jobs_there(module)
        return [f"the accounting database has {jobs} jobs already: {OVERWRITE}, and they are lost"] if jobs else []
    directory = module.params["state_directory"]
    there = os.path.exists(os.path.join(directory, "job_state"))
    return [f"{directory} has a controller's state already: {OVERWRITE}, and keeps it in before-restore"] if there else []


def restore_database(module: AnsibleModule, path: str, rows: dict[str, int]) -> None:
    stop(module, "slurmdbd")
    database = Database(module)
    database.query(f"drop database if exists `{database.name}`; create database `{database.name}`")
    client = " ".join(shlex.quote(word) for word in [*database.client(), database.name])
    command = f"set -o pipefail; gzip -dc {shlex.quote(os.path.join(path, backup.DUMP))} | {client}"
    code, _out, err = module.run_command(["bash", "-c", command])
    if code != 0:
        raise ValueError(f"the database refuses the dump: {' '.join(err.split())}")
    got = database.rows()
    wrong = [f"{table} has {got.get(table, 0)} rows of {number}" for table, number in rows.items() if got.get(table, 0) != number]
    if wrong:
        raise ValueError(f"the database is not what was dumped: {'; '.join(wrong)}")


def members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Plain files and directories whose names stay below the archive's root."""
    inside = [member for member in tar.getmembers() if ".." not in member.name.split("/") and not member.name.startswith("/")]
    return [member for member in inside if member.isfile() or member.isdir()]


def extract(path: str, root: str, owner: str = "") -> None:
    """Write an archive's files that are not there yet, with their modes and owners' names."""
    with tarfile.open(path, "r:gz") as tar:
        for member in members(tar):
            target = os.path.normpath(os.path.join(root, member.name))
            user = pwd.getpwnam(owner or (member.uname if member.uname in ("root", "slurm") else "root"))
            if member.isdir():
                if not os.path.isdir(target):
                    os.makedirs(target, member.mode)
                    os.chown(target, user.pw_uid, user.pw_gid)
                continue
            source = tar.extractfile(member)
            if os.path.lexists(target) or source is None:
                continue
            partial = f"{target}.deephdc-partial"
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                shutil.copyfileobj(source, file)
                os.fchown(file.fileno(), user.pw_uid, user.pw_gid)
                os.fchmod(file.fileno(), member.mode)
                file.flush()
                os.fsync(file.fileno())
            os.utime(partial, (member.mtime, member.mtime))
            os.rename(partial, target)


def put_aside(directory: str) -> None:
    """Keep the former state; slurmctld does not look into directories that it does not know."""
    aside = os.path.join(directory, "before-restore")
    shutil.rmtree(aside, ignore_errors=True)
    former = os.listdir(directory)
    os.mkdir(aside, 0o700)
    for name in former:
        os.rename(os.path.join(directory, name), os.path.join(aside, name))


def restore_state(module: AnsibleModule, path: str, again: bool) -> None:
    stop(module, "slurmctld")
    directory = module.params["state_directory"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    slurm = pwd.getpwnam("slurm")
    os.chown(directory, slurm.pw_uid, slurm.pw_gid)
    # What a killed run began is only completed.
    if not again:
        put_aside(directory)
    extract(os.path.join(path, backup.STATE), directory, "slurm")
    extract(os.path.join(path, backup.CONFIGURATION), "/")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "database": {"type": "bool", "default": False},
            "state": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": "/var/lib/slurm/slurmctld"},
            "version": {"type": "str", "required": True},
            "overwrite": {"type": "bool", "default": False},
            "only_check": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    parts = [part for part in ("database", "state") if module.params[part]]
    try:
        manifest = backup.read_manifest(path)
        absent = [part for part in parts if not manifest[part]]
        if absent:
            raise ValueError(f"{path} has no {absent[0]}: restore a backup that has it.")
        old, new = release_of(manifest["version"]), release_of(f"{module.params['version']}.")
        if not new:
            raise ValueError(f"This host would get no SLURM ({module.params['version'] or 'no package'}): look at slurm_packages_suite.")
        wrong = step_error(old, new, f"The backup {path}")
        if wrong:
            raise ValueError(wrong)
        identity = backup.digest(os.path.join(path, backup.MANIFEST))
        done = remembered()
        todo = [part for part in parts if done.get(part) != identity]
        for part in todo:
            refused = [] if done.get(part) == f"{identity}?" else refusals(module, part)
            if refused:
                raise ValueError(f"Nothing was restored: {refused[0]}.")
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    if todo and not module.check_mode and not module.params["only_check"]:
        try:
            for part in todo:
                remember(part, f"{identity}?")
                if part == "database":
                    restore_database(module, path, manifest["rows"])
                else:
                    restore_state(module, path, done.get(part) == f"{identity}?")
                remember(part, identity)
        except (OSError, ValueError) as error:
            module.fail_json(msg=f"The backup was not restored completely, run again when this is repaired: {error}.")
    changed = bool(todo) and not module.params["only_check"]
    module.exit_json(changed=changed, restored=todo, manifest=manifest)


if __name__ == "__main__":
    main()
