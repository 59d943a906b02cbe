#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Back up the control plane of a Kubernetes cluster while pods run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_backup
version_added: 0.1.0
short_description: Back up etcd and the configuration of a Kubernetes control plane
author: deephdc.accelerators contributors (@deephdc)
description:
  - Writes a verified snapshot of etcd, and a copy of C(/etc/kubernetes), of kubelet's configuration and of this collection's records.
    The backup is a new directory that only root can read. The cluster goes on.
  - The directory gets its final name when everything in it was verified, so an incomplete backup is never mistaken for a complete one.
requirements:
  - ctr
notes:
  - Runs on a host of the control plane with etcd. etcd's programs are run from the image that its static pod has.
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
  cluster:
    description: The cluster's name. A restore compares it.
    type: str
    required: true
  address:
    description: The address of this host in the cluster. A restore compares it.
    type: str
    required: true
  keep:
    description: How many backups are kept, the newest; V(0) for all.
    type: int
    default: 0
seealso:
  - module: deephdc.accelerators.kubernetes_restore
"""

EXAMPLES = r"""
- name: Back up the control plane
  deephdc.accelerators.kubernetes_backup:
    directory: /var/backups/kubernetes
    name: 20261121T150000Z
    cluster: physics
    address: 192.0.2.10
    keep: 7
"""

RETURN = r"""
path:
  description: The backup's directory.
  type: str
  returned: always
  sample: /var/backups/kubernetes/20261121T150000Z
files:
  description: Names of its files, the manifest last.
  type: list
  elements: str
  returned: always
key_count:
  description: How many keys etcd's snapshot has; 0 where no backup was made.
  type: int
  returned: always
removed:
  description: Names of older backups that were removed.
  type: list
  elements: str
  returned: always
"""

import json
import os
import shutil
import tarfile
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import backup, etcd
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import Kubectl, Refused

ADMIN = "/etc/kubernetes/admin.conf"


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def snapshot(programs: etcd.Etcd, partial: str) -> dict[str, t.Any]:
    """Write etcd's snapshot and return what etcd's own check reads in it."""
    place = {partial: "/backup"}
    programs([*etcd.CLIENT, "snapshot", "save", f"/backup/{backup.SNAPSHOT}"], {**place, etcd.PKI: f"{etcd.PKI}:ro"})
    status = json.loads(programs(["etcdutl", "snapshot", "status", f"/backup/{backup.SNAPSHOT}", "--write-out=json"], place))
    if not int(status.get("totalKey") or 0) or not int(status.get("revision") or 0):
        raise ValueError("the snapshot of etcd has no keys")
    return dict(status)


def archive(path: str) -> None:
    """A compressed archive of what is configured on this host."""
    sources = [backup.ROOT, *(f"{backup.KUBELET}/{name}" for name in backup.KUBELET_FILES), backup.RECORDS]

    def saved(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = f"/{entry.name}"
        if not (entry.isfile() or entry.isdir() or entry.issym()):
            return None
        return entry if name in sources or backup.is_saved(name) else None

    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for source in sources:
            if os.path.exists(source):
                tar.add(source, arcname=source.lstrip("/"), filter=saved)


def make(module: AnsibleModule, partial: str) -> dict[str, t.Any]:
    member = read(backup.ETCD_MANIFEST)
    version = backup.version_of(read(f"{backup.MANIFESTS}/kube-apiserver.yaml"))
    if not version:
        raise ValueError(f"the image in {backup.MANIFESTS}/kube-apiserver.yaml has no version as its tag")
    programs = etcd.Etcd(module, backup.image_of(member))
    programs.clean()
    manifest = {
        "format": 1,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cluster": module.params["cluster"],
        "version": version,
        "node": os.uname().nodename.split(".")[0].lower(),
        "address": module.params["address"],
        "member": backup.flag_of(member, "name"),
        "peer": backup.flag_of(member, "initial-advertise-peer-urls"),
        "image": backup.image_of(member),
        "etcd": snapshot(programs, partial),
    }
    archive(os.path.join(partial, backup.CONFIGURATION))
    try:
        # For a person who reads it: etcd has it as well.
        words = ("--namespace=kube-system", "get", "configmap", "kubeadm-config", "--output=jsonpath={.data.ClusterConfiguration}")
        text = Kubectl(module)(*words)
    except Refused:
        text = ""  # no API server answers, and etcd's snapshot is all the more needed
    if text:
        with open(os.path.join(partial, backup.KUBEADM), "w", encoding="utf-8") as file:
            file.write(text)
    manifest["files"] = {name: backup.digest(os.path.join(partial, name)) for name in sorted(os.listdir(partial))}
    with open(os.path.join(partial, backup.MANIFEST), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)
    for name in os.listdir(partial):
        path = os.path.join(partial, name)
        os.chmod(path, 0o600)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    # What a restore asks for is asked here first.
    return backup.read_manifest(partial)


def complete(directory: str) -> list[str]:
    return [entry.name for entry in os.scandir(directory) if os.path.exists(os.path.join(entry.path, backup.MANIFEST))]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "keep": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    module.params["kubeconfig"] = ADMIN
    directory, name = module.params["directory"], module.params["name"]
    path = os.path.join(directory, name)
    if not backup.NAME.fullmatch(name):
        module.fail_json(msg=f"{name!r} is no name of a backup")
    if not os.path.exists(backup.ETCD_MANIFEST):
        module.fail_json(msg=f"No backup was made: this host has no {backup.ETCD_MANIFEST}, so it has no etcd of a control plane.")
    if module.check_mode or os.path.exists(path):
        module.exit_json(changed=not os.path.exists(path), path=path, files=[], key_count=0, removed=[])
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o700)
    for entry in os.scandir(directory):  # what killed runs left
        if entry.name.startswith(".partial."):
            shutil.rmtree(entry.path)
    partial = tempfile.mkdtemp(prefix=".partial.", dir=directory)
    try:
        manifest = make(module, partial)
        os.rename(partial, path)
    except (OSError, ValueError, etcd.Refused) as error:
        shutil.rmtree(partial, ignore_errors=True)
        module.fail_json(msg=f"No backup was made: {error}.")
    removed = backup.superfluous(complete(directory), module.params["keep"])
    for old in removed:
        shutil.rmtree(os.path.join(directory, old))
    files = [*manifest["files"], backup.MANIFEST]
    module.exit_json(changed=True, path=path, files=files, key_count=int(manifest["etcd"]["totalKey"]), removed=removed)


if __name__ == "__main__":
    main()
