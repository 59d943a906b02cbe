# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the role marathon_lb refuses, and the settings that it writes."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.module_utils._mesos import balancer_haproxy, balancer_program
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import balancer_settings

ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles/marathon_lb"
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
GIVEN = {
    **{name.removeprefix("marathon_lb_"): value for name, value in DEFAULTS.items()},
    "marathon_port": 8443,
    "marathon_tls": True,
    "password": "0123456789abcdef",
    "ca": "",
}
GROUPS = {"mesos_masters": ["m1", "m2"]}
HOSTVARS = {"m1": {}, "m2": {"mesos_cluster_hostname": "m2.example.org"}}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"
KEY = "-----BEGIN EC PRIVATE KEY-----\nhidden\n-----END EC PRIVATE KEY-----"


def plan(**changes: t.Any) -> dict[str, t.Any]:
    return balancer_settings.plan({**GIVEN, **changes}, GROUPS, HOSTVARS, "lb")


def test_addresses_of_marathon_come_from_the_inventory_by_the_names_of_certificates():
    assert plan()["settings"]["marathon"] == ["https://m1:8443", "https://m2.example.org:8443"]
    own = balancer_settings.plan(GIVEN, {**GROUPS, "marathon": ["a"]}, {}, "lb")
    assert own["settings"]["marathon"] == ["https://a:8443"]
    assert plan(marathon_urls=["https://x.example.org"])["settings"]["marathon"] == ["https://x.example.org"]
    assert balancer_settings.plan(GIVEN, {}, {}, "lb")["errors"] == [
        "marathon_lb_marathon_urls is empty and the inventory has no group marathon or mesos_masters: write where Marathon is (host lb)."
    ]


def test_no_secret_is_in_the_settings():
    made = plan(certificates=[{"certificate": CERTIFICATE, "key": KEY}])
    assert made["errors"] == [] and made["settings"]["tls"] == "/etc/marathon-lb/tls"
    assert "0123456789abcdef" not in json.dumps(made) and "hidden" not in json.dumps(made)


def test_the_program_takes_the_settings(tmp_path):
    made = plan(
        reserved=[{"vhost": "A.example.org", "apps": "/a"}, {"port": 10005, "apps": "/b"}],
        networks=["10.0.0.1/8"],
        trusted_proxies=["10.9.0.1"],
        ports=[443, "443", 25],
    )
    settings = {**json.loads(json.dumps(made["settings"])), "state": str(tmp_path), "runtime": str(tmp_path)}
    marathon = balancer_program.connect({**settings, "credential_file": ""})
    program = balancer_program.Program(settings, marathon, balancer_haproxy.HAProxy(str(tmp_path), str(tmp_path)), lambda host: "")
    assert [tuple(one) for one in program.reserved] == [("host a.example.org", "/a"), ("port 10005", "/b")]
    assert program.balancer.trusted == ("10.9.0.1/32",) and str(program.site.networks[0]) == "10.0.0.0/8"
    assert [port for port in (22, 25, 80, 443, 9090, 9999, 10000, 20000, 20001) if program.ports.allowed(port)] == [25, 443, 10000, 20000]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": ""}, "marathon_lb_password is not set"),
        ({"password": None}, "marathon_lb_password is not set"),
        ({"password": "secretsecret"}, "marathon_lb_password can't be used"),
        ({"password": "secretsecret:secret"}, "marathon_lb_password can't be used"),
        ({"password": "secretsecret secret\n"}, "marathon_lb_password can't be used"),
        ({"user": "a:b"}, "marathon_lb_user is 'a:b'"),
        ({"ca": "x"}, "marathon_lb_ca is no certificate"),
        ({"groups": []}, "marathon_lb_groups is empty"),
        ({"groups": ["a b"]}, "marathon_lb_groups has 'a b'"),
        ({"groups": "external"}, "marathon_lb_groups is 'external': write a list"),
        ({"marathon_urls": ["m1:8443"]}, "marathon_lb_marathon_urls has 'm1:8443'"),
        ({"marathon_urls": ["http://m1:8080"]}, "shows the password to all"),
        ({"marathon_port": 0}, "marathon_lb_marathon_port is 0"),
        ({"first_port": 80}, "marathon_lb_first_port is 80: write a number of 1024 to 65535"),
        ({"first_port": 20001}, "marathon_lb_first_port 20001 is above marathon_lb_last_port 20000"),
        ({"ports": [0]}, "marathon_lb_ports has 0"),
        ({"ports": [True]}, "marathon_lb_ports has True"),
        ({"http_port": "x"}, "marathon_lb_http_port is 'x'"),
        ({"http_port": 9090}, "marathon_lb_http_port is 9090, which another port of the balancer has"),
        ({"address": "eth0"}, "marathon_lb_address is 'eth0'"),
        ({"networks": ["10.0.0.0/33"]}, "marathon_lb_networks has '10.0.0.0/33'"),
        ({"trusted_proxies": [7]}, "marathon_lb_trusted_proxies has 7"),
        ({"front_headers": ["X-A: b"]}, "marathon_lb_front_headers has 'X-A: b'"),
        ({"front_headers": ["Host"]}, "marathon_lb_front_headers has 'Host'"),
        ({"certificates": ["x"]}, "entry 1, is 'x'"),
        ({"certificates": [{"certificate": CERTIFICATE}]}, "entry 1, has no key"),
        ({"certificates": [{"certificate": "x", "key": KEY}]}, "entry 1, has no certificate"),
        ({"certificates": [{"certificate": CERTIFICATE, "key": KEY.replace("EC", "ENCRYPTED")}]}, "has an encrypted key"),
        ({"certificates": [{"certificate": CERTIFICATE, "key": KEY, "ca": "x"}]}, "unknown key 'ca'"),
        ({"reserved": [{"apps": "/a"}]}, "needs either vhost or port"),
        ({"reserved": [{"apps": "/a", "vhost": "a", "port": 1}]}, "needs either vhost or port"),
        ({"reserved": [{"apps": "a", "vhost": "a"}]}, "has no usable apps"),
        ({"reserved": [{"apps": "/a", "vhost": "a b"}]}, "has the vhost 'a b'"),
        ({"reserved": [{"apps": "/a", "port": "x"}]}, "has the port 'x'"),
        ({"reserved": [{"apps": "/a", "vhosts": "a"}]}, "did you mean vhost?"),
        ({"timeout": -1}, "marathon_lb_timeout is -1"),
        ({"event_seconds": 1}, "marathon_lb_event_seconds is 1"),
    ],
)
def test_a_mistake_is_a_sentence_with_the_host_and_without_a_secret(changes, words):
    made = plan(**changes)
    assert any(words in sentence for sentence in made["errors"]), made["errors"]
    assert all(sentence.endswith(" (host lb).") and "secretsecret" not in sentence for sentence in made["errors"])
    assert made["settings"] == {}


def test_all_variables_reach_the_check():
    given = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))["__marathon_lb_variables"]
    assert {f"marathon_lb_{name}" for name in given} == set(DEFAULTS)
    assert all(f"marathon_lb_{name}" in value for name, value in given.items())


def test_all_parts_of_the_program_are_shipped():
    shipped = [one["path"] for one in yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))["__marathon_lb_files"]]
    folder = pathlib.Path(balancer_program.__file__).parent
    parts = {path.name for path in folder.glob("balancer_*.py")}
    assert parts == {path.rpartition("/")[2] for path in shipped if "/balancer/" in path}
    imported = {
        line.split()[1] for path in folder.glob("balancer_*.py") for line in path.read_text().splitlines() if "ansible_collections" in line
    }
    assert imported == set()
