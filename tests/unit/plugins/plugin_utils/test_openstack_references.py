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
    "projects": [{"name": "physics", "users": {"Ada": ["member"], "admin": ["admin"]}}, {"name": "biology"}],
    "flavors": [{"name": "small", "projects": ["physics", "admin"]}],
    "networks": [NETWORK, OUTSIDE],
    "routers": [ROUTER],
    "physical_networks": {"cable": "eth1"},
}


def test_what_is_there_is_right():
    assert references.errors(CLOUD) == [] == references.errors(DEFAULTS)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"flavors": [{"name": "small", "projects": ["phyiscs"]}]}, "for the project 'phyiscs', which is not there: did you mean physics?"),
        (
            {"projects": [{"name": "physics", "users": {"eve": ["member"]}}]},
            "user 'eve', which is not there: correct it, or add it to openstack_cloud_users.",
        ),
        ({"projects": [{"name": "physics", "users": {"ada": ["membr"]}}]}, "role 'membr', which is not there: did you mean member?"),
        (
            {"networks": [{**NETWORK, "cidr": "10.10.1.5/24"}, OUTSIDE]},
            "'10.10.1.5/24' as cidr, which is an address in a network: write 10.10.1.0/24.",
        ),
        ({"networks": [{**NETWORK, "cidr": "10.10.1"}, OUTSIDE]}, "inside has '10.10.1' as cidr: write a network"),
        ({"networks": [{**NETWORK, "gateway": "10.10.2.1"}, OUTSIDE]}, "inside has 10.10.2.1 as gateway, which is not in 10.10.1.0/24"),
        ({"networks": [{**NETWORK, "dns": ["resolver"]}, OUTSIDE]}, "inside has 'resolver' as dns"),
        (
            {"networks": [NETWORK, {**OUTSIDE, "pool": ["198.51.100.10"]}]},
            "outside has a list as pool: write the first and the last address",
        ),
        ({"networks": [NETWORK, {**OUTSIDE, "pool": ["198.51.100.50", "198.51.100.10"]}]}, "outside has a pool that ends before it begins"),
        ({"networks": [NETWORK, {**OUTSIDE, "physical_network": "cabel"}]}, "network 'cabel', which is not there: did you mean cable?"),
        ({"networks": [{**NETWORK, "project": "chemistry"}, OUTSIDE]}, "inside is for the project 'chemistry', which is not there"),
        ({"routers": [{**ROUTER, "networks": ["insid"]}]}, "r joins the network 'insid', which is not there: did you mean inside?"),
        ({"routers": [{**ROUTER, "external": "inside"}]}, "r leads to the external network 'inside', which is not there"),
    ],
)
def test_what_is_not_there_is_named(change, sentence):
    (found,) = references.errors({**CLOUD, **change})
    assert sentence in str(found)


@pytest.mark.parametrize(("networks", "number"), [([], 0), ([OUTSIDE], 20), ([{**OUTSIDE, "pool": None}], 50), ([NETWORK], 0)])
def test_floating_addresses_are_shared(networks, number):
    assert plan.floating_addresses({**CLOUD, "networks": networks}) == number


def test_calls_that_the_driver_can_not_do_are_refused_to_everybody():
    assert '"os_compute_api:os-rescue": "!"\n' in control_conf.policy()
    assert control_conf.POLICY in control_conf.paths("nova", "nova-api")
    assert control_conf.POLICY not in control_conf.paths("nova", "nova-conductor")
