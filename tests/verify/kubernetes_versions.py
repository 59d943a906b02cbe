"""Versions of a running cluster: what a playbook must be given after an upgrade, and which container a user's pod has."""

from __future__ import annotations

import json
from typing import Any

import yaml
from kubernetes_site import Site

OLD, NEW = "1.37.2", "1.37.3"
IMAGES = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler")


def hosts(site: Site) -> list[str]:
    """All hosts of the cluster, those of the control plane first."""
    groups = yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]["children"]
    return [host for group in ("kubernetes_control_plane", "kubernetes_workers") for host in groups[group]["hosts"]]


def version(site: Site) -> str:
    return str(json.loads(site.kubectl("get --raw /version"))["gitVersion"])[1:]


def variables(site: Site, wanted: str, **more: Any) -> dict[str, Any]:
    """What a site writes for a version, with the archive of its images."""
    archives = yaml.safe_load((site.inventory / "hosts.yml").read_text())["all"]["vars"]["containerd_archives"]
    path = f"/srv/kubernetes/images/kubernetes-{wanted}.tar"
    if path not in [archive["path"] for archive in archives]:
        archives.append({"path": path, "names": [f"registry.k8s.io/{name}:v{wanted}" for name in IMAGES]})
    return {"kubernetes_cluster_version": wanted, "containerd_archives": archives, **more}


def kubelets(site: Site) -> set[str]:
    return {node["status"]["nodeInfo"]["kubeletVersion"] for node in site.get("nodes")["items"]}


def container(site: Site, pod: str) -> str:
    """The container of a pod that runs, which is another one after a restart."""
    status = site.get(f"pod {pod}")["status"]
    assert status["phase"] == "Running", status
    return str(status["containerStatuses"][0]["containerID"])


def asked(site: Site, host: str, url: str) -> str:
    """What a host gets from an address of the API, by the cluster's own authority."""
    program = (
        "import ssl, sys, urllib.request as r; c = ssl.create_default_context(cafile='/etc/kubernetes/pki/ca.crt'); "
        "print(r.build_opener(r.ProxyHandler({}), r.HTTPSHandler(context=c)).open(sys.argv[1], timeout=10).read().decode())"
    )
    return site.out(host, f'python3 -c "{program}" {url}')
