# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys the template of Kubernetes: a pod has its GPU and no other.

A test begins with what the one before left.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from infrastructure_manager import Manager, others_reached, through_front, token
from kubernetes_devices import device_of
from kubernetes_site import TRY, Site
from local import ROOT

OWNS = (
    "roles/deepaas/tasks/kubernetes.yml",
    "roles/deepaas/templates/kubernetes.yml.j2",
    "molecule/tosca_kubernetes",
    "tosca/artifacts/kubernetes.yml",
    "tosca/templates/kubernetes_cluster.yaml",
    "tests/tosca/model_image.py",
    "tests/verify/tosca_kubernetes/conftest.py",
)

DEVICE_ROOT = "/var/lib/gpu_simulator"
# The manager counts the machines of a deployment, whatever they are.
FRONT, WORKER = "kubeserver", "gpuwn-1"
# Of tests/tosca/model_image.py.
MODEL = "docker.io/library/model:1"
APPLICATION = {"manager": "kubernetes", "image": MODEL, "port": 30500, "gpus": 1}
PREDICT = "/v2/models/gpu-opener/predict/"
SERVER = "front.site.test"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
# What the scenario kubernetes has of settings as its hosts are containers and there is no registry.
LOCAL = (
    *("kubernetes_packages_repository", "kubernetes_cluster_image_pull_policy", "containerd_restrict_oom_score_adj", "containerd_archives"),
    *("kubernetes_cluster_kubelet", "kubernetes_cluster_kube_proxy", "kubernetes_cluster_device_plugin_settings"),
)


def settings(site: Site) -> dict[str, Any]:
    inventory = (ROOT / "molecule/kubernetes/inventory/hosts.yml").read_text(encoding="utf-8")
    given = {name: yaml.safe_load(inventory)["all"]["vars"][name] for name in LOCAL}
    given["kubernetes_packages_repository"]["key"] = (site.secrets / "kubernetes.asc").read_text(encoding="utf-8")
    given["containerd_archives"].append({"path": "/srv/kubernetes/images/model.tar", "names": [MODEL]})
    return {**given, "kubernetes_node_device_root": DEVICE_ROOT}


def template(site: Site, manager: Manager, application: dict[str, Any] | None = None) -> str:
    inputs = {"wn_num": 0, "gpu_num": 2, "gpu_vendor": "NVIDIA", "gpu_model": "A100", "kube_settings": json.dumps(settings(site), indent=1)}
    properties = {"gpu_wn_node": {"device_root": DEVICE_ROOT}}
    return str(manager.template("kubernetes_cluster", inputs, properties, application=application))


@pytest.fixture(scope="module")
def deployment(site: Site, manager: Manager) -> str:
    """The manager's number of the deployment, which the first test waits for."""
    return manager.create(Path(template(site, manager)))


def test_it_is_deployed(site: Site, manager: Manager, deployment: str) -> None:
    manager.wait(deployment, seconds=1800)
    assert manager.machines() == {FRONT, WORKER}
    ready = {
        node["metadata"]["name"]: next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready")
        for node in site.get("nodes")["items"]
    }
    assert ready == {FRONT: "True", WORKER: "True"}


def test_outputs_are_right(site: Site, manager: Manager, deployment: str) -> None:
    outputs = manager.outputs(deployment)
    (address,) = outputs["gpu_wn_ips"]
    assert address in site.out(WORKER, "hostname --all-ip-addresses").split()
    assert outputs["api_endpoint"] == "https://127.0.0.1:6443" and not outputs["wn_ips"]


def test_a_pod_has_its_gpu_and_no_other(site: Site, deployment: str) -> None:
    """One by its type as well, and a third waits."""
    site.start("first", f"{TRY}sleep 86400", gpus=1)  # to the end of the tests
    site.start("second", f"{TRY}sleep 600", gpus=1)
    (node, one), (_node, other) = device_of(site, "first"), device_of(site, "second")
    assert (node, {one, other}) == (WORKER, {"0", "1"})
    assert site.node(WORKER)["metadata"]["labels"]["accelerators.deephdc.org/a100"] == "2"
    site.start("third", gpus=1)
    assert "Insufficient nvidia.com/gpu" in site.why("third")
    site.remove("second", "third")


def test_a_reconfiguration_leaves_pods(site: Site, manager: Manager, deployment: str) -> None:
    before = site.get("pod first")["status"]["containerStatuses"][0]["containerID"]
    manager.ask("reconfigure", deployment)
    manager.wait(deployment)
    status = site.get("pod first")["status"]
    assert (status["phase"], status["containerStatuses"][0]["containerID"]) == ("Running", before)


