# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Applications behind the balancer: they are reached, no request is lost, and none of them writes HAProxy's configuration."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from local import ROOT, Cluster
from mesos_site import app, ask, remove, secret, start, until

OWNS = (
    "roles/marathon_lb",
    "plugins/filter/marathon_lb.py",
    "plugins/module_utils/_mesos/balancer_*.py",
    "plugins/plugin_utils/_mesos/balancer_settings.py",
    "tests/data/mesos/balancer_*.yml",
)

pytestmark = pytest.mark.usefixtures("clean")
SERVE = "echo hello from $MESOS_TASK_ID > index.html; exec python3 -m http.server $PORT0"
LABELS = {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": "web.site.test"}
GET = "curl --silent --max-time 5 --header 'Host: {}' http://lb{}/"
ATTACKS = yaml.safe_load((ROOT / "tests/data/mesos/balancer_attacks.yml").read_text(encoding="utf-8"))
# What the attacks would leave in HAProxy's configuration.
TRACES = "pwn|12099|lua|shadow|evil|127[.]0[.]0[.]1:22|env[(]|bind [*]:22$"
# Published after all that were sent with it were read.
MARKER = {"portDefinitions": [{"port": 10999}], "labels": {"HAPROXY_GROUP": "external"}}


def web(name: str, port: int, labels: dict[str, str] | None = None, **more: object) -> dict:
    return app(name, SERVE, gpus=1, portDefinitions=[{"port": port}], labels=LABELS if labels is None else labels, **more)


def reached(cluster: Cluster, host: str = "web.site.test", seconds: float = 30, path: str = "") -> str:
    return cluster.until("m1", GET.format(host, path), "hello from", seconds)


def test_an_application_is_reached_by_name_and_port(cluster: Cluster) -> None:
    start(cluster, web("web", 10101))
    assert "hello from" in reached(cluster)
    assert "hello from" in cluster.until("m1", "curl --silent --max-time 5 http://lb:10101/", "hello from", 20)
    remove(cluster, "web")
    until(lambda: cluster.run("m1", "curl --silent --fail --max-time 5 http://lb:10101/").returncode, lambda code: code != 0, 30)


def test_an_application_without_the_group_is_not_published(cluster: Cluster) -> None:
    start(cluster, web("private", 10102, {"HAPROXY_0_VHOST": "private.site.test"}))
    assert cluster.run("m1", "sleep 5; curl --silent --fail --max-time 5 http://lb:10102/").returncode != 0


def test_no_request_is_lost_while_the_balancer_reloads(cluster: Cluster) -> None:
    start(cluster, web("web", 10101))
    reached(cluster)
    loop = (
        "end=$((SECONDS + 60)); good=0; bad=0; while [ $SECONDS -lt $end ]; do "
        f"if {GET.format('web.site.test', '')} | grep -q hello; then good=$((good + 1)); else bad=$((bad + 1)); fi; done; echo $good $bad"
    )
    reload = "systemd-run --quiet --collect bash -c 'for n in $(seq 50); do systemctl reload marathon-lb-haproxy; sleep 1; done'"
    assert cluster.run("lb", reload).returncode == 0
    good, bad = map(int, cluster.out("m1", loop, timeout=120).split())
    assert good > 100 and bad == 0


def report(cluster: Cluster) -> dict[str, Any]:
    """What the writer says of itself."""
    return dict(json.loads(cluster.out("lb", "cat /var/lib/marathon-lb/report.json")))


def applications(kind: str) -> tuple[dict[str, dict], set[str]]:
    """Applications of a class of the data that Marathon takes, by name, and those whose label is refused without their port."""
    entries = [
        (n, one) for n, one in enumerate(ATTACKS[kind]) if one.keys() <= {"id", "labels", "port", "closed"} and one.get("id") != "/portal"
    ]
    found, opened, ids = {}, set(), [one.get("id") for _n, one in entries]
    for number, one in entries:
        identity = one.get("id", f"/{kind}")
        if not re.fullmatch(r"(/[a-z0-9.-]+)+", identity) or ".." in identity:
            continue
        name = identity.lstrip("/") + (str(number) if ids.count(one.get("id")) > 1 else "")
        labels = {"HAPROXY_GROUP": "external", **one.get("labels", {})}
        if kind == "passes":
            # Each has host names of its own, else they would take them from each other.
            labels = {key: value.replace("example", f"e{number}") if key.endswith("VHOST") else value for key, value in labels.items()}
        # No task: the balancer opens ports all the same.
        found[name] = app(name, "true", instances=0, portDefinitions=[{"port": one.get("port", 10200 + number)}], labels=labels)
        opened |= {name} if one.get("closed") is False else set()
    return found, opened


def published(cluster: Cluster) -> dict[str, int]:
    """Port by application, without the part of blue and green names that both have in common."""
    return {one["app"].lstrip("/"): one["port"] for one in report(cluster)["published"]}


@pytest.fixture
def victims(cluster: Cluster) -> dict[str, str]:
    """The applications that the data speak of, with their tasks."""
    ids = {}
    for name, port, vhost, path in (("portal", 10000, "portal.example.org", ""), ("shop/web", 10001, "shop.example.org", "/web")):
        labels = {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": vhost, **({"HAPROXY_0_PATH": path} if path else {})}
        serve = "mkdir -p web; echo hello from $MESOS_TASK_ID | tee index.html > web/index.html; exec python3 -m http.server $PORT0"
        (task,) = start(cluster, app(name, serve, gpus=1, portDefinitions=[{"port": port}], labels=labels))
        reached(cluster, vhost, path=path)
        ids[name] = task["id"]
    return ids


def unharmed(cluster: Cluster, victims: dict[str, str]) -> None:
    for name, vhost, path in (("portal", "portal.example.org", ""), ("shop/web", "shop.example.org", "/web")):
        assert victims[name] in reached(cluster, vhost, path=path), name


@pytest.mark.parametrize("kind", ["writes", "names", "takes", "reads"])
def test_an_application_gets_what_it_may_have_and_nothing_else(cluster: Cluster, victims: dict[str, str], kind: str) -> None:
    """By labels that would be lines of HAProxy's configuration, that are unknown, that take names and ports, that read secrets."""
    tried, opened = applications(kind)
    assert len(tried) >= (10 if kind == "reads" else 20), "the rest of the class is no label, and in the unit tests"
    assert ask(cluster, "marathon", "/v2/apps", [*tried.values(), app("zzz", "true", instances=0, **MARKER)], "PUT").status == 200
    until(lambda: published(cluster), lambda seen: "zzz" in seen, 60)
    seen = report(cluster)
    assert seen["good"], seen
    assert {one["app"].lstrip("/") for one in seen["published"]} == {*victims, "zzz", *opened}
    named = {one["app"].lstrip("/") for one in seen["refused"]}
    # Half of a blue and green pair may have the name of the pair.
    names = [{name, one["labels"].get("HAPROXY_DEPLOYMENT_GROUP", name)} for name, one in tried.items()]
    assert all(both & named for both in names) and named <= set().union(*names), "each is named"
    assert cluster.run("lb", f"grep -rE '{TRACES}' /var/lib/marathon-lb/haproxy.cfg").returncode == 1
    assert cluster.run("m1", "curl --silent --max-time 5 http://lb:12099/").returncode == 7
    unharmed(cluster, victims)


def test_what_an_application_may_have_it_gets(cluster: Cluster, victims: dict[str, str]) -> None:
    tried, _opened = applications("passes")
    assert len(tried) >= 20
    assert ask(cluster, "marathon", "/v2/apps", [*tried.values()], "PUT").status == 200
    # The balancer of this scenario has no certificate, and says so.
    unencrypted = {f"/{name}" for name, one in tried.items() if "HAPROXY_0_REDIRECT_TO_HTTPS" in one["labels"]}
    until(lambda: len(published(cluster)), lambda number: number == len(tried) - len(unencrypted) + len(victims), 60)
    seen = report(cluster)
    assert seen["good"] and {one["app"] for one in seen["refused"]} == unencrypted
    unharmed(cluster, victims)


def test_an_application_takes_no_name_and_port_of_another(cluster: Cluster) -> None:
    (first,) = start(cluster, web("aaa", 10101))
    reached(cluster)
    start(cluster, web("bbb", 10101))
    for _time in range(5):
        assert first["id"] in cluster.out("m1", f"sleep 1; {GET.format('web.site.test', '')}")


def test_the_balancer_is_no_root_and_reads_no_secret_of_marathon(cluster: Cluster) -> None:
    assert set(cluster.out("lb", "ps -o user= -C haproxy | sort -u").split()) == {"haproxy"}
    pattern = f"install -m 600 /dev/null /run/pattern; echo {secret(cluster, 'marathon_http')} > /run/pattern"
    found = cluster.out("lb", f"{pattern}; grep -rlFf /run/pattern /etc")
    assert found.split(), "the writer has it"
    for path in found.split():
        assert cluster.run("lb", f"runuser -u haproxy -- cat {path}").returncode != 0, path
    cluster.out("lb", "rm /run/pattern")
