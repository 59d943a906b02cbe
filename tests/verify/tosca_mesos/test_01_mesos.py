# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys the template of Mesos: a task has its GPU, and its application is reached through the balancer.

A test begins with what the one before left.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from deployed_mesos import FRONT, LOOK, OPENED, PROPERTIES, SECRETS, inputs, marathon, secrets
from infrastructure_manager import Manager, others_reached, through_front, token
from local import Cluster
from mesos_site import app, ask, until

OWNS = (
    "roles/deepaas/tasks/marathon.yml",
    "roles/deepaas/templates/marathon.yml.j2",
    "roles/tosca_site/files/tosca_certificates.py",
    "roles/tosca_site/tasks/certificates.yml",
    "tosca/artifacts/deepaas.yml",
    "tosca/artifacts/mesos.yml",
    "tosca/templates/mesos_cluster.yaml",
)
LEAVES = "the manager makes and removes the hosts"

# The manager counts the machines of a deployment, whatever they are.
AGENT, BALANCER = "gpuwn-2", "lb-1"
SITE = "front.site.test"
AUTHORITY = "/etc/deephdc/tosca_authority"
MODEL = {"manager": "marathon", "user": "ada", "port": 10500, "gpus": 1}


@pytest.fixture(scope="module")
def deployment(manager: Manager) -> str:
    """The manager's number of the deployment, which the first test waits for."""
    return manager.create(manager.template("mesos_cluster", inputs(manager), PROPERTIES))


def test_it_is_deployed(cluster: Cluster, manager: Manager, deployment: str) -> None:
    manager.wait(deployment)
    assert manager.machines() == {FRONT, AGENT, BALANCER}


def test_outputs_are_right(cluster: Cluster, manager: Manager, deployment: str) -> None:
    outputs = manager.outputs(deployment)
    assert outputs["gpu_wn_ips"] == [cluster.out(AGENT, "hostname --all-ip-addresses").split()[0]]
    assert (outputs["mesos_endpoint"], outputs["marathon_endpoint"]) == ("https://127.0.0.1:5050", "https://127.0.0.1:8443")
    assert outputs["load_balancer_ips"] == ["127.0.0.1"]


def test_the_agent_offers_its_gpus_and_strangers_see_nothing(cluster: Cluster, deployment: str) -> None:
    """By TLS, with the certificates of the deployment's own authority, which no input had."""
    said = ask(cluster, "master", "/state", host=FRONT, account=("operator", secrets(cluster)["operator"]), by=FRONT)
    (agent,) = said.content["slaves"]
    assert (agent["hostname"], agent["resources"]["gpus"], agent["attributes"]["gpus_a100"]) == (AGENT, 2, 2)
    for part in ("master", "marathon"):
        assert ask(cluster, part, "/state" if part == "master" else "/v2/apps", host=FRONT, account=None, by=FRONT).status == 401


