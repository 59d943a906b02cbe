# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What kubeadm is given, as data: kubeadm.k8s.io/v1beta4.

No token and no other secret is in it.

With these fields clusters of 1.37.2 were made with containerd 1.6, 1.7 and 2.1, of 1.36.3 with 1.7, on hosts with cgroup v1.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import access

API = "kubeadm.k8s.io/v1beta4"
CRI_SOCKET = "unix:///run/containerd/containerd.sock"
PORT = 6443
# kubeadm's own choice, and the one by which pods that ask for a GPU tolerate the taint of GPU hosts without saying so.
ADMISSION = "NodeRestriction,ExtendedResourceToleration"


class Host(t.NamedTuple):
    """A host of the cluster.

    :param host: its inventory name. name: that of its node.
    :param cgroup: the version of control groups, 1 or 2.
    """

    host: str
    name: str
    address: str
    cgroup: int


def registration(cluster: t.Mapping[str, t.Any], host: Host) -> dict[str, t.Any]:
    """How kubelet makes the node."""
    found = {
        "criSocket": CRI_SOCKET,
        "name": host.name,
        "imagePullPolicy": cluster["image_pull_policy"],
        "kubeletExtraArgs": [{"name": "node-ip", "value": host.address}],
    }
    if host.cgroup == 1:
        # kubeadm refuses such hosts from 1.35 on; this is the way around it that its own message names.
        found["ignorePreflightErrors"] = ["SystemVerification"]
    return found


KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def kubelet(cluster: t.Mapping[str, t.Any], host: Host) -> dict[str, t.Any]:
    """Return what a host's kubelet has beside the file of kubeadm.

    It is compared at each run; the file is written once.
    """
    # Without the first one kubelet does not start there, from 1.35 on.
    return {**KUBELET, **({"failCgroupV1": False} if host.cgroup == 1 else {}), **cluster["kubelet"]}


def init(cluster: t.Mapping[str, t.Any], control: Host, endpoint: str) -> list[dict[str, t.Any]]:
    """The four documents of kubeadm init."""
    return [
        {
            "apiVersion": API,
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": control.address, "bindPort": PORT},
            "nodeRegistration": registration(cluster, control),
        },
        {
            "apiVersion": API,
            "kind": "ClusterConfiguration",
            "kubernetesVersion": f"v{cluster['version']}",
            "clusterName": cluster["name"],
            "controlPlaneEndpoint": endpoint,
            "networking": {"podSubnet": cluster["pod_network"], "serviceSubnet": cluster["service_network"]},
            "apiServer": {
                "extraArgs": [
                    {"name": "authentication-config", "value": access.FILE},
                    {"name": "enable-admission-plugins", "value": ADMISSION},
                ],
                "extraVolumes": [
                    {
                        "name": "authn",
                        "hostPath": access.DIRECTORY,
                        "mountPath": access.DIRECTORY,
                        "readOnly": True,
                        "pathType": "Directory",
                    }
                ],
            },
            "controllerManager": {"extraArgs": [{"name": "node-cidr-mask-size", "value": str(cluster["node_prefix"])}]},
        },
        {**KUBELET, "cgroupDriver": "systemd"},
        # Services survive an upgrade from 1.36 in this mode; with nftables they did not.
        {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables", **cluster["kube_proxy"]},
    ]


def join(cluster: t.Mapping[str, t.Any], host: Host, endpoint: str, taints: t.Sequence[t.Mapping[str, str]]) -> dict[str, t.Any]:
    """The document of kubeadm join.

    What is missing is the token and caCertHashes, below discovery.bootstrapToken.
    """
    register = registration(cluster, host)
    if taints:  # from the first moment on: no other pod gets there before
        register["taints"] = [dict(taint) for taint in taints]
    return {
        "apiVersion": API,
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {"apiServerEndpoint": endpoint}},
        "nodeRegistration": register,
    }


def join_control(cluster: t.Mapping[str, t.Any], host: Host, endpoint: str) -> dict[str, t.Any]:
    """Return the document of kubeadm join for one more host of the control plane.

    Else it is as join() has it. The keys of the cluster's authorities come before, as files: with them kubeadm needs no key
    for certificates.
    """
    return {
        **join(cluster, host, endpoint, ()),
        "controlPlane": {"localAPIEndpoint": {"advertiseAddress": host.address, "bindPort": PORT}},
    }
