# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The objects that the cluster gets for its GPUs, as data: NVIDIA's device plugin, once per distinct configuration.

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


def name_of(config: t.Mapping[str, t.Any]) -> str:
    """The name of a configuration, which is the same in every run and for every order of hosts."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return f"nvidia-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def objects(cluster: t.Mapping[str, t.Any], configs: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The namespace, then ConfigMap and DaemonSet of each configuration.

    :param configs: the configurations that nodes have, by name; without one there is nothing to run.
    """
    if not configs:
        return []
    space = {"name": NAMESPACE, "labels": {**OWNED, "pod-security.kubernetes.io/enforce": "privileged"}}
    found: list[dict[str, t.Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": space}]
    for name in sorted(configs):
        found += [config_map(name, configs[name]), daemon_set(cluster, name, configs[name])]
    return found


def _metadata(name: str) -> dict[str, t.Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": {**OWNED, "app.kubernetes.io/name": name}}


def config_map(name: str, config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    text = yaml.safe_dump(dict(config), default_flow_style=False)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(name), "data": {FILE: text}}


def daemon_set(cluster: t.Mapping[str, t.Any], name: str, config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    settings = cluster["device_plugin_settings"]
    # Kubelet itself gives the device files to a container, so a pod is confined to its own ones whatever the runtime does.
    env = {"PASS_DEVICE_SPECS": "true"}
    if config["flags"]["migStrategy"] != "none":
        env["NVIDIA_MIG_MONITOR_DEVICES"] = "all"
    env.update(settings.get("env") or {})
    mounts = [
        {"name": "sockets", "path": SOCKETS, "source": {"hostPath": {"path": SOCKETS}}},
        {"name": "config", "path": FOLDER, "source": {"configMap": {"name": name}}},
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
    selector = {"app.kubernetes.io/name": name}
    pod = {
        "nodeSelector": {PLUGIN_LABEL: name},
        "tolerations": [{"key": TAINT["key"], "operator": "Exists", "effect": TAINT["effect"]}],
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": mount["name"], **mount["source"]} for mount in mounts],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(name),
        "spec": {"selector": {"matchLabels": selector}, "template": {"metadata": {"labels": {**OWNED, **selector}}, "spec": pod}},
    }
