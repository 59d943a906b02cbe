#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring the control plane of a Kubernetes cluster back from a backup."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_restore
version_added: 0.1.0
short_description: Restore a Kubernetes control plane from a backup
author: deephdc.accelerators contributors (@deephdc)
description:
  - Checks a backup that M(deephdc.accelerators.kubernetes_backup) made, and restores it on a host with the same name and address, on
    which containerd and kubelet are installed. Then it starts kubelet and waits until the API answers.
  - Refuses a backup that is damaged or of another cluster, version or host. Does not replace an existing control plane
    without O(overwrite).
  - The former state is kept beside the new one. Each stage is recorded in C(/var/lib/deephdc/kubernetes_restoring), so that the same call
    completes one that was killed. The control plane does not start before all of the backup is in its place.
requirements:
  - ctr
  - kubectl
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
  version:
    description: The version of Kubernetes that will run with the restored state.
    type: str
    required: true
  node:
    description: The name of this host's node.
    type: str
    required: true
  address:
    description: The address of this host in the cluster.
    type: str
    required: true
  overwrite:
    description: Replace an existing control plane. Its state is kept in directories C(before-restore-TIME).
    type: bool
    default: false
  only_check:
    description: Check the backup and the host, restore nothing.
    type: bool
    default: false
  patience:
    description: Seconds that the API server may take to answer.
    type: int
    default: 240
seealso:
  - module: deephdc.accelerators.kubernetes_backup
"""

EXAMPLES = r"""
- name: Restore the control plane on an empty host
  deephdc.accelerators.kubernetes_restore:
    path: /var/backups/kubernetes/20261121T150000Z
    cluster: physics
    version: 1.37.2
    node: cp1
    address: 192.0.2.10
"""

RETURN = r"""
completed:
  description: Whether a killed call was completed, or would be in check mode.
  type: bool
  returned: always
kept:
  description: Directories with the former state.
  type: list
  elements: str
  returned: always
  sample: [/etc/kubernetes.before-restore-20261121T160000Z, /var/lib/etcd/before-restore-20261121T160000Z]
manifest:
  description: The backup's manifest.
  type: dict
  returned: always