def applications(site: Site) -> list[str]:
    """Of DEEPaaS; the ids of their pods."""
    return [pod["metadata"]["uid"] for pod in site.get("pods --selector=accelerators.deephdc.org/application=deepaas")["items"]]


def test_a_deployment_of_the_same_name_that_others_made_stays(site: Site, manager: Manager, deployment: str) -> None:
    site.out(FRONT, f"{KUBECTL} create deployment deepaas --image={MODEL} --replicas=0")
    manager.ask("reconfigure", deployment, template(site, manager, APPLICATION))
    manager.wait(deployment, "unconfigured")
    assert "has a Deployment deepaas that this role did not make" in manager.log(deployment)
    manager.ask("reconfigure", deployment, template(site, manager, {**APPLICATION, "state": "absent"}))
    manager.wait(deployment)
    assert site.get("deployment deepaas")["spec"]["replicas"] == 0
    site.out(FRONT, f"{KUBECTL} delete deployment deepaas")


def test_a_model_serves_predictions_with_its_gpu(site: Site, manager: Manager, deployment: str) -> None:
    """The node of deepaas.yaml in the template of Kubernetes, then behind a front by token; the other GPU is the first pod's."""
    front = {"issuer": "https://iam.site.test", "server_name": SERVER, "audience": f"https://{SERVER}/deepaas", "groups": ["gpu"]}
    wanted = {f"nvidia{1 - int(device_of(site, 'first')[1])}": "No such device or address"}
    pods = []
    with others_reached(manager):
        for application in (APPLICATION, APPLICATION | front):  # The second time the application does not change.
            manager.ask("reconfigure", deployment, template(site, manager, application))
            manager.wait(deployment)
            said = site.out(FRONT, f"curl --silent --fail --max-time 30 --request POST http://{WORKER}:30500{PREDICT}")
            assert json.loads(said)["predictions"] == wanted
            pods.append(applications(site))
        path = f"/deepaas{PREDICT}"
        status, text = through_front(manager, FRONT, SERVER, path, token(manager, "alice", front["audience"]))
        assert (status, json.loads(text)["predictions"]) == (200, wanted)
        assert through_front(manager, FRONT, SERVER, path)[0] == 401
        assert through_front(manager, FRONT, SERVER, path, token(manager, "bob", front["audience"]))[0] == 403
        assert through_front(manager, FRONT, SERVER, path, token(manager, "alice", f"https://{SERVER}/other"))[0] == 403
    assert pods[0] == pods[1] and len(pods[0]) == 1


def test_a_model_is_ended_after_its_front(site: Site, manager: Manager, deployment: str) -> None:
    given = template(site, manager, {**APPLICATION, "state": "absent"})
    manager.ask("reconfigure", deployment, given)
    manager.wait(deployment, "unconfigured")
    assert "deepaas has a front, which it is to lose" in manager.log(deployment)
    site.out(FRONT, "systemctl disable --now apache2 && rm /etc/deephdc/tosca_front.json")
    manager.ask("reconfigure", deployment, given)
    manager.wait(deployment)
    left = f"{KUBECTL} get pods,deployments,services --selector=accelerators.deephdc.org/application=deepaas --output=name"
    site.until(FRONT, f'left=$({left}) && [ -z "$left" ] && echo gone', "gone")


def test_what_lets_hosts_join_is_in_no_log(site: Site, manager: Manager, deployment: str) -> None:
    """Nor is what lets an administrator in, which stays on the front end."""
    found = site.get("--namespace kube-system secrets --field-selector=type=bootstrap.kubernetes.io/token")["items"]
    known = [base64.b64decode(one["data"]["token-secret"]).decode() for one in found]
    known.append(site.out(FRONT, "sed -n 's/^ *client-key-data: //p' /etc/kubernetes/admin.conf"))
    assert len(known) > 1 and len(known[-1]) > 200
    log = manager.log(deployment)
    for secret in known:
        assert secret not in log
        for path in manager.folder.glob("*"):
            assert path.is_dir() or secret.encode() not in path.read_bytes(), path
    patterns = "\n".join(known)
    assert site.out(FRONT, f"grep --recursive --files-with-matches --fixed-strings '{patterns}' /var/tmp /tmp /var/log || true") == ""


def test_destroy_leaves_nothing(manager: Manager, deployment: str) -> None:
    manager.ask("-y", "destroy", deployment)
    assert manager.machines() == set()
    assert deployment not in manager.ask("list")
