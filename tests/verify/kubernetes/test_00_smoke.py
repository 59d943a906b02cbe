"""Kubernetes from bare hosts to a user's pod with a GPU, and a second run without a change."""

from __future__ import annotations

OWNS = (
    "playbooks/kubernetes.yml",
    "roles/containerd",
    "roles/kubernetes_cluster",
    "roles/kubernetes_control_plane",
    "roles/kubernetes_node",
    "roles/kubernetes_packages",
    "plugins/filter/kubernetes.py",
    "plugins/module_utils/_kubernetes/kubectl.py",
    "plugins/plugin_utils/_kubernetes",
    "extensions/molecule/kubernetes",
    "inventories/local_kubernetes",
    "scripts/demo-kubernetes",
    "tests/kubernetes",
)
