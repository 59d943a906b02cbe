# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that exist only while jobs need them."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import elastic as slurm_elastic
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import partitions as slurm_partitions
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import plan as slurm_plan
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.slurm_examples import cluster, gpus, inventory_groups, node

CLOUD = {"names": "cloud[1-2]", "cpus": 8, "memory_mib": 65536, "gpus": {"a100": 2}, "hook": "/usr/local/sbin/ours"}
SERVER = {"image": "node", "flavor": "gpu.large", "network": "private"}
PARTITIONS = [{"name": "batch", "default": True}, {"name": "burst", "cloud": ["cloud[1-2]"]}]


def planned(partitions=None, settings=None, **more):
    members = [node("gpu1", gpus(1)), node("gpu2", gpus(1))]
    wanted = cluster(partitions=partitions or PARTITIONS, settings=settings or {}, release="24.11")
    return slurm_plan.plan(wanted, members, inventory_groups(members), {}, cloud=slurm_elastic.planned([CLOUD], 1024), **more)


def lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_a_cloud_node_has_the_declared_hardware_and_no_address():
    files = planned()["files"]
    hardware = "CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64512 Gres=gpu:a100:2"
    assert f"NodeName=cloud[1-2] {hardware} State=CLOUD" in files["slurm.conf"].splitlines()
    assert "NodeName=cloud[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]" in files["gres.conf"].splitlines()


def test_the_members_are_never_switched_off():
    text = planned()["files"]["slurm.conf"]
    assert lines(text, "SuspendExcNodes=") == ["SuspendExcNodes=gpu[1-2]"]
    assert lines(text, "SuspendProgram=") == ["SuspendProgram=/usr/local/libexec/deephdc/slurm_suspend"]


def test_a_site_chooses_the_times():
    text = planned(settings={"SuspendTime": 60, "PrivateData": "jobs"})["files"]["slurm.conf"]
    assert lines(text, "SuspendTime=") == ["SuspendTime=60"]
    assert lines(text, "PrivateData=") == ["PrivateData=cloud,jobs"]


def test_without_cloud_nodes_nothing_of_it_is_written():
    members = [node("gpu1", gpus(1))]
    text = slurm_plan.plan(cluster(), members, inventory_groups(members), {})["files"]["slurm.conf"]
    assert not [word for word in ("Suspend", "Resume", "TreeWidth", "PrivateData", "idle_on_node_suspend") if word in text]


def test_cloud_nodes_are_no_members():
    """Nothing of them is recorded as promised, and no probe starts one."""
    plan = planned([{"name": "all", "group": "slurm_nodes", "cloud": ["cloud1", "cloud2"]}, PARTITIONS[1]])
    assert "cloud" not in plan["record"]
    assert sorted(plan["devices"]) == ["gpu1", "gpu2"]
    assert {(probe["partition"], probe["exclude"]) for probe in plan["probes"]} == {("all", "cloud[1-2]")}
    assert lines(plan["files"]["slurm.conf"], "PartitionName=all Nodes=cloud[1-2],gpu[1-2] ")
    assert lines(plan["files"]["slurm.conf"], "PartitionName=burst Nodes=cloud[1-2] ")


def test_a_type_that_only_cloud_nodes_have_is_not_probed():
    members = [node("gpu1", gpus(1))]
    both = [{"name": "all", "group": "slurm_nodes", "cloud": ["cloud1"]}]
    cloud = slurm_elastic.planned([{**CLOUD, "names": "cloud1", "gpus": {"h100": 1}}], 1024)
    found = slurm_plan.plan(cluster(partitions=both, release="24.11"), members, inventory_groups(members), {}, cloud=cloud)
    assert [probe["gres_type"] for probe in found["probes"]] == [None, "a100"]


def test_a_busy_cloud_node_can_not_be_taken_out():
    (error,) = planned(present={"jobs": slurm_jobs.summary("7|ada|burst|cloud[2-3]")})["errors"]
    assert error.startswith("cloud3 runs jobs but is not in slurm_cluster_cloud_nodes any more")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": "cloud[3-1]"}, "runs backwards"),
        ({"names": ""}, "has no names"),
        ({"names": "Cloud1"}, "no host name"),
        ({"names": "cloud[1-2],gpu1"}, "gpu1, which is a host of the inventory"),
        ({"names": "cloud1,cloud1"}, "cloud1, which is named before"),
        ({"cpus": 0}, "whole number from 1 on as cpus"),
        ({"memory_mib": "64 GB"}, "whole number from 1 on as memory_mib"),
        ({"gpus": ["a100"]}, "types and their numbers as gpus"),
        ({"gpus": {"a100": -1}}, "types and their numbers as gpus"),
        ({"gpus": {"A100": 1}}, "types and their numbers as gpus"),
        ({"hook": None}, "has no hook, so nothing could start it"),
        ({"hook": "bin/ours"}, "absolute path"),
        ({"hook": "openstack"}, "needs the key server"),
        ({"hook": "openstack", "server": {**SERVER, "flavor": ""}}, "needs flavor in its server"),
        ({"hook": "openstack", "server": {**SERVER, "size": 3}}, "server has the unknown key 'size' (known: "),
        ({"memory": 5}, "unknown key 'memory' (did you mean memory_mib?)."),
        ({"settings": {"NodeAddr": "10.0.0.1"}}, "sets NodeAddr"),
    ],
)
def test_a_wrong_declaration_is_refused(changes, words):
    (error,) = slurm_elastic.node_errors([{**CLOUD, **changes}], ["head", "gpu1"])
    assert error.startswith("slurm_cluster_cloud_nodes: ")
    assert words in error


def test_a_right_declaration_is_accepted():
    openstack = {**CLOUD, "names": "vm1", "hook": "openstack", "server": SERVER}
    assert slurm_elastic.node_errors([CLOUD, openstack], ["head", "gpu1"]) == []
    declared = slurm_elastic.declared_names([CLOUD, openstack])
    assert slurm_partitions.cloud_errors([{"name": "burst", "cloud": ["cloud[1-2]", "vm1"]}], declared) == []


@pytest.mark.parametrize(
    ("cloud", "words"),
    [
        (["cloud[1-"], "can't be read"),
        (["cloud[1-3]"], "cloud3, which"),
        (["cloud1"], "cloud2 is in no partition"),
    ],
)
def test_a_wrong_partition_is_refused(cloud, words):
    (error,) = slurm_partitions.cloud_errors([{"name": "burst", "cloud": cloud}], slurm_elastic.declared_names([CLOUD]))
    assert words in error


def test_a_sites_own_programs_are_only_refused_beside_cloud_nodes():
    assert slurm_elastic.setting_errors([], {"SuspendProgram": "/usr/local/sbin/ipmi"}) == []
    (error,) = slurm_elastic.setting_errors([CLOUD], {"suspendprogram": "/usr/local/sbin/ipmi"})
    assert "sets suspendprogram" in error
