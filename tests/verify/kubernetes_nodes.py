"""What operators do with nodes, for several files of tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from kubernetes_site import BUSYBOX, Site

DRIFT = "playbooks/kubernetes_drift.yml"
# What a host reads from an address of http.
GET = "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}', timeout=5).read().decode())\""


def words(output: str) -> str:
    return " ".join(output.split())


def container(host: str, site: Site, *command: str) -> None:
    """A command of the container engine on a host of the cluster, such as one that takes its power away."""
    subprocess.run(["docker", *command, f"{site.label}-{host}"], check=True, stdout=subprocess.DEVNULL, timeout=120)


def job(site: Site, name: str, node: str) -> None:
    box = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    box["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [box],
    }
    site.kubectl("create -f -", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": pod}}})
    site.kubectl(f"wait --for=jsonpath={{.status.ready}}=1 job {name} --timeout=90s")


def drift(site: Site, path: Path, *arguments: str, succeeds: bool = True) -> dict[str, Any]:
    """The report of a run that must not have changed a host."""
    output = site.playbook(DRIFT, *arguments, variables={"kubernetes_drift_report": str(path)}, succeeds=succeeds)
    return {**json.loads(path.read_text()), "output": output}
