# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a cloud's objects say of each other is checked before a host is contacted."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack import control_conf, plan, references
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._openstack.settings import DEFAULTS

NETWORK = {"name": "inside", "cidr": "10.10.1.0/24", "project": "physics", "dns": ["192.0.2.1"], "gateway": "10.10.1.1"}
POOL = ["198.51.100.10", "198.51.100.50"]
OUTSIDE = {"name": "outside", "cidr": "198.51.100.0/24", "external": True, "physical_network": "cable", "pool": POOL}
ROUTER = {"name": "r", "project": "physics", "external": "outside", "networks": ["inside"]}
CLOUD: dict[str, t.Any] = {
    **DEFAULTS,
    "users": [{"name": "ada", "password": "x"}],
    "projects": [{"name": "physics", "users": {"ada": ["member"], "admin": ["admin"]}}, {"name": "biology"}],
    "flavors": [{"name": "small", "projects": ["physics", "admin"]}],
    "networks": [NETWORK, OUTSIDE],
    "routers": [ROUTER],
    "physical_networks": {"cable": "eth1"},
}


def said(change: dict[str, t.Any]) -> str:
    """The one mistake of a cloud with a change."""
    changed = {**CLOUD, **change}
    (found,) = references.errors(changed) or references.new_errors(changed)
    return str(found)


def test_what_is_there_is_right():
    for cloud in (CLOUD, DEFAULTS):
        assert references.errors(cloud) == [] == references.new_errors(cloud)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"flavors": [{"name": "small", "projects": ["phyiscs"]}]}, "for the project 'phyiscs', which is not there: did you mean physics?"),
        (
            {"projects": [{"name": "physics", "users": {"eve": ["member"]}}]},
            "user 'eve', which is not there: correct it, or add it to openstack_cloud_users.",
        ),
        ({"projects": [{"name": "physics", "users": {"Ada": ["member"]}}]}, "user 'Ada', which is not there: did you mean ada?"),
        ({"projects": [{"name": "physics", "users": {"ada": ["membr"]}}]}, "role 'membr', which is not there: did you mean member?"),
        ({"networks": [{**NETWORK, "project": "chemistry"}, OUTSIDE]}, "inside is for the project 'chemistry', which is not there"),
        ({"routers": [{**ROUTER, "networks": ["insid"]}]}, "r joins the network 'insid', which is not there: did you mean inside?"),
        ({"routers": [{**ROUTER, "networks": ["Inside"]}]}, "r joins the network 'Inside', which is not there: did you mean inside?"),
        ({"routers": [{**ROUTER, "external": "inside"}]}, "r leads to the external network 'inside', which is not there"),
    ],
)
def test_what_the_inventory_lacks_is_named_for_a_new_cloud(change, sentence):
    assert sentence in said(change) and references.errors({**CLOUD, **change}) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cidr": "10.10.1.5/24"}, "inside has '10.10.1.5/24' as cidr, which is not a network in its usual form: write 10.10.1.0/24."),
        ({"cidr": "10.10.1.0/255.255.255.0"}, "which is not a network in its usual form: write 10.10.1.0/24."),
        ({"cidr": "10.10.1"}, "inside has '10.10.1' as cidr: write a network"),
        ({"cidr": "fd00::/64", "gateway": None}, "inside has 'fd00::/64' as cidr: write a network of IPv4"),
        ({"gateway": "fd00::1"}, "inside has 'fd00::1' as gateway: write an address of IPv4"),
        ({"dns": ["resolver"]}, "inside has 'resolver' as dns"),
        ({"dns": "192.0.2.1"}, "inside has '192.0.2.1' as dns: write a list, such as [192.0.2.1]"),
        ({"dns": [None]}, "inside has None as dns"),
        ({"pool": ["10.10.1.10"]}, "inside has 1 addresses as pool: write the first and the last one"),
        ({"pool": ["10.10.1.10", ""]}, "inside has '' as pool: write an address of IPv4"),
        ({"pool": "10.10.1.10-10.10.1.50"}, "inside has '10.10.1.10-10.10.1.50' as pool: write a list"),
        ({"pool": ["10.10.1.10", "10.10.2.50"]}, "inside has a pool that is not within 10.10.1.0/24"),
        ({"pool": ["10.10.1.10", "10.10.1.255"]}, "inside has a pool that is not within 10.10.1.0/24"),
        ({"pool": ["10.10.1.1", "10.10.1.50"], "gateway": None}, "inside has its gateway 10.10.1.1 in its pool"),
        ({"pool": ["10.10.1.50", "10.10.1.10"]}, "inside has a pool that ends before it begins"),
        ({"physical_network": "cabel"}, "network 'cabel', which is not there: did you mean cable?"),
    ],
)
def test_addresses_that_can_not_be_are_named(change, sentence):
    assert sentence in said({"networks": [{**NETWORK, **change}, OUTSIDE]})


def test_networks_that_are_there_are_not_read_again():
    """Another mapping of physical networks, a subnet of IPv6 and a pool may be made by hand."""
    networks = [{**NETWORK, "cidr": "fd00::/64", "gateway": "fd00::1"}, {**OUTSIDE, "pool": ["198.51.100.0", "198.51.100.255"]}]
    assert references.errors({**CLOUD, "networks": networks, "physical_networks": {1: "eth1"}}) == []


def test_a_text_in_place_of_a_list_is_named_and_not_read_letter_by_letter():
    cloud = {**CLOUD, "flavors": [{"name": "small", "projects": "physics"}], "routers": [{**ROUTER, "networks": "inside"}]}
    assert [str(one).partition(": ")[2] for one in references.errors(cloud)] == [
        "small has 'physics' as projects: write a list, such as [physics].",
        "r has 'inside' as networks: write a list, such as [inside].",
    ]


def test_a_gateway_may_be_outside_as_neutron_takes_it():
    assert references.errors({**CLOUD, "networks": [{**NETWORK, "gateway": "192.0.2.1"}, OUTSIDE]}) == []


@pytest.mark.parametrize(
    ("networks", "number"),
    [([], 50), ([NETWORK], 50), ([OUTSIDE], 40), ([{**OUTSIDE, "pool": None}], 50), ([OUTSIDE, {**OUTSIDE, "cidr": "fd00::/64"}], 50)],
)
def test_floating_addresses_are_no_more_than_there_are(networks, number):
    """Of 41 addresses one is the router's."""
    assert plan.floating_addresses({**CLOUD, "networks": networks}) == number


def test_calls_that_the_driver_can_not_do_are_refused_to_everybody():
    assert control_conf.policy().splitlines()[-4:] == [
        '"os_compute_api:os-rescue": "!"',
        '"os_compute_api:os-suspend-server:suspend": "!"',
        '"os_compute_api:servers:trigger_crash_dump": "!"',
        '"os_compute_api:os-unrescue": "rule:project_member_or_admin"',
    ]
    assert control_conf.POLICY in control_conf.paths("nova", "nova-api")
    assert control_conf.POLICY not in control_conf.paths("nova", "nova-conductor")
