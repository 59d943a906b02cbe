# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a Kubernetes control plane's backup has, and how it is found to be whole.

A backup is a directory with a manifest (names, SHA-256, cluster, version, member of etcd), which is written last.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Dict, Iterable, List

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
MANIFEST = "manifest.json"
SNAPSHOT = "etcd.db"
CONFIGURATION = "configuration.tar.gz"
KUBEADM = "kubeadm.yaml"
# In the order in which a run needs them; each is a text in the manifest.
KEYS = ("cluster", "version", "node", "address", "member", "peer", "image")

ROOT = "/etc/kubernetes"
MANIFESTS = f"{ROOT}/manifests"
ETCD_MANIFEST = f"{MANIFESTS}/etcd.yaml"
ETCD = "/var/lib/etcd"
KUBELET = "/var/lib/kubelet"
RECORDS = "/var/lib/deephdc"
# What kubelet has beside /etc/kubernetes; pods' own directories are no part of a backup.
KUBELET_FILES = ("config.yaml", "instance-config.yaml", "kubeadm-flags.env", "pki")
# Below /etc/kubernetes: what kubeadm keeps of upgrades, and a file with a token.
LEFT_OUT = ("tmp", "deephdc-join.yaml")
# Notes of runs that are under way; they are true of one moment on one host.
NOTES = ("kubernetes_beginning", "kubernetes_joining", "kubernetes_restoring", "kubernetes_upgrading")

_IMAGE = re.compile(r"^\s*image:\s*[\"']?([^\s\"']+)", re.MULTILINE)
_VERSION = re.compile(r":v([0-9]+\.[0-9]+\.[0-9]+)\s*$")


def image_of(manifest: str) -> str:
    """The image of a static pod's manifest; empty where it names no image."""
    found = _IMAGE.search(manifest)
    return found.group(1) if found else ""


def version_of(manifest: str) -> str:
    """The version of Kubernetes by the image of one of its static pods.

    Empty where the image's tag is no version.
    """
    found = _VERSION.search(image_of(manifest))
    return found.group(1) if found else ""


def flag_of(manifest: str, name: str) -> str:
    """The value of a flag in a static pod's manifest; empty where it is not there."""
    found = re.search(rf"--{re.escape(name)}=([^\s\"']+)", manifest)
    return found.group(1) if found else ""


def is_saved(path: str) -> bool:
    """Whether a file or directory of the host is a part of a backup."""
    for root, names in ((ROOT, LEFT_OUT), (RECORDS, NOTES)):
        if path.startswith(f"{root}/") and path[len(root) + 1 :].split("/", 1)[0] in names:
            return False
    return not path.startswith(f"{RECORDS}/") or path.startswith(f"{RECORDS}/kubernetes_")


def digest(path: str) -> str:
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            sha.update(block)
    return sha.hexdigest()


def read_manifest(directory: str) -> Dict[str, Any]:
    """The manifest of a whole backup.

    :raises ValueError: it is damaged or was never completed; one sentence.
    """
    try:
        with open(os.path.join(directory, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        files = dict(manifest["files"])
        if not {SNAPSHOT, CONFIGURATION} <= set(files) or not all(isinstance(manifest[key], str) for key in KEYS):
            raise ValueError
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


def mismatch(manifest: Dict[str, Any], path: str, wanted: Dict[str, str]) -> str:
    """Why a backup does not fit this host, one sentence; empty where it does.

    :param wanted: cluster, version, node and address of the inventory.
    """
    if manifest["cluster"] != wanted["cluster"]:
        return (
            f"{path} is a backup of the cluster {manifest['cluster']}, and kubernetes_cluster_name is {wanted['cluster']}: "
            "name a backup of this cluster."
        )
    if manifest["version"] != wanted["version"]:
        return (
            f"{path} is of Kubernetes {manifest['version']}, and kubernetes_cluster_version is {wanted['version']}: set it to "
            f"{manifest['version']} for the restore, and run kubernetes_upgrade afterwards."
        )
    if manifest["node"] != wanted["node"]:
        return (
            f"{path} is of the host {manifest['node']}, and this one is {wanted['node']}: give the new host the former one's name, or name "
            f"the host {manifest['node']} first in kubernetes_control_plane where it is in there."
        )
    if manifest["address"] != wanted["address"]:
        return (
            f"{path} is of a host with the address {manifest['address']}, and this one has {wanted['address']}: give it the former "
            "address, which the certificates and all nodes have."
        )
    return ""


def superfluous(names: Iterable[str], keep: int) -> List[str]:
    """Return the backups to remove, the oldest ones.

    Names begin with their time, so they sort by age.
    """
    return sorted(names)[:-keep] if keep > 0 else []
