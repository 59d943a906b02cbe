# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys the template with three masters; the machine of the leading one goes, and tasks and requests go on."""

from __future__ import annotations

from deployed_mesos import FRONT, LOOK, OPENED, PROPERTIES, inputs, marathon, secrets
from infrastructure_manager import Manager, docker
from local import Cluster
from mesos_site import app, ask, until

OWNS = (
    "molecule/tosca_mesos",
    "tosca/templates/mesos_high_availability.yaml",
    "tests/verify/deployed_mesos.py",
    "tests/verify/tosca_mesos/conftest.py",
)


def test_the_machine_of_the_leading_master_goes(cluster: Cluster, manager: Manager) -> None:
    deployment = manager.create(manager.template("mesos_high_availability", inputs(manager), PROPERTIES))
    manager.wait(deployment)
    names = manager.machines()
    masters = {one: cluster.out(one, "hostname --all-ip-addresses").split() for one in names if one == FRONT or one.startswith("master-")}
    (balancer,) = (one for one in names if one.startswith("lb-"))
    assert len(masters) == 3 and len(names) == 5
    known = secrets(cluster)

    def leader(by: str) -> str:
        answer = ask(cluster, "master", "/state", host=by, account=("operator", known["operator"]), by=by)
        leads = (answer.content.get("leader_info") or {}).get("hostname")
        return next((one for one, addresses in masters.items() if leads in (one, *addresses)), "")

    def page(by: str) -> list[str]:
        ask_for_it = f"curl --silent --max-time 5 --header 'Host: web.site.test' http://{balancer}/"
        return sorted(cluster.until(by, ask_for_it, "ada", 120).splitlines())

    serve = f"({LOOK}; id -un) >index.html; exec python3 -m http.server $PORT0"
    labels = {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": "web.site.test"}
    wanted = app("web", serve, gpus=1, user="ada", portDefinitions=[{"port": 10101}], labels=labels)
    assert marathon(cluster, "/v2/apps", wanted).status == 201
    assert page(FRONT) == [*OPENED, "ada"]

    gone = leader(FRONT)
    left = sorted(set(masters) - {gone})
    asked = {"secret": known["marathon_http"], "by": left[0]}
    before = [one["id"] for one in marathon(cluster, "/v2/apps/web/tasks", **asked).content["tasks"]]
    docker("kill", f"{cluster.label}-{gone}")
    until(lambda: leader(left[0]), lambda leads: leads in left, 120)
    assert page(left[0]) == [*OPENED, "ada"]
    until(
        lambda: marathon(cluster, "/v2/apps/other", app("other", "sleep 600", gpus=1, user="ada"), "PUT", **asked).status,
        lambda it: it in (200, 201),
        120,
    )
    until(lambda: marathon(cluster, "/v2/apps/other", **asked).content["app"]["tasksRunning"], lambda count: count == 1, 120)
    assert [one["id"] for one in marathon(cluster, "/v2/apps/web/tasks", **asked).content["tasks"]] == before

    docker("start", f"{cluster.label}-{gone}")
    until(lambda: {leader(one) for one in masters}, lambda leads: len(leads) == 1 and leads <= set(left), 180)
    manager.ask("-y", "destroy", deployment)
    assert manager.machines() == set()