"""

import calendar
import contextlib
import fcntl
import json
import os
import shutil
import tarfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import backup, etcd
from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes.kubectl import Kubectl, Refused

ADMIN = "/etc/kubernetes/admin.conf"
NOTE = f"{backup.RECORDS}/kubernetes_restoring"
# The module of a run that was killed may still be at work. Not in /run/lock, where every user may make files.
LOCK = "/run/deephdc-kubernetes-restore"
# In the restored tree: which call put it there.
MARK = f"{backup.ROOT}/deephdc-restored"
NEW_ROOT = f"{backup.ROOT}.deephdc-restore"
NEW_ETCD = f"{backup.ETCD}/deephdc-restore"
STOPPED = f"{backup.ROOT}/manifests.before-restore"
STATIC = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
# Per second since the backup was made: more than etcd ever writes. So whatever a program has seen of the cluster is older than what it
# reads now, also after a second restore of the same backup: one that watches from a later revision would see nothing for minutes.
REVISIONS = 10_000
CLOCKS = 100.0  # seconds that two clocks may differ
RUNNING = ("CREATED", "PAUSED", "RUNNING")
STOP_SECONDS = 60
REMEDY = "to go on with what is there, run the playbook kubernetes; to replace it, set kubernetes_restore_overwrite to the cluster's name"
CURRENT = "kubelet-client-current.pem"


def read_json(path: str) -> dict[str, t.Any]:
    """A note of an earlier call; empty if there is no readable one."""
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, TypeError, ValueError):
        return {}


def write(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file that is whole or not there, also after a power cut."""
    partial = f"{path}.deephdc-partial"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def bump(made: str, now: float) -> int:
    """By how much the revisions of etcd go ahead of those in a backup.

    :param made: when it was made, as YYYY-MM-DDTHH:MM:SSZ.
    """
    try:
        age = now - calendar.timegm(time.strptime(made, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        age = now  # not known, and none is older
    return int(REVISIONS * max(CLOCKS, age))


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class Restore:
    """One backup and this host."""

    def __init__(self, module: AnsibleModule, manifest: dict[str, t.Any]) -> None:
        self.module, self.manifest = module, manifest
        self.path = str(module.params["path"])
        self.identity = backup.digest(os.path.join(self.path, backup.MANIFEST))
        self.noted = read_json(NOTE)
        self.kept: list[str] = []

    # What is there.

    def there(self) -> str:
        """What of a control plane is on the host, for a sentence.

        Empty where nothing is that could be lost.
        """
        for path, what in (
            (f"{backup.ETCD}/member", "etcd's data"),
            (ADMIN, "a control plane"),
            (f"{backup.ROOT}/kubelet.conf", "a node of a cluster"),
        ):
            if os.path.exists(path):
                return f"{path} shows that {what} is there"
        return ""

    def is_activated(self) -> bool:
        """Return whether all of this backup is in its place.

        The call that the note is of put it there. At most its start is left to do.
        """
        mark = read_json(MARK)
        return bool(self.noted) and self.noted.get("backup") == self.identity and mark.get("call") == self.noted.get("call")

    def is_begun(self) -> bool:
        """Return whether a killed call had stopped the former control plane.

        It was a call with the same backup, and nothing started the control plane since.
        """
        return (
            self.noted.get("backup") == self.identity
            and self.noted.get("stage") == "replacing"
            and not os.path.exists(backup.ETCD_MANIFEST)
        )

    def refusal(self) -> str:
        """Why nothing is restored; empty where it may be."""
        if self.module.params["overwrite"] or self.is_activated() or self.is_begun():
            return ""
        there = self.there()
        if not there:
            return ""
        since = ""
        if read_json(MARK).get("backup") == self.identity:
            since = " (restored from this backup and used since)"
        elif self.noted.get("backup") == self.identity:
            since = " (a restore of this backup was not finished)"
        elif self.noted:
            since = f" (a restore of {self.noted.get('path')} was not finished)"
        return f"Nothing was restored: {there}{since}: {REMEDY}."

    # What is done.

    def note(self, stage: str) -> None:
        self.noted = {**self.noted, "stage": stage}
        write(NOTE, json.dumps(self.noted))

    def restore(self) -> None:
        """All stages that are left."""
        if not self.is_activated() or (self.module.params["overwrite"] and self.noted.get("stage") == "serving"):
            if not self.is_begun():
                now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
                self.noted = {"backup": self.identity, "path": self.path, "call": f"{now}-{os.urandom(4).hex()}", "time": now}
                self.note("stopping")
            programs = etcd.Etcd(self.module, self.manifest["image"])
            # Asked before the former control plane is stopped.
            programs.clean()
            programs.have_image()
            self.stop()
            self.note("replacing")
            self.put_etcd(programs)
            self.put_files()
            self.activate()
        self.note("serving")
        self.start()
        remove(NOTE)

    def run(self, *words: str) -> str:
        code, out, err = self.module.run_command(list(words), environ_update={"LC_ALL": "C"})
        if code != 0:
            raise ValueError(f"{' '.join(words[:3])} failed: {' '.join((err or out).split())}")
        return str(out)

    def stop(self) -> None:
        """Stop kubelet, then the control plane. Pods of users and the network go on."""
        if self.module.run_command(["systemctl", "cat", "kubelet"])[0] == 0:
            self.run("systemctl", "stop", "kubelet")
        # Should the host boot now, kubelet starts no part of the former control plane.
        if os.path.exists(backup.MANIFESTS):
            remove(STOPPED)
            os.rename(backup.MANIFESTS, STOPPED)
        filters = [f'labels."io.kubernetes.container.name"=={name}' for name in STATIC]
        containers = set(self.run(*etcd.CTR, "containers", "list", "--quiet", *filters).split())
        until = time.monotonic() + STOP_SECONDS
        while True:
            tasks = [line.split() for line in self.run(*etcd.CTR, "tasks", "list").splitlines()[1:]]
            running = [task[0] for task in tasks if task[0] in containers and task[-1] in RUNNING]
            if not running:
                return
            if time.monotonic() > until:
                raise ValueError(f"containers of the control plane do not end: {', '.join(running)}")
            for name in running:
                # All of it is replaced, so none has to end in good order.
                self.module.run_command([*etcd.CTR, "tasks", "kill", "--signal", "SIGKILL", name])
            time.sleep(0.5)

    def keep(self, path: str, name: str) -> None:
        """Put what was there aside, once for each call."""
        if not os.path.lexists(path):
            return
        if os.path.exists(name):
            remove(path)  # what this call had put there before it was killed
        else:
            os.rename(path, name)
        self.kept.append(name)

    def put_etcd(self, programs: etcd.Etcd) -> None:
        os.makedirs(backup.ETCD, mode=0o700, exist_ok=True)
        os.chmod(backup.ETCD, 0o700)
        remove(NEW_ETCD)
        member, peer = self.manifest["member"], self.manifest["peer"]
        words = ["etcdutl", "snapshot", "restore", f"/backup/{backup.SNAPSHOT}", f"--data-dir={NEW_ETCD}", f"--name={member}"]
        words += [f"--initial-cluster={member}={peer}", f"--initial-advertise-peer-urls={peer}"]
        # Programs that watch have seen later revisions than the backup has: so they read everything again.
        words += [f"--bump-revision={bump(str(self.manifest.get('made')), time.time())}", "--mark-compacted"]
        programs(words, {self.path: "/backup:ro", backup.ETCD: backup.ETCD})
        former = f"{backup.ETCD}/before-restore-{self.noted['time']}"
        self.keep(f"{backup.ETCD}/member", former)
        os.rename(f"{NEW_ETCD}/member", f"{backup.ETCD}/member")
        remove(NEW_ETCD)

    def put_files(self) -> None:
        """Records and kubelet's files in their places.

        The tree of /etc/kubernetes beside the former one.
        """
        remove(NEW_ROOT)
        scratch = f"{NEW_ROOT}.files"
        remove(scratch)
        os.mkdir(scratch, 0o700)
        with tarfile.open(os.path.join(self.path, backup.CONFIGURATION), "r:gz") as tar:
            for member in tar:
                self.extract(tar, member, scratch)
        os.rename(f"{scratch}{backup.ROOT}", NEW_ROOT)
        self.put_kubelet(f"{scratch}{backup.KUBELET}")
        records = f"{scratch}{backup.RECORDS}"
        for name in os.listdir(records) if os.path.isdir(records) else []:
            remove(f"{backup.RECORDS}/{name}")
            shutil.move(f"{records}/{name}", f"{backup.RECORDS}/{name}")
        remove(scratch)
        write(f"{NEW_ROOT}/{os.path.basename(MARK)}", json.dumps({"backup": self.identity, "call": self.noted["call"]}))

    @staticmethod
    def extract(tar: tarfile.TarFile, member: tarfile.TarInfo, scratch: str) -> None:
        """One entry of the archive, below a directory that only root can enter."""
        name = os.path.normpath(f"/{member.name}")
        if ".." in member.name.split("/") or not name.startswith((backup.ROOT, f"{backup.KUBELET}/", backup.RECORDS)):
            raise ValueError(f"{backup.CONFIGURATION} has {member.name}, which is no part of a backup")
        target = f"{scratch}{name}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if member.isdir():
            os.makedirs(target, exist_ok=True)
            os.chmod(target, member.mode & 0o7777)
        elif member.issym():
            os.symlink(member.linkname, target)
        elif member.isfile():
            source = tar.extractfile(member)
            if source is not None:
                descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    shutil.copyfileobj(source, file)
                    os.fchown(file.fileno(), member.uid, member.gid)
                    os.fchmod(file.fileno(), member.mode & 0o7777)
                    file.flush()
                    os.fsync(file.fileno())

    def put_kubelet(self, source: str) -> None:
        """kubelet's settings.

        Its certificate only where the host has none of this cluster, as it may be newer than the backup's.
        """
        os.makedirs(backup.KUBELET, exist_ok=True)
        for name in os.listdir(source):
            if name != "pki":
                shutil.copy2(f"{source}/{name}", f"{backup.KUBELET}/{name}.deephdc-partial")
                os.replace(f"{backup.KUBELET}/{name}.deephdc-partial", f"{backup.KUBELET}/{name}")
        authority, pki = f"{NEW_ROOT}/pki/ca.crt", f"{backup.KUBELET}/pki"
        is_valid = ["openssl", "verify", "-CAfile", authority, f"{pki}/{CURRENT}"]
        if os.path.isdir(f"{source}/pki") and self.module.run_command(is_valid)[0] != 0:
            remove(pki)
            shutil.copytree(f"{source}/pki", pki, symlinks=True)

    def activate(self) -> None:
        """Put the new tree in the place of the former one.

        From here on the backup is what the host has.
        """
        self.keep(backup.ROOT, f"{backup.ROOT}.before-restore-{self.noted['time']}")
        os.rename(NEW_ROOT, backup.ROOT)
        descriptor = os.open(os.path.dirname(backup.ROOT), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def start(self) -> None:
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "enable", "--now", "kubelet")
        kubectl, until = Kubectl(self.module), time.monotonic() + self.module.params["patience"]
        while True:
            try:
                kubectl("get", "--raw", "/readyz")
                return
            except Refused as refused:
                if time.monotonic() > until:
                    raise ValueError(
                        f"the backup is in its place, but the API did not answer in {self.module.params['patience']} s: {refused}"
                    ) from refused
            time.sleep(1)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            **{name: {"type": "str", "required": True} for name in ("cluster", "version", "node", "address")},
            "overwrite": {"type": "bool", "default": False},
            "only_check": {"type": "bool", "default": False},
            "patience": {"type": "int", "default": 240},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}  # what commands print is read here
    module.params["kubeconfig"] = ADMIN
    with open(LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bring_back(module)


def bring_back(module: AnsibleModule) -> None:
    path = module.params["path"]
    try:
        manifest = backup.read_manifest(path)
        wrong = backup.mismatch(manifest, path, module.params)
        if wrong:
            raise ValueError(wrong)
        work = Restore(module, manifest)
        if work.refusal():
            raise ValueError(work.refusal())
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    begun = work.is_activated() or work.is_begun()
    if not module.check_mode and not module.params["only_check"]:
        try:
            work.restore()
        except (OSError, ValueError, tarfile.TarError, etcd.Refused) as error:
            module.fail_json(msg=f"The backup was not restored completely, run again when this is repaired: {error}.")
    module.exit_json(changed=not module.params["only_check"], completed=begun, kept=work.kept, manifest=manifest)


if __name__ == "__main__":
    main()
