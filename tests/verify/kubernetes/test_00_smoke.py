# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The least that a cluster is for: a user's pod with its GPU."""

from __future__ import annotations

from kubernetes_site import TRY, Site

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
    "molecule/kubernetes",
    "inventories/local_kubernetes",
    "scripts/demo-kubernetes",
    "tests/kubernetes",
)


def test_a_pod_has_its_gpu_and_no_other(site: Site):
    """The user's file has no toleration.

    The API server adds the one for the resource that is asked for.
    """
    site.start("one", f"{TRY}sleep 600", gpus=1, node="gpu1")
    site.start("other", f"{TRY}sleep 600", gpus=1, node="gpu1")
    try:
        seen = {}
        for name in ("one", "other"):
            site.phase(name, "Running")
            site.until("cp1", f"kubectl --kubeconfig /etc/kubernetes/admin.conf logs {name}", "own ")
            lines = site.logs(name).splitlines()
            own = lines[-1].split()[1]
            assert [line for line in lines if line.startswith("has ")] == [f"has /dev/nvidia{own}"], lines
            foreign = [line for line in lines if line.startswith(f"{1 - int(own)}: ")]
            assert len(foreign) == 1 and "Operation not permitted" in foreign[0], lines
            seen[name] = own
        assert sorted(seen.values()) == ["0", "1"]
        # With control groups of systemd, a device without a link in /dev/char would be lost to the container by either.
        number = site.get("pod one")["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        site.out("gpu1", f"runc --root /run/containerd/runc/k8s.io update --cpu-share 600 {number}; systemctl daemon-reload")
        # The simulated GPU has no driver, which an open that is allowed comes to.
        said = site.kubectl(f"exec one -- sh -c '(: </dev/nvidia{seen['one']}) 2>&1 || true'")
        assert "No such device or address" in said, said
        site.start("third", gpus=1, node="gpu1")
        assert "Insufficient nvidia.com/gpu" in site.why("third")
    finally:
        site.remove("one", "other", "third")
