# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys the template of Mesos: a task has its GPU, and its application is reached through the balancer.

A test begins with what the one before left.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from infrastructure_manager import Manager, provider_reached, through_front, token
from local import Cluster
from mesos_site import Answer, app, ask, until

DEVICE_ROOT = "/var/lib/gpu_simulator"
PROPERTIES = {"gpu_wn_node": {"device_root": DEVICE_ROOT}}
# The manager counts the machines of a deployment, whatever they are.
FRONT, AGENT, BALANCER = "mesosserver", "gpuwn-2", "lb-1"
# Prints whether each device opens: one without a driver says ENXIO to whom it opens for, and EPERM to all others.
LOOK = 'for n in 0 1; do (: </dev/nvidia$n) 2>&1 | sed "s/.*: //"; done'
SITE = "front.site.test"
SECRETS = "/etc/deephdc/tosca_secrets.json"
AUTHORITY = "/etc/deephdc/tosca_authority"


def inputs(manager: Manager) -> dict[str, Any]:
    sums = (manager.cluster.state / "builds/SHA256SUMS").read_text(encoding="ascii").split()
    digests = dict(zip(sums[1::2], sums[::2], strict=True))
    settings: dict[str, Any] = {"mesos_agent_device_root": DEVICE_ROOT}
    for program, version in (("mesos", "1.11.0"), ("marathon", "1.5.15")):
        file = f"{program}-{version}.tar.gz"
        settings[f"mesos_cluster_{program}_source"] = {"path": f"/opt/builds/{file}", "sha256": digests[file], "version": version}
    return {
        "wn_num": 0,
        "gpu_num": 2,
        "gpu_vendor": "NVIDIA",
        "gpu_model": "A100",
        "mesos_users": [{"os_user_name": "ada"}],
        "mesos_settings": json.dumps(settings, indent=1),
    }


@pytest.fixture(scope="module")
def deployment(manager: Manager) -> str:
    """The manager's number of the deployment, which the first test waits for."""
    return manager.create(manager.template("mesos_cluster", inputs(manager), PROPERTIES))


def secrets(cluster: Cluster) -> dict[str, str]:
    return dict(json.loads(cluster.out(FRONT, f"cat {SECRETS}"))["mesos_cluster_secrets"])


def marathon(cluster: Cluster, path: str, body: Any = None, method: str = "") -> Answer:
    return ask(cluster, "marathon", path, body, method, FRONT, ("marathon", secrets(cluster)["marathon_http"]), FRONT)


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
    assert sorted(said.splitlines()) == ["No such device or address", "Operation not permitted", "ada"]


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


def test_a_model_serves_predictions_with_its_gpu(cluster: Cluster, manager: Manager, deployment: str) -> None:
    """The node of deepaas.yaml in the template of Mesos: an application of Marathon behind the balancer, then behind a front by token."""
    model = {"manager": "marathon", "user": "ada", "port": 10500, "gpus": 1}
    front = {"issuer": "https://iam.site.test", "server_name": SITE, "audience": f"https://{SITE}/deepaas", "groups": ["gpu"]}
    path = "/v2/models/gpu-opener/predict/"
    versions = []
    with provider_reached(manager):
        for application in (model, model | front):  # The second time the application does not change.
            manager.ask(
                "reconfigure", deployment, str(manager.template("mesos_cluster", inputs(manager), PROPERTIES, application=application))
            )
            manager.wait(deployment)
            said = cluster.out(FRONT, f"curl --silent --fail --max-time 30 --request POST http://{BALANCER}:10500{path}")
            assert sorted(json.loads(said)["predictions"].values()) == ["No such device or address", "Operation not permitted"]
            versions.append(marathon(cluster, "/v2/apps/deepaas").content["app"]["version"])
        status, text = through_front(manager, FRONT, SITE, f"/deepaas{path}", token(manager, "alice", front["audience"]))
        assert (status, sorted(json.loads(text)["predictions"].values())) == (200, ["No such device or address", "Operation not permitted"])
        assert through_front(manager, FRONT, SITE, f"/deepaas{path}")[0] == 401
        assert through_front(manager, FRONT, SITE, f"/deepaas{path}", token(manager, "bob", front["audience"]))[0] == 403
        assert through_front(manager, FRONT, SITE, f"/deepaas{path}", token(manager, "alice", f"https://{SITE}/other"))[0] == 403
    assert versions[0] == versions[1]
    assert marathon(cluster, "/v2/apps/deepaas", None, "DELETE").status == 200


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
