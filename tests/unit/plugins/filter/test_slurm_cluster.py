# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters of a SLURM cluster, given hostvars and groups as Ansible has them."""

from __future__ import annotations

import base64
import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deephdc.accelerators.plugins.filter.slurm_cluster import FilterModule
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

FILTERS = FilterModule().filters()
GROUPS = {
    "all": ["head", "gpu1", "gpu2"],
    "slurm_controllers": ["head"],
    "slurm_databases": ["head"],
    "slurm_nodes": ["gpu1", "gpu2"],
    "small": ["gpu2"],
}
WANTED = {
    "name": "physics",
    "partitions": [{"name": "batch", "default": True}],
    "settings": {},
    "cloud_nodes": [],
    "cgroup_settings": {},
    "memory_reserve_mib": 1024,
    "accept_hardware": [],
    "untested_platforms": False,
}


class HostVars(dict):
    """Ansible's hostvars, as far as the filters use it."""

    def raw_get(self, host):
        return {key: value for key, value in self[host].items() if key != "ansible_facts"}


def facts(name, number, **changes):
    return {
        "hostname": name,
        "distribution": "Debian",
        "distribution_major_version": "12",
        "default_ipv4": {"address": f"10.0.0.{number}"},
        "memtotal_mb": 64000,
        "processor_count": 1,
        "processor_cores": 16,
        "processor_threads_per_core": 2,
        "processor_vcpus": 32,
        **changes,
    }


@pytest.fixture
def hostvars():
    """A controller and two nodes, whose inventory names are not their own names."""
    return HostVars(
        head={"munge_key": base64.b64encode(bytes(64)).decode(), "ansible_facts": facts("ctl", 1)},
        gpu1={"munge_key": base64.b64encode(bytes(64)).decode(), "ansible_facts": facts("n1", 11, accelerators=[gpu(0), gpu(1)])},
        gpu2={"munge_key": base64.b64encode(bytes(64)).decode(), "ansible_facts": facts("n2", 12, accelerators=[gpu(0)])},
    )


def plan(hostvars, recorded="", groups=None, **changes):
    return FILTERS["slurm_cluster_plan"](hostvars, groups or GROUPS, {**WANTED, **changes}, recorded)


def node_lines(found):
    return [line for line in found["files"]["slurm.conf"].splitlines() if line.startswith("NodeName=")]


def test_plan_uses_the_hosts_own_names_and_addresses(hostvars):
    found = plan(hostvars, partitions=[{"name": "small", "group": "small"}])
    assert found["errors"] == []
    assert found["names"] == {"head": "ctl", "gpu1": "n1", "gpu2": "n2"}
    assert found["controller"] == "10.0.0.1"
    assert [line.split()[:2] for line in node_lines(found)] == [
        ["NodeName=n1", "NodeAddr=10.0.0.11"],
        ["NodeName=n2", "NodeAddr=10.0.0.12"],
    ]
    text = found["files"]["slurm.conf"]
    assert "SlurmctldHost=ctl(10.0.0.1)\n" in text and "AccountingStorageHost=10.0.0.1\n" in text
    assert "PartitionName=small Nodes=n2 " in text
    assert "RealMemory=62976 " in node_lines(found)[0]


def test_variables_of_a_host_come_first(hostvars):
    hostvars["gpu1"].update(slurm_cluster_address="192.168.0.5", slurm_cluster_node_settings={"Weight": 5})
    first = node_lines(plan(hostvars))[0]
    assert "NodeAddr=192.168.0.5 " in first and " Weight=5 " in first


def test_plan_is_plain_data_and_leaves_its_input(hostvars):
    before = json.dumps(hostvars)
    found = plan(hostvars)
    assert json.loads(json.dumps(found)) == found
    assert json.dumps(hostvars) == before


def test_order_of_the_inventory_makes_no_difference(hostvars):
    assert plan(hostvars, groups={**GROUPS, "slurm_nodes": ["gpu2", "gpu1"]})["files"] == plan(hostvars)["files"]


def test_lost_device_and_accepted_hardware(hostvars):
    record = plan(hostvars)["record"]
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(0)]
    assert plan(hostvars, record)["unfit"] == {"n1": "a100 at 0000:02:00.0 (/dev/nvidia1) is missing"}
    for accepted in (["gpu1"], "gpu1", "gpu2, gpu1"):
        found = plan(hostvars, record, accept_hardware=accepted)
        assert found["unfit"] == {} and "Gres=gpu:a100:1 " in node_lines(found)[0]
    assert plan(hostvars, record, accept_hardware=["typo"])["errors"] == [
        "slurm_cluster_accept_hardware names typo, which is not in slurm_nodes."
    ]


def test_text_from_the_command_line_is_converted(hostvars):
    assert plan(hostvars, memory_reserve_mib="1024", untested_platforms="false") == plan(hostvars)
    hostvars["gpu1"]["ansible_facts"]["distribution"] = "Ubuntu"
    assert plan(hostvars, untested_platforms="false")["errors"] != []
    assert plan(hostvars, untested_platforms="yes")["errors"] == []


def test_facts_that_contradict_the_inventory(hostvars):
    hostvars["gpu2"]["ansible_facts"] = facts("n2", 11, accelerators=[])
    assert plan(hostvars)["errors"] == ["The hosts gpu1 and gpu2 have the same address 10.0.0.11: correct one of them."]
    hostvars["gpu2"]["ansible_facts"] = facts("n2", 12, default_ipv4={}, accelerators=[])
    found = plan(hostvars)
    assert found["errors"] == ["The host gpu2 has no default IPv4 address: set slurm_cluster_address for it."]
    assert not any(value for key, value in found.items() if key != "errors")


