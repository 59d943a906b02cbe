#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring a Mesos cluster back from a backup."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mesos_restore
version_added: 0.1.0
short_description: Restore ZooKeeper's data or Marathon's archive of a Mesos cluster from a backup
author: deephdc.accelerators contributors (@deephdc)
description:
  - Checks a backup that M(deephdc.accelerators.mesos_backup) made, stops ZooKeeper on this host and restores its data.
  - All servers of ZooKeeper need the same backup, and none of them may run before all have it.
  - Refuses a backup that is damaged or of another cluster. Does not replace existing data without O(overwrite). Former data are kept
    beside the new ones.
  - With O(marathon), only writes Marathon's archive of the backup where Marathon can read it.
    M(deephdc.accelerators.mesos_marathon_state) has Marathon read it.
  - What it writes, it writes as O(owner), so no link of that account leads root elsewhere.
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
  marathon:
    description: The file that Marathon reads its archive from. It is replaced, and nothing else is done.
    type: path
  owner:
    description: The account of ZooKeeper or Marathon.
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

import contextlib
import os
import pwd
import shutil
import tarfile
import tempfile
import time
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._host import safe_directory, service_file
from ansible_collections.deephdc.accelerators.plugins.module_utils._host.as_user import as_user
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import backup

UNIT = "zookeeper.service"
NOTE_LENGTH = 200  # bytes; a digest and a word
# In the directory of data: which backup is being restored, or was restored last.
NOTE = "deephdc-restored"


def noted(path: str, digest: str) -> str:
    """How far an earlier call came with this backup: replacing, restored, or nothing."""
    try:
        with service_file.opened(path) as file:
            found, _space, stage = file.read(NOTE_LENGTH).decode("utf-8", "replace").strip().partition(" ")
    except FileNotFoundError:
        return ""
    return stage if found == digest else ""


def is_there(path: str) -> bool:
    """Return whether a path exists.

    :raises OSError: it can't be looked at, so data may be there.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def is_unused(path: str, there: list[str]) -> bool:
    """Return whether the files are those of the backup alone.

    A server that ran has begun another log.
    """
    with tarfile.open(os.path.join(path, backup.ZOOKEEPER)) as tar:
        return sorted(os.path.basename(name) for name in tar.getnames()) == sorted(there)


def write(path: str, text: str) -> None:
    """Replace a note at once."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.new")  # of a killed call
    with open(f"{path}.new", "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def extract(archive: IO[bytes], target: str) -> None:
    """Unpack ZooKeeper's files into an empty directory.

    Nothing else that an archive may have is unpacked.
    """
    os.chmod(target, 0o750)
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in tar:
            folder, _slash, name = member.name.partition("/")
            if folder != backup.VERSION or not member.isfile() or not (name in backup.EPOCHS or backup.FILE.match(name)):
                raise ValueError(f"{backup.ZOOKEEPER} has {member.name}, which is no file of ZooKeeper's data")
            source: Any = tar.extractfile(member)
            with open(os.path.join(target, name), "xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())


def make_directory(path: str, owner: str) -> None:
    """Make the directory of data for its service, whoever the one above it belongs to."""
    entry = pwd.getpwnam(owner)
    safe_directory.give(path, entry.pw_uid, entry.pw_gid, 0o750, make=True)


def restore(module: AnsibleModule, manifest_digest: str) -> str:
    """Put the backup in its place.

    Return where the former data are, empty if there were none.
    """
    data, owner = module.params["zookeeper"], module.params["owner"]
    place, note = os.path.join(data, backup.VERSION), os.path.join(data, NOTE)
    # Before the server stops.
    number = pwd.getpwnam(owner).pw_uid
    if is_there(data) and os.stat(data).st_uid != number:
        raise ValueError(f"{data} belongs to another user than {owner}, who could not write there: give it to {owner}")
    if module.run_command(["systemctl", "cat", UNIT])[0] == 0:
        code, out, err = module.run_command(["systemctl", "stop", UNIT])
        if code != 0:
            raise ValueError(f"{UNIT} can't be stopped: {' '.join((err or out).split())}")
    if not is_there(data):
        make_directory(data, owner)
    kept = ""
    # The directory is the service's own: a link that it has put there must not lead root elsewhere.
    with open(os.path.join(module.params["path"], backup.ZOOKEEPER), "rb") as archive, as_user(owner):
        for name in os.listdir(data):
            if name.startswith(f"{backup.VERSION}.restoring"):  # of a killed call
                shutil.rmtree(os.path.join(data, name), ignore_errors=True)
        # A name of its own: what a killed call of an earlier release left is root's.
        new = tempfile.mkdtemp(prefix=f"{backup.VERSION}.restoring.", dir=data)
        extract(archive, new)
        # What a killed call had put there is no former data.
        if is_there(place) and noted(note, manifest_digest) != "replacing":
            kept = f"{place}.before-restore-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
            os.rename(place, kept)
        write(note, f"{manifest_digest} replacing\n")
        shutil.rmtree(place, ignore_errors=True)
        os.rename(new, place)
        write(note, f"{manifest_digest} restored\n")
    return kept


def is_same(archive: IO[bytes], target: str) -> bool:
    """Whether a file has the content of another one; what is no file has not."""
    try:
        with service_file.opened(target) as there:
            if os.fstat(there.fileno()).st_size != os.fstat(archive.fileno()).st_size:
                return False
            return all(archive.read(1 << 20) == part for part in iter(lambda: there.read(1 << 20), b""))
    except (FileNotFoundError, ValueError, safe_directory.UnsafeLink):
        return False


def bring_marathon(module: AnsibleModule) -> bool:
    """Write Marathon's archive where Marathon can read it.

    Return whether another one, or none, was there.
    """
    source, target, owner = (os.path.join(module.params["path"], backup.MARATHON), module.params["marathon"], module.params["owner"])
    pwd.getpwnam(owner)
    with open(source, "rb") as archive, as_user(owner):
        if is_same(archive, target):
            return False
        archive.seek(0)
        if module.check_mode:
            return True
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
            shutil.copyfileobj(archive, file)
            file.flush()
            os.fsync(file.fileno())
    return True


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "cluster": {"type": "str", "required": True},
            "zookeeper": {"type": "path", "default": "/var/lib/zookeeper/deephdc"},
            "marathon": {"type": "path"},
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
        if module.params["marathon"]:
            if backup.MARATHON not in manifest["files"]:
                raise ValueError(f"{path} has no {backup.MARATHON}: name the part of the host that backed Marathon up")
            module.exit_json(changed=bring_marathon(module), kept="", manifest=manifest)
        if backup.ZOOKEEPER not in manifest["files"]:
            raise ValueError(f"{path} has no {backup.ZOOKEEPER}: name the part of the host that backed ZooKeeper up")
        digest = backup.digest(os.path.join(path, backup.MANIFEST))
        place = os.path.join(data, backup.VERSION)
        with as_user(module.params["owner"]):
            there = os.listdir(place) if is_there(place) else []
            stage = noted(os.path.join(data, NOTE), digest)
        is_done = stage == "restored" and is_unused(path, there)
        refused = backup.refusal(there, is_done or stage == "replacing", module.params["overwrite"])
        if refused:
            module.fail_json(msg=refused)
        if not (is_done or module.params["only_check"] or module.check_mode):
            kept = restore(module, digest)
    except (OSError, LookupError, ValueError, safe_directory.UnsafeLink) as error:
        module.fail_json(msg=f"Nothing was restored: {error}.")
    module.exit_json(changed=not (is_done or module.params["only_check"]), kept=kept, manifest=manifest)


if __name__ == "__main__":
    main()
