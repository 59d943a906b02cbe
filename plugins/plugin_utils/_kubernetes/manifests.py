# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The objects that the cluster gets for its GPUs, as data.

They are NVIDIA's device plugin, once per distinct configuration.

Source: NVIDIA's static manifest of k8s-device-plugin 0.18.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

import yaml

NAMESPACE = "deephdc-accelerators"
DOMAIN = "accelerators.deephdc.org"
PLUGIN_LABEL = f"{DOMAIN}/device-plugin"  # of a node: which configuration it has
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OWNED = {"app.kubernetes.io/managed-by": "deephdc.accelerators"}

SOCKETS = "/var/lib/kubelet/device-plugins"
FOLDER = "/etc/nvidia-device-plugin"
FILE = "config.yaml"
# Where the daemon of NVIDIA's Multi-Process Service and its clients meet, on the host and in the plugin's pods.
MPS_ROOT = "/run/nvidia/mps"


def name_of(config: t.Mapping[str, t.Any]) -> str:
    """Return a configuration's name: the same in every run and for any order of hosts."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return f"nvidia-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def namespace() -> dict[str, t.Any]:
    """The namespace of the plugins and of the pods that prove them."""
    space = {"name": NAMESPACE, "labels": {**OWNED, "pod-security.kubernetes.io/enforce": "privileged"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": space}


def objects(cluster: t.Mapping[str, t.Any], configs: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the namespace, then ConfigMap and DaemonSet of each configuration.

    A configuration with MPS also has what MPS needs.

    :param configs: the configurations that nodes have, by name; without one there is nothing to run.
    """
    if not configs:
        return []
    found = [namespace()]
    for name in sorted(configs):
        found += [config_map(name, configs[name]), daemon_set(cluster, name, configs[name])]
        if is_mps(configs[name]):
            found.append(mps_daemon_set(cluster, name))
    return found


def is_mps(config: t.Mapping[str, t.Any]) -> bool:
    return "mps" in (config.get("sharing") or {})


def taint(resource: str) -> dict[str, str]:
    """The taint of nodes that offer a resource.

    The API server adds the toleration for it to pods that ask for the resource.
    """
    return {**TAINT, "key": resource}


def daemon(name: str, nodes: t.Mapping[str, str], pod: t.Mapping[str, t.Any], taint_key: str = "") -> dict[str, t.Any]:
    """A DaemonSet on nodes with these labels.

    taint_key: the taint that its pods tolerate, all where it is empty.
    """
    selector = {"app.kubernetes.io/name": name}
    toleration = {**({"key": taint_key} if taint_key else {}), "operator": "Exists", "effect": TAINT["effect"]}
    whole = {
        "nodeSelector": dict(nodes),
        "tolerations": [toleration],
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        **pod,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(name),
        "spec": {"selector": {"matchLabels": selector}, "template": {"metadata": {"labels": {**OWNED, **selector}}, "spec": whole}},
    }


def _metadata(name: str) -> dict[str, t.Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": {**OWNED, "app.kubernetes.io/name": name}}


def config_map(name: str, config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    text = yaml.safe_dump(dict(config), default_flow_style=False)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(name), "data": {FILE: text}}


def daemon_set(cluster: t.Mapping[str, t.Any], name: str, config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    settings, with_mps = cluster["device_plugin_settings"], is_mps(config)
    # Kubelet itself gives the device files to a container, so a pod is confined to its own ones whatever the runtime does.
    env = {"PASS_DEVICE_SPECS": "true"}
    if config["flags"]["migStrategy"] != "none":
        env["NVIDIA_MIG_MONITOR_DEVICES"] = "all"
    if with_mps:
        env["MPS_ROOT"] = MPS_ROOT
    env.update(settings.get("env") or {})
    mounts = [
        {"name": "sockets", "path": SOCKETS, "source": {"hostPath": {"path": SOCKETS}}},
        {"name": "config", "path": FOLDER, "source": {"configMap": {"name": name}}},
        *(_mps_mounts() if with_mps else ()),
        *(
            {"name": f"site-{number}", "path": mount["path"], "source": {"hostPath": {"path": mount["host_path"]}}}
            for number, mount in enumerate(settings.get("mounts") or [])
        ),
    ]
    container = {
        "name": "plugin",
        "image": cluster["device_plugin_image"],
        "imagePullPolicy": cluster["image_pull_policy"],
        "env": [
            *({"name": key, "value": env[key]} for key in sorted(env)),
            {"name": "CONFIG_FILE", "value": f"{FOLDER}/{FILE}"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "securityContext": {"privileged": True},  # to see the device files whose names it gives
        "volumeMounts": [{"name": mount["name"], "mountPath": mount["path"]} for mount in mounts],
    }
    pod = {"containers": [container], "volumes": [{"name": mount["name"], **mount["source"]} for mount in mounts]}
    return daemon(name, {PLUGIN_LABEL: name}, pod, TAINT["key"])


def _mps_mounts() -> tuple[dict[str, t.Any], ...]:
    """Of both pods: the plugin asks the daemon for its health."""
    return (
        {"name": "mps-shm", "path": "/dev/shm", "source": {"hostPath": {"path": f"{MPS_ROOT}/shm", "type": "DirectoryOrCreate"}}},
        {"name": "mps-root", "path": "/mps", "source": {"hostPath": {"path": MPS_ROOT, "type": "DirectoryOrCreate"}}},
    )


def mps_daemon_set(cluster: t.Mapping[str, t.Any], name: str) -> dict[str, t.Any]:
    """Return the control daemon of NVIDIA's Multi-Process Service.

    It is for the nodes of a configuration, and as NVIDIA's chart has it. No test ran one.
    """
    image = {
        "image": cluster["device_plugin_image"],
        "imagePullPolicy": cluster["image_pull_policy"],
        "securityContext": {"privileged": True},
    }
    mounts = [*_mps_mounts(), {"name": "config", "path": FOLDER, "source": {"configMap": {"name": name}}}]
    first = {
        **image,
        "name": "mounts",
        "command": ["mps-control-daemon", "mount-shm"],
        "volumeMounts": [{"name": "mps-root", "mountPath": "/mps", "mountPropagation": "Bidirectional"}],
    }
    container = {
        **image,
        "name": "daemon",
        "command": ["mps-control-daemon"],
        "env": [
            {"name": "CONFIG_FILE", "value": f"{FOLDER}/{FILE}"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        ],
        "volumeMounts": [{"name": mount["name"], "mountPath": mount["path"]} for mount in mounts],
    }
    volumes = [{"name": mount["name"], **mount["source"]} for mount in mounts]
    pod = {"hostPID": True, "initContainers": [first], "containers": [container], "volumes": volumes}
    return daemon(f"{name}-mps", {PLUGIN_LABEL: name}, pod, TAINT["key"])
