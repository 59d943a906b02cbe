# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What an upgrade of a Kubernetes cluster has to do and refuses: pure functions.

Order and skew are those of https://kubernetes.io/releases/version-skew-policy/, narrowed to one minor release at a time.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._kubernetes import pods
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.inventory import CONTROL_PLANE, WORKERS
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes.settings import PREFIX

API = "kubeadm.k8s.io/v1beta4"
PACKAGES = ("kubeadm", "kubectl", "kubelet")
# What a cluster has at one version beside its hosts.
CLUSTER = ("kubeadm", "kube_proxy")
# kubeadm's own Job, by which it checks that the cluster runs pods, tolerates this taint alone. The other one comes and goes with a cordon.
TOLERATED = ("node-role.kubernetes.io/control-plane", "node.kubernetes.io/unschedulable")
# Marks of the module kubernetes_node_hold, and how an upgrade that did not end is known in the first one.
HELD, OTHERS = "accelerators.deephdc.org/held", ("accelerators.deephdc.org/drained", "accelerators.deephdc.org/lost")
BY_UPGRADE = "kubernetes_upgrade:"
_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)")

_OF_CLUSTER = re.compile(r"(?:kubernetesVersion:\s*|:)v?([0-9]+\.[0-9]+\.[0-9]+)")

Version = t.Tuple[int, int, int]


def read_host(text: str) -> dict[str, t.Any]:
    """Read what a host has from lines such as "package kubelet 1.37.2-1.1".

    Other lines are "api 1.37.2" and "noted 1.37.3". noted: the version that an upgrade which did not end was for.
    """
    found: dict[str, t.Any] = {"packages": {}, "api": "", "noted": ""}
    for line in str(text).splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "package":
            found["packages"][words[1]] = words[2]
        elif len(words) == 2 and words[0] in ("api", "noted"):
            found[words[0]] = words[1]
    return found


def of_cluster(text: t.Any) -> Version | None:
    """The version in kubeadm's configuration, or in the name of an image."""
    found = _OF_CLUSTER.search(str(text or ""))
    return parsed(found.group(1)) if found else None


def parsed(text: t.Any) -> Version | None:
    """A version as numbers; None where there is none, or another form of one."""
    found = _VERSION.match(str(text or ""))
    return (int(found.group(1)), int(found.group(2)), int(found.group(3))) if found else None


def written(version: Version) -> str:
    return ".".join(map(str, version))


def minor(version: Version) -> str:
    return ".".join(map(str, version[:2]))


def plan(
    read: t.Mapping[str, str],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Mapping[str, str],
    nodes: t.Sequence[t.Mapping[str, t.Any]],
    cluster: t.Mapping[str, str],
    target: str,
) -> dict[str, t.Any]:
    """What must be done, and in which order.

    :param read: lines of the hosts that answered, as read_host takes them, by inventory name.
    :param names: of nodes, by inventory name.
    :param nodes: as the API lists them.
    :param cluster: kubeadm and kube_proxy: texts of the cluster's own objects that have their versions.
    :raises ValueError: one of them is something else.
    """
    wanted = parsed(target)
    if wanted is None or not isinstance(read, t.Mapping) or not set(read) <= set(names) or not isinstance(nodes, (list, tuple)):
        raise ValueError("An upgrade needs the cluster's hosts, a list of nodes, and a version such as 1.37.3.")
    hosts = {host: read_host(text) for host, text in read.items()}
    control = list(groups.get(CONTROL_PLANE) or [""])
    workers = sorted(set(groups.get(WORKERS) or ()) - set(control))
    kubelets = {node["metadata"]["name"]: parsed(node["status"]["nodeInfo"]["kubeletVersion"]) for node in nodes}
    running = {host: kubelets.get(names.get(host, "")) for host in [*control, *workers]}
    versions = {host: parsed(hosts[host].get("api")) for host in control if host in hosts}
    found = [version for version in versions.values() if version]
    errors = [
        f"{host} does not answer: bring it up first, as the hosts of {CONTROL_PLANE} are upgraded together."
        for host in control
        if host not in hosts
    ]
    errors += [
        f"{host} has no API server in /etc/kubernetes/manifests: run the playbook kubernetes before an upgrade."
        for host, version in versions.items()
        if not version
    ]
    if found:
        errors += _step_errors(min(found), max(found), wanted) or _skew_errors(
            {host: version for host, version in running.items() if version}, min(found), wanted
        )
    to_do = [host for host in [*control, *workers] if host in hosts and _is_behind(hosts[host], running[host], host in control, wanted)]
    # kubeadm leaves kube-proxy to the last host of the control plane.
    is_complete = len(found) == len(control) and all(version == wanted for version in found)
    is_applied = versions.get(control[0]) == wanted and all(
        of_cluster(cluster.get(key)) == wanted for key in CLUSTER if key != "kube_proxy" or is_complete
    )
    if found and not is_applied and control[0] not in to_do:
        to_do.insert(0, control[0])
    left = [host for host in workers if host not in hosts and running[host] != wanted]
    is_applying = bool(found) and (not is_applied or bool(hosts[control[0]].get("noted")))
    if is_applying:
        errors += _job_errors(nodes)
    return {
        "errors": errors,
        "from": written(min(found)) if found else "",
        "target": target,
        "apply": is_applying,
        "held": [host for host in to_do if any(_is_held(node) and node["metadata"]["name"] == names.get(host) for node in nodes)],
        "control_plane": [host for host in to_do if host in control],
        "workers": [host for host in to_do if host not in control],
        "left": [f"{host} does not answer and has kubelet {_shown(running[host])}" for host in left],
    }


def _shown(version: Version | None) -> str:
    return written(version) if version else "of an unknown version"