def test_an_application_has_its_gpu_and_is_reached_through_the_balancer(cluster: Cluster, deployment: str) -> None:
    """It runs as the user of the template."""
    serve = f"({LOOK}; id -un) >index.html; exec python3 -m http.server $PORT0"
    labels = {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": "web.site.test"}
    wanted = app("web", serve, gpus=1, user="ada", portDefinitions=[{"port": 10101}], labels=labels)
    assert marathon(cluster, "/v2/apps", wanted).status == 201
    said = cluster.until(FRONT, f"curl --silent --max-time 5 --header 'Host: web.site.test' http://{BALANCER}/", "ada", 120)
    assert sorted(said.splitlines()) == [*OPENED, "ada"]


def test_a_reconfiguration_leaves_tasks_and_certificates(cluster: Cluster, manager: Manager, deployment: str) -> None:
    def there() -> tuple[list[str], str]:
        tasks = [one["id"] for one in marathon(cluster, "/v2/apps/web/tasks").content["tasks"]]
        return tasks, cluster.out(FRONT, f"cat {AUTHORITY}/*.crt {SECRETS} | sha256sum")

    before = there()
    manager.ask("reconfigure", deployment)
    manager.wait(deployment)
    assert there() == before and len(before[0]) == 1
    assert marathon(cluster, "/v2/apps/web", None, "DELETE").status == 200
    until(lambda: marathon(cluster, "/v2/apps/web/tasks").status, lambda status: status == 404)


def reconfigured(manager: Manager, deployment: str, application: dict[str, Any], wanted: str = "configured") -> None:
    """The cluster with the node of deepaas.yaml."""
    manager.ask("reconfigure", deployment, str(manager.template("mesos_cluster", inputs(manager), PROPERTIES, application=application)))
    manager.wait(deployment, wanted)


def test_an_application_of_the_same_name_that_others_made_stays(cluster: Cluster, manager: Manager, deployment: str) -> None:
    assert marathon(cluster, "/v2/apps", app("deepaas", "sleep 3600", user="ada")).status == 201
    reconfigured(manager, deployment, MODEL, "unconfigured")
    assert "Marathon has an application /deepaas that this role did not make" in manager.log(deployment)
    reconfigured(manager, deployment, {**MODEL, "state": "absent"})
    assert marathon(cluster, "/v2/apps/deepaas").content["app"]["cmd"] == "sleep 3600"
    assert marathon(cluster, "/v2/apps/deepaas", None, "DELETE").status == 200


def test_a_model_serves_predictions_with_its_gpu(cluster: Cluster, manager: Manager, deployment: str) -> None:
    """An application of Marathon behind the balancer, then behind a front by token."""
    front = {"issuer": "https://iam.site.test", "server_name": SITE, "audience": f"https://{SITE}/deepaas", "groups": ["gpu"]}
    path = "/v2/models/gpu-opener/predict/"
    versions = []
    with others_reached(manager):
        for application in (MODEL, MODEL | front):  # The second time the application does not change.
            reconfigured(manager, deployment, application)
            said = cluster.out(FRONT, f"curl --silent --fail --max-time 30 --request POST http://{BALANCER}:10500{path}")
            assert sorted(json.loads(said)["predictions"].values()) == OPENED
            versions.append(marathon(cluster, "/v2/apps/deepaas").content["app"]["version"])
        status, text = through_front(manager, FRONT, SITE, f"/deepaas{path}", token(manager, "alice", front["audience"]))
        assert (status, sorted(json.loads(text)["predictions"].values())) == (200, OPENED)
        assert through_front(manager, FRONT, SITE, f"/deepaas{path}")[0] == 401
        assert through_front(manager, FRONT, SITE, f"/deepaas{path}", token(manager, "bob", front["audience"]))[0] == 403
        assert through_front(manager, FRONT, SITE, f"/deepaas{path}", token(manager, "alice", f"https://{SITE}/other"))[0] == 403
    assert versions[0] == versions[1]


def test_a_model_is_ended_after_its_front(cluster: Cluster, manager: Manager, deployment: str) -> None:
    gone = {**MODEL, "state": "absent"}
    reconfigured(manager, deployment, gone, "unconfigured")
    assert "deepaas has a front, which it is to lose" in manager.log(deployment)
    cluster.out(FRONT, "systemctl disable --now apache2 && rm /etc/deephdc/tosca_front.json")
    reconfigured(manager, deployment, gone)
    assert marathon(cluster, "/v2/apps/deepaas").status == 404


def test_secrets_are_roots_own_and_in_no_log(cluster: Cluster, manager: Manager, deployment: str) -> None:
    assert cluster.out(FRONT, f"stat --format '%a %U' {SECRETS} {AUTHORITY} {AUTHORITY}/*.key | sort -u").splitlines() == [
        "600 root",
        "700 root",
    ]
    known = [*secrets(cluster).values(), *cluster.out(FRONT, f"sed -n 2p {AUTHORITY}/{AGENT}.key").split()]
    assert all(len(one) >= 48 for one in known)
    log = manager.log(deployment)
    for secret in known:
        assert secret not in log
        for path in manager.folder.glob("*"):
            assert path.is_dir() or secret.encode() not in path.read_bytes(), path
    patterns = "\n".join(known)
    kept = cluster.out(FRONT, f"grep --recursive --files-with-matches --fixed-strings '{patterns}' /var/tmp /tmp /var/log || true")
    assert kept == ""


def test_destroy_leaves_nothing(manager: Manager, deployment: str) -> None:
    manager.ask("-y", "destroy", deployment)
    assert manager.machines() == set()
    assert deployment not in manager.ask("list")
