# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""HAProxy's configuration beside a front, and what is wrong with what it is made of."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import front
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.mesos_examples import CERTIFICATE, GROUPS, SECRETS

GIVEN = {"secrets": SECRETS, "ports": {}, "tls": True, "ca": CERTIFICATE, "timeout": 3600}
WHOLE = {**GROUPS, "chronos": ["m1", "m2"], "marathon": []}
HOSTVARS = {"m1": {}, "m2": {"mesos_cluster_hostname": "m2.example.org"}, "m3": {}}


def made(groups=None, **changes):
    return front.plan({**GIVEN, **changes}, groups or WHOLE, HOSTVARS, "front")


def section(text: str, name: str) -> list[str]:
    lines = text.split(f"\nlisten {name}\n")[1].split("\nlisten ")[0].splitlines()
    return [line.strip() for line in lines]


def test_each_system_has_a_socket_and_its_hosts_by_the_names_in_their_certificates() -> None:
    plan = made()
    assert plan["errors"] == []
    assert plan["sockets"] == {name: f"/run/mesos-front/{name}.sock" for name in ("mesos", "marathon", "chronos")}
    server = "server m2.example.org m2.example.org:{0} verifyhost m2.example.org sni str(m2.example.org) check-sni m2.example.org"
    for name, port, number in (("mesos", 5050, 3), ("marathon", 8443, 3), ("chronos", 4443, 2)):
        lines = section(plan["text"], name)
        assert lines[-number - 2].endswith(rf" unix:/run/mesos-front/{name}.sock|http://{name}\3")
        assert server.format(port) in lines and len([line for line in lines if line.startswith("server ")]) == number
        (usual,) = (line for line in lines if line.startswith("default-server "))
        assert "ssl verify required ca-file /etc/mesos-front/ca.pem" in usual


def test_only_a_leader_gives_the_answer_that_is_waited_for() -> None:
    text = made()["text"]
    mesos, marathon, chronos = (section(text, name) for name in ("mesos", "marathon", "chronos"))
    account = base64.b64encode(f"operator:{SECRETS['operator']}".encode()).decode()
    (asked,) = (line for line in mesos if line.startswith("http-check send "))
    assert "meth POST uri /api/v1" in asked and f'"Basic {account}"' in asked and asked.endswith(""" body '{"type":"GET_HEALTH"}'""")
    assert "http-check expect status 200" in mesos and "http-check expect status 200" in chronos
    # With the quote before it: m1:8443 is the end of am1:8443, too.
    assert r"http-check expect string-lf \"%[srv_name]:8443\"" in marathon
    assert any("uri /ping" in line for line in chronos)


def test_ports_and_plain_http_are_those_of_the_cluster() -> None:
    text = made(ports={"marathon": 9443}, tls=False, ca="")["text"]
    assert "server m1 m1:9443" in section(text, "marathon") and " ssl " not in text
    assert r"http-check expect string-lf \"%[srv_name]:9443\"" in section(text, "marathon")


def test_a_system_without_hosts_has_no_socket() -> None:
    plan = made({"mesos_masters": ["m1"]}, secrets={name: SECRETS[name] for name in ("operator", "marathon_http")})
    assert plan["errors"] == [] and set(plan["sockets"]) == {"mesos", "marathon"} and "chronos" not in plan["text"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"secrets": "x"}, "mesos_cluster_secrets is not a dictionary of secrets"),
        ({"secrets": {**SECRETS, "operator": "short"}}, "mesos_cluster_secrets has no usable operator"),
        ({"secrets": {**SECRETS, "marathon_http": 'a"b' * 10}}, "mesos_cluster_secrets has no usable marathon_http"),
        ({"ca": ""}, "mesos_cluster_ca is no certificate in PEM"),
        ({"ports": {"marathon": "x"}}, "mesos_cluster_ports is no dictionary of ports"),
        ({"ports": {"marathn": 1}}, "mesos_cluster_ports"),
        ({"timeout": 5}, "mesos_front_timeout is 5: write seconds, 10 or more"),
        ({"groups": {**WHOLE, "mesos_masters": ["m1 x"]}}, "is no name of a host that HAProxy takes"),
    ],
)
def test_mistakes_are_sentences_without_a_secret(changes, sentence) -> None:
    plan = made(**changes)
    assert [error for error in plan["errors"] if sentence in error and error.endswith("(host front).")], plan["errors"]
    assert plan["text"] == "" and not [one for one in SECRETS.values() if one in str(plan)]