def _is_behind(host: t.Mapping[str, t.Any], kubelet: Version | None, has_api: bool, wanted: Version) -> bool:
    """Return whether something of a host is not of the wanted version.

    A host that has not joined is the playbook kubernetes' work.
    """
    if kubelet is None and not has_api:
        return False
    packages = host.get("packages") or {}
    return (
        bool(host.get("noted"))
        or kubelet != wanted
        or (has_api and parsed(host.get("api")) != wanted)
        or any(parsed(packages.get(name)) != wanted for name in PACKAGES if name in packages)
    )


def _is_held(node: t.Mapping[str, t.Any]) -> bool:
    """Whether an upgrade that did not end keeps pods from a node."""
    return str((node["metadata"].get("annotations") or {}).get(HELD, "")).startswith(BY_UPGRADE)


def _closed(node: t.Mapping[str, t.Any]) -> str:
    """Return why a node that is cordoned takes no pod, in words.

    It is empty for a node that an upgrade cordoned, as the next upgrade opens it again.
    """
    notes = node["metadata"].get("annotations") or {}
    opens = _is_held(node) and not any(mark in notes for mark in OTHERS)
    return f"{node['metadata']['name']} is cordoned" if (node.get("spec") or {}).get("unschedulable") and not opens else ""


def _tainted(node: t.Mapping[str, t.Any]) -> str:
    taints = [
        taint["key"]
        for taint in (node.get("spec") or {}).get("taints") or ()
        if taint["key"] not in TOLERATED and taint.get("effect") != "PreferNoSchedule"
    ]
    return f"{node['metadata']['name']} has the taint {' and '.join(taints)}" if taints else ""


def _job_errors(nodes: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return why no node takes the Job that kubeadm upgrade apply waits for.

    kubeadm leaves that Job out where all nodes are cordoned, not where some have taints.
    """
    closed = [_closed(node) for node in nodes]
    reasons = [why or _tainted(node) for node, why in zip(nodes, closed)]
    if all(closed) or not all(reasons):
        return []
    return [
        f"kubeadm begins an upgrade with a Job of its own, and no node takes it: {'; '.join(reasons)}. Give a host of the control plane "
        "back to pods first, with the playbook kubernetes_resume or 'kubectl uncordon NODE'."
    ]


def _step_errors(oldest: Version, newest: Version, wanted: Version) -> list[str]:
    if wanted < newest:
        return [
            f"The control plane has Kubernetes {written(newest)}, and {PREFIX}version is {written(wanted)}: Kubernetes can't go back. "
            f"Set {PREFIX}version to {written(newest)}, or restore a backup of before with the playbook kubernetes_restore."
        ]
    if wanted[0] != oldest[0] or wanted[1] > oldest[1] + 1:
        return [
            f"The control plane has Kubernetes {written(oldest)}, and {PREFIX}version is {written(wanted)}: an upgrade takes one minor "
            f"release at a time. Go to a version {oldest[0]}.{oldest[1] + 1} first."
        ]
    return []


def _skew_errors(running: t.Mapping[str, Version], oldest: Version, wanted: Version) -> list[str]:
    """Kubelets that an earlier upgrade left, or that are newer than what is wanted."""
    errors = []
    for host, version in running.items():
        if version > wanted:
            errors.append(
                f"{host} has kubelet {written(version)}, which is newer than {PREFIX}version {written(wanted)}: set it to "
                f"{written(version)}."
            )
        elif version[:2] < oldest[:2] and wanted[:2] > oldest[:2]:
            errors.append(
                f"{host} has kubelet {written(version)}, and the control plane {written(oldest)}: complete that upgrade first, with "
                f"{PREFIX}version {written(oldest)}."
            )
    return errors


def configuration(target: str, pull_policy: str, cgroup: int, seconds: int) -> dict[str, t.Any]:
    """What kubeadm upgrade is given.

    :param cgroup: the version of control groups on the host.
    :param seconds: how long each part of the control plane may take to come back; then kubeadm takes the upgrade back.
    :raises ValueError: the version is something else.
    """
    if parsed(target) is None or not isinstance(target, str):
        raise ValueError("An upgrade needs a version such as 1.37.3.")
    common: dict[str, t.Any] = {"imagePullPolicy": pull_policy}
    if cgroup == 1:
        # kubeadm refuses such hosts from 1.35 on; this is the way around it that its own message names.
        common["ignorePreflightErrors"] = ["SystemVerification"]
    return {
        "apiVersion": API,
        "kind": "UpgradeConfiguration",
        # forceUpgrade is its yes to the question, and lets it complete what a killed run began.
        "apply": {"kubernetesVersion": f"v{target}", "forceUpgrade": True, **common},
        "node": dict(common),
        "timeouts": {"upgradeManifests": f"{seconds}s"},
    }


def restarted(before: t.Sequence[t.Mapping[str, t.Any]], after: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """The users' pods that ran before and have another container now, in words.

    A pod that ended or was removed meanwhile is no concern of an upgrade.
    """
    for given in (before, after):
        if not isinstance(given, (list, tuple)) or not all(isinstance(pod, t.Mapping) for pod in given):
            raise ValueError("Pods must be lists of objects, as kubernetes.core.k8s_info returns them.")
    now = {pod["metadata"]["uid"]: _containers(pod) for pod in after}
    return [
        pods.sentence(dict(pod))
        for pod in before
        if pods.is_users(dict(pod))
        and any(now.get(pod["metadata"]["uid"], {}).get(name, number) != number for name, number in _containers(pod).items())
    ]


def _containers(pod: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Container ids of what runs in a pod, by name."""
    return {
        status["name"]: status["containerID"]
        for status in pod.get("status", {}).get("containerStatuses") or ()
        if status.get("containerID") and "running" in (status.get("state") or {})
    }
