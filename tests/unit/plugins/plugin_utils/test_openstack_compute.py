# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The variables of compute hosts, and the files of nova-compute and of Neutron's agent."""

from __future__ import annotations

import configparser
import json
import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import compute, compute_conf

SECRET = "S3cret"
TRANSPORT = f"rabbit://nova:{SECRET}@rabbit.site.org:5671/?ssl=1"
HOST = {
    "auth_url": "https://keystone.site.org:5000/v3",
    "region": "RegionOne",
    "ca": "",
    "transport_url": TRANSPORT,
    "network_transport_url": "",
    "user": "nova",
    "password": SECRET,
    "project": "service",
    "domain": "Default",
    "network": "linuxbridge",
    "tunnel_address": "",
    "physical_networks": {},
    "pool": "default",
    "pool_driver": "dir",
    "address": "",
    "reserved_memory_mib": 1024,
    "cpu_ratio": 4.0,
    "config_drive": True,
    "settings": {},
}
PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


def test_what_a_site_gives_is_enough() -> None:
    assert compute.host_errors(HOST, "lxd1") == []
    more = {
        "ca": PEM,
        "transport_url": "rabbit://nova:a%2Fb@r1:5671,nova:a%2Fb@r2:5671/nova?ssl=true",
        "network": "none",
        "tunnel_address": "2001:db8::7",
        "address": "192.0.2.7",
        "physical_networks": {"provider": "eth1"},
        "pool_driver": "zfs",
        "cpu_ratio": 1,
        "settings": {"DEFAULT": {"debug": True}, "pci": {"alias": ["a", "b"]}},
    }
    assert compute.host_errors({**HOST, **more}, "lxd1") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"auth_url": ""}, "nova_lxd_auth_url is not set for lxd1: give Keystone's address"),
        ({"auth_url": "http://keystone.site.org:5000/v3"}, "begins with http://"),
        ({"auth_url": "keystone.site.org"}, "no address of Keystone"),
        ({"auth_url": "https://nova:pw@keystone.site.org"}, "no address of Keystone"),
        ({"auth_url": "https://[::1"}, "no address of Keystone"),
        ({"auth_url": "https://key stone/"}, "no address of Keystone"),
        ({"transport_url": ""}, "nova_lxd_transport_url is not set for lxd1"),
        ({"transport_url": f"amqp://nova:{SECRET}@rabbit/?ssl=1"}, "no address of RabbitMQ"),
        ({"transport_url": "rabbit://rabbit.site.org:5671/?ssl=1"}, "with user and password"),
        ({"transport_url": f"rabbit://nova:{SECRET}@rabbit:port/?ssl=1"}, "no address of RabbitMQ"),
        ({"transport_url": f"rabbit://nova:{SECRET}@rabbit:5672/"}, "nova_lxd_transport_url of lxd1 is without TLS"),
        ({"transport_url": f"rabbit://nova:{SECRET}@rabbit:5672/?ssl=0"}, "without TLS"),
        ({"network_transport_url": f"rabbit://nova:{SECRET}@rabbit:5672/"}, "nova_lxd_network_transport_url of lxd1 is without TLS"),
        ({"password": ""}, "nova_lxd_password is not set for lxd1"),
        ({"password": f"{SECRET}\n[DEFAULT]"}, "nova_lxd_password of lxd1 has a line break"),
        ({"password": f" {SECRET}"}, "a blank at an end"),
        ({"ca": "/etc/ssl/ca.pem"}, "nova_lxd_ca of lxd1 is no certificate"),
        ({"ca": f"{PEM}-----BEGIN PRIVATE KEY-----"}, "is no certificate"),
        ({"network": "openvswitch"}, "which no test has run with yet"),
        ({"network": "ovn"}, "nova_lxd_network of lxd1 is 'ovn': write linuxbridge or none"),
        ({"pool_driver": "ceph"}, "nova_lxd_pool_driver of lxd1 is 'ceph'"),
        ({"pool": "a b"}, "nova_lxd_pool of lxd1 is 'a b'"),
        ({"user": " "}, "nova_lxd_user of lxd1 is empty"),
        ({"address": "lxd1"}, "nova_lxd_address of lxd1 is 'lxd1'"),
        ({"tunnel_address": "eth1"}, "nova_lxd_tunnel_address of lxd1 is 'eth1'"),
        ({"physical_networks": ["eth1"]}, "give a dictionary of networks and interfaces"),
        ({"physical_networks": {"provider": "eth1,x:eth2"}}, "has 'provider' on 'eth1,x:eth2'"),
        ({"reserved_memory_mib": -1}, "nova_lxd_reserved_memory_mib of lxd1 is -1"),
        ({"cpu_ratio": 0}, "nova_lxd_cpu_ratio of lxd1 is 0"),
        ({"settings": {"debug": True}}, "must be a dictionary of sections"),
        ({"settings": {"[DEFAULT]": {"debug": True}}}, "give its name without brackets"),
        ({"settings": {"DEFAULT": {"debug": "true\n[lxd]"}}}, "has no usable 'debug' in DEFAULT"),
        ({"settings": {"DEFAULT": {"host": "gpu1.site.org"}}}, "sets host in DEFAULT: leave it out"),
        ({"settings": {"DEFAULT": {"my ip": "1"}}}, "has no usable 'my ip' in DEFAULT"),
    ],
)
def test_each_mistake_is_one_sentence_without_a_secret(change: dict[str, t.Any], said: str) -> None:
    (sentence,) = compute.host_errors({**HOST, **change}, "lxd1")
    assert said in sentence and sentence.endswith(".") and "lxd1" in sentence
    assert SECRET not in sentence


