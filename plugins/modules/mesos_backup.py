#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Back up ZooKeeper's data, or the state that Marathon wrote, of a Mesos cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_backup
version_added: 0.1.0
short_description: Back up ZooKeeper's data or Marathon's state of a Mesos cluster
author: deephdc.accelerators contributors (@deephdc)
description:
  - Copies what this host has of a cluster into a new directory that only root can read. Daemons and tasks go on.
  - For ZooKeeper, these are the newest complete snapshot and the logs that belong to it. For Marathon, it is the archive that Marathon
    wrote when M(deephdc.accelerators.mesos_marathon_state) asked for it.
  - The directory gets its final name when everything in it was verified, so an incomplete backup is never mistaken for a complete one.
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
    description: Name of the new backup, which is its time. If there is a backup of that name, nothing is done.
    type: str
    required: true
  cluster:
    description: The cluster's name. A restore compares it.
    type: str
    required: true
  zookeeper:
    description: ZooKeeper's data directory, if this host's data are to be backed up.
    type: path
  zookeeper_user:
    description: The account of ZooKeeper. Its data are read as this account, so no link of it leads root elsewhere.
    type: str
    default: zookeeper
  marathon:
    description: Archive that Marathon wrote, if this host has it. It is moved into the backup.
    type: path
  marathon_user:
    description: The account of Marathon. The archive is read and removed as this account, so no link of it leads root elsewhere.
    type: str
    default: marathon
  keep:
    description: How many backups are kept, the newest; V(0) for all.
    type: int
    default: 0
seealso:
  - module: deephdc.accelerators.mesos_restore
"""

EXAMPLES = r"""
- name: Back up ZooKeeper's data
  deephdc.accelerators.mesos_backup:
    directory: /var/backups/mesos
    name: 20261121T150000Z
    cluster: physics
    zookeeper: /var/lib/zookeeper/deephdc
    keep: 7
"""

RETURN = r"""
path:
  description: The backup's directory.
  type: str
  returned: always
  sample: /var/backups/mesos/20261121T150000Z
files:
  description: Names of its files, the manifest last.
  type: list
  elements: str
  returned: always
removed:
  description: Names of older backups that were removed.
  type: list
  elements: str
  returned: always
"""

import json
import os
import pwd
import shutil
import socket
import tarfile
import tempfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory, service_file
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import backup

# ZooKeeper may remove an old file meanwhile.
TRIES = 5


def add_zookeeper(source: str, tar: tarfile.TarFile, owner: str, room: str) -> None:
    """Add ZooKeeper's files to an archive.

    :param room: the directory of that archive.
    """
    folder = os.path.join(source, backup.VERSION)
    with as_user(owner):
        names = [entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    whole = []
    for name in names:
        if name.startswith("snapshot."):
            with service_file.opened(os.path.join(folder, name), owner) as file:
                whole += [name] if backup.is_whole(file) else []
    files = backup.chosen(names, whole)
    if not files:
        raise ValueError(f"{folder} has no snapshot that was written to its end, so this host has no data of ZooKeeper")
    for name in [*(name for name in backup.EPOCHS if name in names), *files]:
        path = os.path.join(folder, name)
        with service_file.opened(path, owner) as file:
            service_file.check_room(path, file, room)
            tar.addfile(tar.gettarinfo(arcname=f"{backup.VERSION}/{name}", fileobj=file), file)


def copy_zookeeper(source: str, target: str, owner: str) -> None:
    """Write the archive of ZooKeeper's files."""
    for attempt in range(TRIES):
        try:
            with open(target, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
                add_zookeeper(source, tar, owner, os.path.dirname(target))
            return
        except FileNotFoundError as error:
            if attempt == TRIES - 1:
                raise ValueError(f"{error.filename} is not there: name a host that has ZooKeeper's data") from error
            time.sleep(0.2)


def make(module: AnsibleModule, partial: str) -> list[str]:
    """Write all files of the backup; their names, the manifest last."""
    given = module.params
    for part in ("zookeeper", "marathon"):
        if given[part]:
            pwd.getpwnam(given[f"{part}_user"])  # who is not there can't read it
    if given["zookeeper"]:
        copy_zookeeper(given["zookeeper"], os.path.join(partial, backup.ZOOKEEPER), given["zookeeper_user"])
        backup.tar_members(os.path.join(partial, backup.ZOOKEEPER), compressed=True)
    if given["marathon"]:
        target = os.path.join(partial, backup.MARATHON)
        service_file.copy(given["marathon"], target, given["marathon_user"])
        if not backup.tar_members(target):
            raise ValueError(f"{given['marathon']} is empty, so Marathon has no state")
    manifest: dict[str, Any] = {
        "format": 1,
        "host": socket.gethostname(),
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cluster": module.params["cluster"],
        "files": {name: backup.digest(os.path.join(partial, name)) for name in sorted(os.listdir(partial))},
    }
    with open(os.path.join(partial, backup.MANIFEST), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)
    for name in os.listdir(partial):
        path = os.path.join(partial, name)
        os.chmod(path, 0o600)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    backup.read_manifest(partial)
    return [*manifest["files"], backup.MANIFEST]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "zookeeper": {"type": "path"},
            "zookeeper_user": {"type": "str", "default": "zookeeper"},
            "marathon": {"type": "path"},
            "marathon_user": {"type": "str", "default": "marathon"},
            "keep": {"type": "int", "default": 0},
        },
        required_one_of=[("zookeeper", "marathon")],
        supports_check_mode=True,
    )
    directory, name = module.params["directory"], module.params["name"]
    path = os.path.join(directory, name)
    if not backup.NAME.match(name):
        module.fail_json(msg=f"{name!r} is no name of a backup: it begins with its time, such as 20261121T150000Z.")
    if module.check_mode or os.path.exists(path):
        module.exit_json(changed=not os.path.exists(path), path=path, files=[], removed=[])
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o700)
    for entry in os.scandir(directory):  # what killed runs left
        if entry.name.startswith(".partial."):
            shutil.rmtree(entry.path)
    partial = tempfile.mkdtemp(prefix=".partial.", dir=directory)
    try:
        files = make(module, partial)
        os.rename(partial, path)
    except (OSError, LookupError, ValueError, safe_directory.UnsafeLink) as error:
        shutil.rmtree(partial, ignore_errors=True)
        module.fail_json(msg=f"No backup was made: {error}.")
    if module.params["marathon"]:
        try:
            with as_user(module.params["marathon_user"]):
                os.unlink(module.params["marathon"])
        except OSError as error:
            module.warn(f"The backup is complete, but Marathon's archive stays on this host: {error}.")
    complete = [entry.name for entry in os.scandir(directory) if os.path.exists(os.path.join(entry.path, backup.MANIFEST))]
    removed = backup.superfluous(complete, module.params["keep"])
    for old in removed:
        shutil.rmtree(os.path.join(directory, old))
    module.exit_json(changed=True, path=path, files=files, removed=removed)


if __name__ == "__main__":
    main()
