#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring ZooKeeper's data of a Mesos cluster back from a backup."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_restore
version_added: 0.1.0
short_description: Restore ZooKeeper's data of a Mesos cluster from a backup
author: deephdc.accelerators contributors (@deephdc)
description:
  - Checks a backup that M(deephdc.accelerators.mesos_backup) made, stops ZooKeeper on this host and restores its data.
  - All servers of ZooKeeper need the same backup, and none of them may run before all have it.
  - Refuses a backup that is damaged or of another cluster. Does not replace existing data without O(overwrite). Former data are kept
    beside the new ones.
  - The same call completes one that was killed. If the backup is in its place and ZooKeeper did not run since, nothing is done.
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
  cluster:
    description: The cluster's name.
    type: str
    required: true
  zookeeper:
    description: ZooKeeper's directory of data.
    type: path
    default: /var/lib/zookeeper/deephdc
  owner:
    description: The account and group of ZooKeeper.
    type: str
    default: zookeeper
  overwrite:
    description: Replace existing data.
    type: bool
    default: false
  only_check:
    description: Check the backup and the host, restore nothing.
    type: bool
    default: false
seealso:
  - module: deephdc.accelerators.mesos_backup
"""

EXAMPLES = r"""
- name: Restore ZooKeeper's data on an empty host
  deephdc.accelerators.mesos_restore:
    path: /var/backups/mesos/20261121T150000Z
    cluster: physics
"""

RETURN = r"""
kept:
  description: Directory with the former data, empty if there were none.
  type: str
  returned: success
  sample: /var/lib/zookeeper/deephdc/version-2.before-restore-20261121T160000Z
manifest:
  description: The backup's manifest.
  type: dict
  returned: success
"""

import os
import shutil
import tarfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import backup

UNIT = "zookeeper.service"
# In the directory of data: which backup is being restored, or was restored last.
NOTE = "deephdc-restored"


def noted(path: str, digest: str) -> str:
    """How far an earlier call came with this backup: replacing, restored, or nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            found, _space, stage = file.read().strip().partition(" ")
    except OSError:
        return ""
    return stage if found == digest else ""


def is_unused(path: str, there: list[str]) -> bool:
    """Return whether the files are those of the backup alone.

    A server that ran has begun another log.
    """
    with tarfile.open(os.path.join(path, backup.ZOOKEEPER)) as tar:
        return sorted(os.path.basename(name) for name in tar.getnames()) == sorted(there)


def write(path: str, text: str) -> None:
    """Replace a note at once."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def extract(archive: str, target: str, owner: str) -> None:
    """Unpack ZooKeeper's files into a new directory.

    Nothing else that an archive may have is unpacked.
    """
    shutil.rmtree(target, ignore_errors=True)
    os.mkdir(target, 0o750)
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            folder, _slash, name = member.name.partition("/")
            if folder != backup.VERSION or not member.isfile() or not (name in backup.EPOCHS or backup.FILE.match(name)):
                raise ValueError(f"{backup.ZOOKEEPER} has {member.name}, which is no file of ZooKeeper's data")
            source: Any = tar.extractfile(member)
            with open(os.path.join(target, name), "xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())
            shutil.chown(os.path.join(target, name), owner, owner)
    shutil.chown(target, owner, owner)


def restore(module: AnsibleModule, manifest_digest: str) -> str:
    """Put the backup in its place.

    Return where the former data are, empty if there were none.
    """
    data, owner = module.params["zookeeper"], module.params["owner"]
    place, new, note = os.path.join(data, backup.VERSION), os.path.join(data, f"{backup.VERSION}.restoring"), os.path.join(data, NOTE)
    if module.run_command(["systemctl", "cat", UNIT])[0] == 0:
        code, out, err = module.run_command(["systemctl", "stop", UNIT])
        if code != 0:
            raise ValueError(f"{UNIT} can't be stopped: {' '.join((err or out).split())}")
    if not os.path.isdir(data):
        os.makedirs(data, 0o750)
        shutil.chown(data, owner, owner)
    extract(os.path.join(module.params["path"], backup.ZOOKEEPER), new, owner)
    kept = ""
    # What a killed call had put there is no former data.
    if os.path.isdir(place) and noted(note, manifest_digest) != "replacing":
        kept = f"{place}.before-restore-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        os.rename(place, kept)
    write(note, f"{manifest_digest} replacing\n")
    shutil.rmtree(place, ignore_errors=True)
    os.rename(new, place)
    write(note, f"{manifest_digest} restored\n")
    return kept


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "cluster": {"type": "str", "required": True},
            "zookeeper": {"type": "path", "default": "/var/lib/zookeeper/deephdc"},
            "owner": {"type": "str", "default": "zookeeper"},
            "overwrite": {"type": "bool", "default": False},
            "only_check": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    path, data = module.params["path"], module.params["zookeeper"]
    manifest: dict[str, Any] = {}
    kept = ""
    try:
        manifest = backup.read_manifest(path)
        if manifest.get("cluster") != module.params["cluster"]:
            raise ValueError(f"{path} is a backup of the cluster {manifest.get('cluster')}, and this one is {module.params['cluster']}")
        if backup.ZOOKEEPER not in manifest["files"]:
            raise ValueError(f"{path} has no {backup.ZOOKEEPER}: name the part of the host that backed ZooKeeper up")
        digest = backup.digest(os.path.join(path, backup.MANIFEST))
        place = os.path.join(data, backup.VERSION)
        there = os.listdir(place) if os.path.isdir(place) else []
        stage = noted(os.path.join(data, NOTE), digest)
        is_done = stage == "restored" and is_unused(path, there)
        refused = backup.refusal(there, is_done or stage == "replacing", module.params["overwrite"])
        if refused:
            module.fail_json(msg=refused)
        if not (is_done or module.params["only_check"] or module.check_mode):
            kept = restore(module, digest)
    except (OSError, LookupError, ValueError) as error:
        module.fail_json(msg=f"Nothing was restored: {error}.")
    module.exit_json(changed=not (is_done or module.params["only_check"]), kept=kept, manifest=manifest)


if __name__ == "__main__":
    main()
