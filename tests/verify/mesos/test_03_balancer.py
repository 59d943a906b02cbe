# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Applications behind the balancer: they are reached, no request is lost, and none of them writes HAProxy's configuration."""

from __future__ import annotations

import pytest
from local import Cluster
from mesos_site import app, remove, secret, start, until

pytestmark = pytest.mark.usefixtures("clean")
SERVE = "echo hello from $MESOS_TASK_ID > index.html; exec python3 -m http.server $PORT0"
LABELS = {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": "web.site.test"}
GET = "curl --silent --max-time 5 --header 'Host: {}' http://lb/"


def web(name: str, port: int, labels: dict[str, str] | None = None, **more: object) -> dict:
    return app(name, SERVE, gpus=1, portDefinitions=[{"port": port}], labels=LABELS if labels is None else labels, **more)


def reached(cluster: Cluster, host: str = "web.site.test", seconds: float = 30) -> str:
    return cluster.until("m1", GET.format(host), "hello from", seconds)


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
        f"if {GET.format('web.site.test')} | grep -q hello; then good=$((good + 1)); else bad=$((bad + 1)); fi; done; echo $good $bad"
    )
    reload = "systemd-run --quiet --collect bash -c 'for n in $(seq 50); do systemctl reload marathon-lb-haproxy; sleep 1; done'"
    assert cluster.run("lb", reload).returncode == 0
    good, bad = map(int, cluster.out("m1", loop, timeout=120).split())
    assert good > 100 and bad == 0


@pytest.mark.parametrize(
    "label",
    [
        {"HAPROXY_0_BACKEND_HEAD": "\nfrontend pwn\n bind *:12099\n default_backend web"},
        {"HAPROXY_0_FRONTEND_HEAD": "\n bind *:12099"},
        {"HAPROXY_0_BACKEND_SERVER_OPTIONS": "  server evil 127.0.0.1:22\n"},
        {"HAPROXY_HTTP_FRONTEND_ACL": "\n bind *:12099\n"},
        {"HAPROXY_0_HTTP_BACKEND_OPTIONS": "\n lua-load /tmp/x.lua"},
        {"HAPROXY_0_VHOST": "evil.site.test\n bind *:12099"},
        {"HAPROXY_0_PATH": "/ }\n bind *:12099"},
    ],
)
def test_an_application_writes_no_configuration(cluster: Cluster, label: dict[str, str]) -> None:
    start(cluster, web("web", 10101))
    start(cluster, web("evil", 10103, {"HAPROXY_GROUP": "external", **label}))
    reached(cluster)
    assert cluster.run("m1", "sleep 4; curl --silent --max-time 5 http://lb:12099/").returncode == 7
    assert cluster.run("lb", "grep -rE '12099|frontend pwn|lua-load|server evil' /var/lib/marathon-lb/haproxy.cfg").returncode != 0


def test_an_application_takes_no_name_and_port_of_another(cluster: Cluster) -> None:
    (first,) = start(cluster, web("aaa", 10101))
    reached(cluster)
    start(cluster, web("bbb", 10101))
    for _time in range(5):
        assert first["id"] in cluster.out("m1", f"sleep 1; {GET.format('web.site.test')}")


def test_the_balancer_is_no_root_and_reads_no_secret_of_marathon(cluster: Cluster) -> None:
    assert set(cluster.out("lb", "ps -o user= -C haproxy | sort -u").split()) == {"haproxy"}
    pattern = f"install -m 600 /dev/null /run/pattern; echo {secret(cluster, 'marathon_http')} > /run/pattern"
    found = cluster.out("lb", f"{pattern}; grep -rlFf /run/pattern /etc")
    assert found.split(), "the writer has it"
    for path in found.split():
        assert cluster.run("lb", f"runuser -u haproxy -- cat {path}").returncode != 0, path
    cluster.out("lb", "rm /run/pattern")
