# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import inventory

FRONT = {"IM_NODE_HOSTNAME": "slurmserver", "IM_NODE_PRIVATE_IP": "10.0.0.2", "ansible_connection": "local", "munge_key": "secret"}
WORKER = {"IM_NODE_HOSTNAME": "gpuwn-1", "IM_NODE_PRIVATE_IP": "10.0.0.3", "ansible_host": "10.0.0.3", "ansible_user": "cloudadm"}
HOSTS = {"10.0.0.2_0": FRONT, "10.0.0.3_1": WORKER}
GROUPS = {"slurm_controllers": "front", "slurm_nodes": "workers"}


@pytest.mark.parametrize(
    ("given", "flat"), [(None, []), ("", []), ("a", ["a"]), ([["a"], ["b", ["c"]], None], ["a", "b", "c"]), ([[None]], [])]
)
def test_addresses_come_in_many_shapes(given, flat):
    assert inventory.flat(given) == flat


def test_only_the_way_to_a_host_comes_over():
    made = inventory.inventory(HOSTS, "10.0.0.2_0", ["10.0.0.3"], GROUPS, {"ansible_user": "root", "ansible_port": 22})
    assert made["all"]["hosts"] == {
        "slurmserver": {"ansible_connection": "local", "ansible_become": True},
        "gpuwn-1": {"ansible_user": "cloudadm", "ansible_port": 22, "ansible_host": "10.0.0.3", "ansible_become": True},
    }
    assert made["all"]["children"]["slurm_nodes"] == {"hosts": {"gpuwn-1": {}}}


def test_a_worker_that_the_run_does_not_know_is_reached_by_its_address():
    front = {"ansible_host": "10.0.0.2", "ansible_user": "root"}
    made = inventory.inventory({"opera": front}, "opera", ["10.0.0.9"], GROUPS, {"ansible_user": "root"})
    assert made["all"]["hosts"] == {"front": front, "wn-10-0-0-9": {"ansible_user": "root", "ansible_host": "10.0.0.9"}}


def test_no_workers_are_no_error():
    assert inventory.inventory(HOSTS, "10.0.0.2_0", [[], []], GROUPS)["all"]["children"]["slurm_nodes"] == {"hosts": {}}


def test_hosts_come_in_pools():
    """As a cluster of Mesos: the front end is the first of three masters."""
    pools = {"masters": [["10.0.0.4"], "10.0.0.5"], "workers": ["10.0.0.3"], "balancers": []}
    groups = {"mesos_masters": ["front", "masters"], "mesos_agents": "workers", "marathon_lb": "balancers"}
    made = inventory.inventory(HOSTS, "10.0.0.2_0", pools, groups)["all"]["children"]
    assert {group: list(one["hosts"]) for group, one in made.items()} == {
        "marathon_lb": [],
        "mesos_agents": ["gpuwn-1"],
        "mesos_masters": ["slurmserver", "wn-10-0-0-4", "wn-10-0-0-5"],
    }


def test_each_host_has_its_address_in_a_variable():
    made = inventory.inventory(HOSTS, "10.0.0.2_0", ["10.0.0.3", "fd00::9"], GROUPS, None, "site_address")["all"]["hosts"]
    addresses = {host: its["site_address"] for host, its in made.items()}
    assert addresses == {"slurmserver": "10.0.0.2", "gpuwn-1": "10.0.0.3", "wn-fd00-9": "fd00::9"}
    # xOpera knows its hosts by what the user wrote, which may be names.
    made = inventory.inventory({"opera": {"ansible_host": "front.site.test"}}, "opera", ["wn.site.test", "10.0.0.3"], {}, None, "its")
    assert [its.get("its") for its in made["all"]["hosts"].values()] == [None, None, "10.0.0.3"]
    assert "" not in inventory.inventory(HOSTS, "10.0.0.2_0", ["10.0.0.3"], GROUPS)["all"]["hosts"]["gpuwn-1"]


@pytest.mark.parametrize(
    ("workers", "groups", "sentence"),
    [
        (["{{ x }}"], GROUPS, "The address '{{ x }}' of a worker is no address"),
        (["10.0.0.3", "10.0.0.3"], GROUPS, "Two hosts are called gpuwn-1"),
        (["10.0.0.2"], GROUPS, "Two hosts are called slurmserver"),
        ([], {"slurm_nodes": "all"}, "tosca_site_groups gives a group to 'all'. Write front or workers."),
        ({"masters": [], "workers": []}, {"mesos_agents": ["slaves"]}, "gives a group to 'slaves'. Write front, masters or workers."),
        ({"masters": ["10.0.0.3"], "workers": ["10.0.0.3"]}, {}, "Two hosts are called gpuwn-1"),
    ],
)
def test_nonsense_is_one_sentence(workers, groups, sentence):
    with pytest.raises(ValueError, match=sentence.replace("{", r"\{").replace("}", r"\}")):
        inventory.inventory(HOSTS, "10.0.0.2_0", workers, groups)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "0.0.0.0",
            "localhost",
            "LOCALHOST",
            "localhost.localdomain",
            "a.localhost",
            "ip6-localhost",
        ),
        *("169.254.169.254", "fe80::1", "224.0.0.1", "2130706433", "0x7f.1", "127.1", "0", "::ffff:127.0.0.1"),
    ],
)
def test_a_worker_is_not_the_machine_of_the_orchestrator(address):
    with pytest.raises(ValueError, match="of a worker is the machine on which the orchestrator runs Ansible"):
        inventory.inventory(HOSTS, "10.0.0.2_0", [address], GROUPS)
    # A manager that knows the host by this address reaches it there.
    known = {**HOSTS, "w": {"ansible_host": address, "IM_NODE_HOSTNAME": "w"}}
    assert "w" in inventory.inventory(known, "10.0.0.2_0", [address], GROUPS)["all"]["hosts"]


@pytest.mark.parametrize("address", ["10.0.0.9", "2001:db8::1", "wn.site.test", "localhost-1", "192.0.2.1"])
def test_a_worker_may_be_another_host(address):
    assert len(inventory.inventory(HOSTS, "10.0.0.2_0", [address], GROUPS)["all"]["hosts"]) == 2