def test_mistakes_of_an_agent_name_its_variables() -> None:
    assert compute.agent_errors({"transport_url": TRANSPORT}, "ctl") == []
    wrong = {"transport_url": "rabbit://ctl", "ca": "x", "tunnel_address": "x", "physical_networks": "eth1"}
    sentences = compute.agent_errors(wrong, "ctl")
    assert [sentence.split(" ")[0] for sentence in sentences] == [f"openstack_linuxbridge_{name}" for name in wrong]


def parsed(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(default_section="none")
    parser.read_string(text)
    return parser


def test_nova_conf() -> None:
    text = compute_conf.nova_conf(HOST, "192.0.2.7", "/etc/nova/ca.pem")
    conf = parsed(text)
    assert text.startswith("# Made by deephdc.accelerators")
    default = dict(conf["DEFAULT"])
    assert (default["my_ip"], default["transport_url"]) == ("192.0.2.7", TRANSPORT)
    assert default["compute_driver"] == "nova_lxd.driver.LXDDriver"
    assert (default["resume_guests_state_on_host_boot"], default["allow_resize_to_same_host"]) == ("true", "true")
    for section in ("placement", "neutron", "service_user"):
        assert (conf[section]["auth_url"], conf[section]["password"], conf[section]["cafile"]) == (
            HOST["auth_url"],
            SECRET,
            "/etc/nova/ca.pem",
        )
    assert conf["glance"]["cafile"] == "/etc/nova/ca.pem"
    assert dict(conf["oslo_messaging_rabbit"]) == {
        "ssl": "true",
        "ssl_ca_file": "/etc/nova/ca.pem",
        "ssl_enforce_hostname_verification": "true",
    }
    assert conf["vnc"]["enabled"] == "false"
    assert {key: conf["lxd"][key] for key in ("timeout", "patience", "start_patience")} == {
        "timeout": "30",
        "patience": "600",
        "start_patience": "60",
    }


def test_the_systems_authorities_count_without_another() -> None:
    """RabbitMQ's certificate is verified only where a file of authorities is given."""
    for text in (compute_conf.nova_conf(HOST, "192.0.2.7"), compute_conf.agent_conf({"transport_url": TRANSPORT}, "192.0.2.7")):
        assert parsed(text)["oslo_messaging_rabbit"]["ssl_ca_file"] == "/etc/ssl/certs/ca-certificates.crt"


def test_an_address_of_the_inventory_counts() -> None:
    assert parsed(compute_conf.nova_conf({**HOST, "address": "192.0.2.8"}, "192.0.2.7"))["DEFAULT"]["my_ip"] == "192.0.2.8"


def test_a_sites_settings_count() -> None:
    settings = {"DEFAULT": {"my_ip": "192.0.2.9", "debug": True}, "pci": {"alias": ["one", "two"]}}
    text = compute_conf.nova_conf({**HOST, "settings": settings}, "192.0.2.7")
    assert text.count("my_ip = ") == 1 and "my_ip = 192.0.2.9\n" in text and "debug = true\n" in text
    assert "[pci]\nalias = one\nalias = two\n" in text


@pytest.mark.parametrize(
    ("given", "written"),
    [("a$b", "a$$b"), ("a b#;c", "a b#;c"), ('"a"', '""a""'), ("'", "'"), ("'a'", "\"'a'\"")],
)
def test_no_password_is_read_as_another(given: str, written: str) -> None:
    """oslo.config replaces $names and takes one pair of quotes away."""
    assert compute_conf.literal(given) == written
    assert f"password = {written}\n" in compute_conf.nova_conf({**HOST, "password": given}, "192.0.2.7")


def test_the_agents_configuration() -> None:
    settings = {"transport_url": TRANSPORT, "physical_networks": {"b": "eth2", "a": "eth1"}, "tunnel_address": "192.0.2.8"}
    conf = parsed(compute_conf.agent_conf(settings, "192.0.2.7", "/etc/neutron/ca.pem"))
    assert conf["DEFAULT"]["transport_url"] == TRANSPORT
    assert conf["experimental"]["linuxbridge"] == "true"
    assert conf["linux_bridge"]["physical_interface_mappings"] == "a:eth1,b:eth2"
    assert conf["vxlan"]["local_ip"] == "192.0.2.8"
    assert conf["securitygroup"]["firewall_driver"] == "iptables"
    assert conf["oslo_messaging_rabbit"]["ssl_ca_file"] == "/etc/neutron/ca.pem"
    assert "physical_interface_mappings =\n" in compute_conf.agent_conf({"transport_url": TRANSPORT}, "192.0.2.7")


def test_results_are_plain_data() -> None:
    assert json.dumps([compute.host_errors({}, "lxd1"), compute_conf.nova_conf(HOST, "192.0.2.7")])
