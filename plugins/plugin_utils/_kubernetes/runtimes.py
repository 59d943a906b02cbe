# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""Which container runtime and control groups go with which Kubernetes: one table.

Measured: 1.37.2 with containerd 1.6.20, 1.7.24 and 2.1.9. Read: cmd/kubelet/app/server.go of 1.37 counts containerd 1 as
unsupported from 1.38 on; control groups of version 1 leave no earlier than that (KEP-5573). Pure functions.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.finding import Finding
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX, wrong

Release = t.Tuple[int, int]


class Needs(t.NamedTuple):
    """What a release of Kubernetes, and those up to the next entry, need of a host."""

    kubernetes: Release
    containerd: Release
    cgroups: tuple[int, ...]


TABLE = (
    Needs((1, 0), (1, 6), (1, 2)),
    Needs((1, 38), (2, 0), (2,)),
)
# Dynamic resource allocation: resource.k8s.io/v1, and devices by CDI, without which a pod runs, but without its device.
DRA_KUBERNETES: Release = (1, 34)
DRA_CONTAINERD: Release = (1, 7)
# What a host gets that has no containerd yet: the distribution's.
DISTRIBUTION = {("Debian", "12"): "1.6.20", ("Debian", "13"): "1.7.24"}
PACKAGE = "containerd"
PACKAGES = "containerd_package_names"

_RELEASE = re.compile(r"v?([0-9]+)\.([0-9]+)")


def release(text: t.Any) -> Release | None:
    """The first two numbers of a version."""
    found = _RELEASE.match(str(text or ""))
    return (int(found.group(1)), int(found.group(2))) if found else None


def shown(version: Release) -> str:
    return ".".join(map(str, version))


def needs(kubernetes: t.Any) -> Needs:
    """The entry of the table for a version of Kubernetes."""
    wanted = release(kubernetes) or TABLE[0].kubernetes
    return [entry for entry in TABLE if entry.kubernetes <= wanted][-1]


def cluster_errors(cluster: t.Mapping[str, t.Any]) -> list[Finding]:
    """A mode of GPUs that the version does not have."""
    wanted = release(cluster["version"])
    if cluster["gpus"] != "dra" or wanted is None or wanted >= DRA_KUBERNETES:
        return []
    what = f"{PREFIX}gpus is dra, but {PREFIX}version is {cluster['version']} and dra needs {shown(DRA_KUBERNETES)} or newer"
    return [wrong(what, f"choose device_plugin, or a newer {PREFIX}version")]


def coming(platform: tuple[str, str], packages: t.Any) -> str:
    """The version that a host without containerd will get, as far as it is known.

    :param packages: the site's own variable; None where it leaves the role's default.
    """
    return DISTRIBUTION.get(platform, "") if packages is None or (isinstance(packages, (list, tuple)) and PACKAGE in packages) else ""


def host_errors(cluster: t.Mapping[str, t.Any], host: str, containerd: str, cgroup: t.Any, is_worker: bool) -> list[Finding]:
    """What a host's runtime and control groups lack.

    :param containerd: the version that it has or will have; empty where it is not known.
    """
    found, entry = [], needs(cluster["version"])
    has = release(containerd)
    if containerd and (has is None or has < entry.containerd):
        found.append(wrong(f"{host} has containerd {containerd}, but {shown(entry.containerd)} or newer is needed", "upgrade it", host))
    elif containerd and is_worker and cluster["gpus"] == "dra" and has is not None and has < DRA_CONTAINERD:
        what = f"{host} has containerd {containerd}, but {PREFIX}gpus is dra, which needs {shown(DRA_CONTAINERD)} or newer"
        found.append(
            wrong(f"{what} (an older one runs pods without their device)", f"upgrade it, or set {PREFIX}gpus to device_plugin", host)
        )
    if cgroup is not None and int(cgroup) not in entry.cgroups:
        what = f"{host} has control groups of version {cgroup}, but Kubernetes {cluster['version']} needs version {entry.cgroups[-1]}"
        found.append(wrong(what, "boot it with systemd.unified_cgroup_hierarchy=1", host))
    return found