@pytest.mark.parametrize("missing", ["accelerators", "memtotal_mb"])
def test_facts_of_a_node_that_were_not_read(hostvars, missing):
    del hostvars["gpu2"]["ansible_facts"][missing]
    assert plan(hostvars)["errors"] == [
        "Accelerators and memory of gpu2 were not read: bring it up, or take it out of slurm_nodes, then run again."
    ]


def test_host_that_did_not_answer(hostvars):
    del hostvars["gpu2"]["ansible_facts"]
    (sentence,) = plan(hostvars)["errors"]
    assert sentence.startswith("No facts of gpu2 are known: ")


@pytest.mark.parametrize(
    "record", ["{", "[]", "{}", '{"nodes": []}', '{"nodes": {"n1": "x"}}', '{"nodes": {"n1": [{}]}}', '{"nodes": {"n1": 5}}', "null"]
)
def test_damaged_record_is_one_sentence(hostvars, record):
    with pytest.raises(AnsibleFilterError) as raised:
        plan(hostvars, record)
    assert str(raised.value) == "The record of accelerators on head is damaged: restore or remove it, then run again."


def test_devices_with_one_file_are_one_sentence(hostvars):
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(0), gpu(1, device_files=["/dev/nvidia0"])]
    with pytest.raises(AnsibleFilterError, match=r"^Node n1: The accelerators at .* have the same device file /dev/nvidia0\.$"):
        plan(hostvars)


# --- members without facts ---


def without_facts(hostvars, *in_play):
    return FILTERS["slurm_members_without_facts"](hostvars, GROUPS, list(in_play))


def test_members_outside_of_the_run_whose_facts_are_missing(hostvars):
    assert without_facts(hostvars) == []
    hostvars["head"].pop("ansible_facts")
    hostvars["gpu1"]["ansible_facts"].pop("accelerators")
    hostvars["gpu2"]["ansible_facts"].pop("memtotal_mb")
    assert without_facts(hostvars) == ["head", "gpu1", "gpu2"]
    assert without_facts(hostvars, "gpu2") == ["head", "gpu1"]


def test_controller_needs_no_accelerators(hostvars):
    assert "accelerators" not in hostvars["head"]["ansible_facts"]
    assert without_facts(hostvars, "gpu1", "gpu2") == []


# --- errors of the inventory ---


def inventory_errors(hostvars, here="head", **changes):
    return FILTERS["slurm_inventory_errors"](hostvars, GROUPS, here, {**WANTED, **changes})


def test_errors_of_the_inventory(hostvars):
    assert inventory_errors(hostvars) == []
    hostvars["head"]["ansible_host"] = "{{ inventory_hostname }}.example"
    hostvars["gpu1"]["munge_key"] = ""
    found = inventory_errors(hostvars, settings={"ClusterName": "x"})
    assert [sentence.split(" ")[0] for sentence in found] == ["ansible_host", "munge_key", "slurm_cluster_settings"]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("nonsense", [None, [], "x", 5, True, ["x"], [None], {"x": None}, {"x": "a\nb"}, {1: 2}])
def test_nonsense_is_answered_in_sentences(hostvars, nonsense):
    for variable in ("settings", "cgroup_settings", "partitions"):
        found = inventory_errors(hostvars, **{variable: nonsense})
        for sentence in found:
            assert "\n" not in sentence and f"slurm_cluster_{variable}" in sentence
        assert found
    hostvars["gpu2"]["slurm_cluster_node_settings"] = nonsense
    for sentence in inventory_errors(hostvars):
        assert sentence.startswith("slurm_cluster_node_settings of gpu2 ") and "\n" not in sentence


# --- ssh to nodes, REST ---


def test_operator_who_would_be_locked_out_stops_the_plan(hostvars):
    hostvars["gpu1"]["__slurm_cluster_login"] = {"stdout": "deploy\nusers adm"}
    hostvars["gpu2"]["__slurm_cluster_login"] = {"stdout": "deploy\nusers sudo"}
    wanted = {"node_ssh": "jobs", "node_ssh_groups": ["sudo"]}
    (sentence,) = plan(hostvars, **wanted)["errors"]
    assert sentence.startswith("Ansible logs in to gpu1 as deploy, whom slurm_cluster_node_ssh: jobs would lock out")
    # On a login host users must come in, so nobody is locked out.
    both = plan(hostvars, groups={**GROUPS, "slurm_logins": ["gpu1"]}, **wanted)
    assert (both["errors"], both["guarded"], both["ssh_groups"]) == ([], ["gpu2"], ["sudo"])
    assert plan(hostvars, **{**wanted, "node_ssh": "everyone"})["guarded"] == []


def test_settings_that_access_needs_are_added_to_the_sites(hostvars):
    def settings(**changes):
        return dict(line.split("=", 1) for line in plan(hostvars, **changes)["files"]["slurm.conf"].splitlines() if "=" in line)

    assert settings()["PrologFlags"] == "Alloc" and not {"AuthAltTypes", "AuthAltParameters"} & set(settings())
    groups = {**GROUPS, "slurm_rest": ["head"]}
    theirs = {"PrologFlags": ["Alloc", "Contain"], "AuthAltParameters": "disable_token_creation"}
    found = settings(groups=groups, node_ssh="jobs", settings=theirs)
    assert found["PrologFlags"] == "Alloc,Contain"
    assert found["AuthAltTypes"] == "auth/jwt"
    assert found["AuthAltParameters"] == "jwt_key=/etc/slurm/jwt_hs256.key,disable_token_creation"
