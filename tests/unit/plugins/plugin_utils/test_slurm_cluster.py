# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The files of a SLURM cluster, computed from its hosts."""

from __future__ import annotations

import gc
import hashlib
import json
import pathlib
import random
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._model.units import units
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.hostlist import expand
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import conf as slurm_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import plan as slurm_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import planned_nodes as slurm_planned_nodes
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import settings as slurm_settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.slurm_examples import cluster, gpus, inventory_groups, node
from hypothesis import given
from hypothesis import strategies as st

# What names alone would not show: scripts/narrow.py.
READS = ("roles/slurm_database", "roles/slurm_rest")


def plan(nodes, recorded=None, groups=None, **changes):
    return slurm_plan.plan(cluster(**changes), nodes, groups or inventory_groups(nodes), recorded or {})


def recorded(of):
    return json.loads(of["record"].splitlines()[-1])["nodes"]


def lines(of, start, file="slurm.conf"):
    return [line for line in of["files"][file].splitlines() if line.startswith(start)]


def settings(of, file="slurm.conf"):
    pairs = [
        line.split("=", 1)
        for line in of["files"][file].splitlines()
        if "=" in line and not line.startswith(("#", "NodeName=", "PartitionName="))
    ]
    assert len({key.lower() for key, _value in pairs}) == len(pairs), "a setting stands there twice"
    return dict(pairs)


def fields(line):
    """The keys of a node or partition line; none may stand there twice."""
    pairs = [word.split("=", 1) for word in line.split(" ")]
    assert len({key.lower() for key, _value in pairs}) == len(pairs)
    return dict(pairs)


# --- hardware ---


def facts(**changes):
    topology = {"processor_count": 2, "processor_cores": 16, "processor_threads_per_core": 2, "processor_vcpus": 64}
    return {**topology, "memtotal_mb": 257000, **changes}


def test_topology_and_memory_come_from_the_facts():
    assert slurm_conf.hardware(facts(), 1024) == {"cpus": 64, "sockets": 2, "cores": 16, "threads": 2, "memory": 255744}


@pytest.mark.parametrize(
    "told",
    [
        {"processor_vcpus": 6},
        {"processor_vcpus": 6, "processor_count": 0, "processor_cores": None},
        {"processor_vcpus": None, "processor_nproc": 6},
    ],
)
def test_cpus_without_a_matching_topology_are_one_socket_of_cores(told):
    found = slurm_conf.hardware(facts(**told), 0)
    assert (found["cpus"], found["sockets"], found["cores"], found["threads"]) == (6, 1, 6, 1)


def test_without_a_cpu_count_the_topology_tells_it():
    assert slurm_conf.hardware({"memtotal_mb": 900, "processor_cores": 4}, 0)["cpus"] == 4


@given(total=st.integers(1, 10**7), reserve=st.integers(0, 10**5))
def test_memory_is_a_multiple_of_256_that_the_host_has(total, reserve):
    memory = slurm_conf.hardware(facts(memtotal_mb=total), reserve)["memory"]
    assert memory % 256 == 0 and memory >= 256
    assert memory == 256 or total - reserve - 256 < memory <= total - reserve


# --- node lines ---


def test_equal_hosts_share_a_line():
    nodes = [node(f"gpu{number}", gpus(2)) for number in (1, 2, 3, 10)] + [node("cpu1")]
    found = lines(plan(nodes), "NodeName=")
    assert [fields(line)["NodeName"] for line in found] == ["cpu1", "gpu[1-3,10]"]
    assert fields(found[1]) == {
        "NodeName": "gpu[1-3,10]",
        "NodeAddr": "10.0.0.[1-3,10]",
        "CPUs": "64",
        "Boards": "1",
        "SocketsPerBoard": "2",
        "CoresPerSocket": "16",
        "ThreadsPerCore": "2",
        "RealMemory": "512000",
        "Gres": "gpu:a100:2",
        "State": "UNKNOWN",
    }
    assert "Gres" not in fields(found[0])


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}", fullmatch=True),
        st.tuples(st.ip_addresses(v=4).map(str), st.integers(0, 2)),
        min_size=1,
        max_size=30,
    )
)
def test_names_and_addresses_of_a_line_stay_paired(hosts):
    nodes = [node(name, gpus(count), address=address) for name, (address, count) in hosts.items()]
    pairs = {}
    for line in lines(plan(nodes), "NodeName="):
        names, addresses = expand(fields(line)["NodeName"]), expand(fields(line)["NodeAddr"])
        assert len(names) == len(addresses)
        pairs.update(zip(names, addresses))
    assert pairs == {name: address for name, (address, _count) in hosts.items()}


def test_settings_of_a_node_are_on_its_line_and_replace_ours():
    found = lines(
        plan([node("gpu1", settings={"Features": ["fast", "big"], "realmemory": 1000, "State": "FUTURE"}), node("gpu2")]), "NodeName="
    )
    first = fields(found[0])
    assert (first["Features"], first["realmemory"], first["State"]) == ("fast,big", "1000", "FUTURE")
    assert fields(found[1])["RealMemory"] == "512000"


def test_names_are_in_natural_order_whatever_is_in_them():
    names = ["n10", "n2", "n02", "m1"]
    nodes = [node(name, []) for name in names]
    order = expand(fields(lines(plan(nodes), "NodeName=")[0])["NodeName"])
    assert order == expand(fields(lines(plan(nodes[::-1]), "NodeName=")[0])["NodeName"])
    assert order.index("m1") < order.index("n2") < order.index("n10")


# --- partitions ---


def test_partition_of_a_type_has_the_nodes_that_have_it():
    nodes = [node("gpu1", gpus(1)), node("gpu2", gpus(1, type="t4")), node("gpu3", gpus(1) + [gpu(5, type="t4")]), node("cpu1")]
    partitions = [{"name": "all", "default": True}, {"name": "t4", "gpu_types": ["t4"]}, {"name": "any", "gpu_types": ["a100", "t4"]}]
    found = [fields(line) for line in lines(plan(nodes, partitions=partitions), "PartitionName=")]
    assert [one["Nodes"] for one in found] == ["cpu1,gpu[1-3]", "gpu[2-3]", "gpu[1-3]"]
    assert [one.get("Default") for one in found] == ["YES", None, None]
    assert {(one["MaxTime"], one["DefaultTime"], one["State"]) for one in found} == {("7-00:00:00", "01:00:00", "UP")}


def test_partition_of_a_group_and_its_own_values():
    nodes = [node("gpu1", memory=64000), node("gpu2")]
    partitions = [
        {"name": "big", "group": "big", "max_time": "02:00:00", "default_time": "10", "settings": {"State": "DOWN", "OverSubscribe": False}}
    ]
    groups = inventory_groups(nodes, big=["gpu2"])
    (found,) = (fields(line) for line in lines(plan(nodes, partitions=partitions, groups=groups), "PartitionName="))
    assert found == {
        "PartitionName": "big",
        "Nodes": "gpu2",
        "MaxTime": "02:00:00",
        "DefaultTime": "10",
        "DefMemPerCPU": "8000",
        "OverSubscribe": "NO",
        "State": "DOWN",
    }


@pytest.mark.parametrize("key", ["DefMemPerCPU", "defmempernode", "DefMemPerGPU"])
def test_memory_per_job_is_left_to_the_site_that_sets_it(key):
    by_partition = plan([node("gpu1")], partitions=[{"name": "batch", "settings": {key: 100}}])
    assert [word for word in lines(by_partition, "PartitionName=")[0].split() if word.lower().startswith("defmem")] == [f"{key}=100"]
    by_cluster = plan([node("gpu1")], settings={key: 100})
    assert "DefMem" not in lines(by_cluster, "PartitionName=")[0]
    assert settings(by_cluster)[key] == "100"


def test_memory_per_cpu_fits_the_smallest_node():
    found = plan([node("gpu1"), node("gpu2", memory=6400)])
    assert fields(lines(found, "PartitionName=")[0])["DefMemPerCPU"] == "100"


def test_unknown_type_is_refused_by_partition_and_names_what_there_is():
    found = plan([node("gpu1", gpus(1)), node("gpu2", gpus(1, type="t4"))], partitions=[{"name": "fast", "gpu_types": ["h100"]}])
    assert found["errors"] == [
        "slurm_cluster_partitions: partition fast asks for GPU type h100, which none of the nodes gpu[1-2] has; they have a100, t4."
    ]
    assert not any(found[key] for key in ("files", "record", "unfit", "devices", "probes", "copies"))


def test_type_without_any_gpu_and_partition_without_nodes():
    (sentence,) = plan([node("cpu1")], partitions=[{"name": "fast", "gpu_types": ["a100"]}])["errors"]
    assert sentence.endswith("they have no GPU that SLURM can schedule.")
    nodes = [node("gpu1", gpus(1)), node("cpu1")]
    found = plan(nodes, partitions=[{"name": "old", "group": "old", "gpu_types": ["a100"]}], groups=inventory_groups(nodes, old=["cpu1"]))
    assert found["errors"] == ["slurm_cluster_partitions: partition old has no nodes."]


# --- GPUs ---


def test_each_instance_of_a_mig_gpu_is_a_gres_of_its_own():
    found = plan([node("gpu1", [mig_gpu(0, ["1g.10gb", "1g.10gb", "3g.40gb"]), gpu(1)])])
    assert fields(lines(found, "NodeName=")[0])["Gres"] == "gpu:a100:1,gpu:a100_1g.10gb:2,gpu:a100_3g.40gb:1"
    assert len(lines(found, "NodeName=", "gres.conf")) == 4
    assert settings(found)["AccountingStorageTRES"] == "gres/gpu,gres/gpu:a100,gres/gpu:a100_1g.10gb,gres/gpu:a100_3g.40gb"
    assert [probe["gres_type"] for probe in found["probes"]] == [None, "a100", "a100_1g.10gb", "a100_3g.40gb"]
    assert [device["gres_type"] for device in found["devices"]["gpu1"]] == ["a100_1g.10gb", "a100_1g.10gb", "a100_3g.40gb", "a100"]


def test_cluster_without_gpus_configures_none():
    found = plan([node("cpu1")])
    assert not {"GresTypes", "AccountingStorageTRES"} & set(settings(found))
    assert found["files"]["gres.conf"] == slurm_conf.HEADER + "AutoDetect=off\n"


def test_device_without_a_driver_is_a_warning_not_a_gres():
    found = plan([node("gpu1", [gpu(0), gpu(1, driver=None)])])
    assert fields(lines(found, "NodeName=")[0])["Gres"] == "gpu:a100:1"
    (warning,) = found["warnings"]
    assert warning.startswith("gpu1: NVIDIA A100-SXM4-40GB at 0000:02:00.0 is not scheduled: ") and "driver" in warning
    assert found["unfit"] == {}


def test_two_devices_with_one_file_name_the_node():
    with pytest.raises(ValueError, match=r"^Node gpu1: The accelerators at 0000:01:00.0 and 0000:02:00.0 have the same device file"):
        plan([node("gpu1", [gpu(0), gpu(1, device_files=["/dev/nvidia0"])])])


# --- devices that are gone ---


def test_lost_device_stays_configured_is_named_and_comes_back():
    whole = plan([node("gpu1", gpus(4)), node("gpu2", gpus(4))])
    left = [device for device in gpus(4) if device["index"] != 1]
    hurt = plan([node("gpu1", left), node("gpu2", gpus(4))], recorded(whole))
    assert hurt["unfit"] == {"gpu1": "a100 at 0000:02:00.0 (/dev/nvidia1) is missing"}
    assert hurt["files"] == whole["files"]
    assert hurt["record"] == whole["record"]
    assert hurt["devices"] == whole["devices"]
    healed = plan([node("gpu1", gpus(4)), node("gpu2", gpus(4))], recorded(hurt))
    assert healed["unfit"] == {}
    assert (healed["files"], healed["record"]) == (whole["files"], whole["record"])


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        ({"driver": None}, "no kernel driver is bound to it"),
        ({"driver": "vfio-pci"}, "reserved for virtual machines"),
        ({"device_files": []}, "there is no device file in /dev"),
        ({"health": [{"problem": "fallen_off_bus", "message": "gone"}]}, "it has fallen off the bus"),
    ],
)
def test_device_that_cannot_be_scheduled_any_more_is_lost_and_says_why(damage, cause):
    whole = plan([node("gpu1", gpus(2))])
    hurt = plan([node("gpu1", [gpu(0), gpu(1, **damage)])], recorded(whole))
    assert hurt["unfit"]["gpu1"].startswith("a100 at 0000:02:00.0 (/dev/nvidia1) is missing for jobs: ")
    assert cause in hurt["unfit"]["gpu1"]
    assert hurt["files"] == whole["files"] and hurt["warnings"] == []


def test_lost_device_of_a_model_without_a_type_keeps_its_type():
    unnamed = [gpu(number, type=None) for number in (0, 1)]
    whole = plan([node("gpu1", unnamed)])
    assert plan([node("gpu1", unnamed[:1])], recorded(whole))["files"] == whole["files"]


def test_device_files_numbered_anew_after_a_loss():
    """The driver numbers the remaining devices from 0.

    The lost one's file is another's then.
    """
    whole = plan([node("gpu1", gpus(4))])
    left = [gpu(number, device_files=[f"/dev/nvidia{number - 1}"]) for number in (1, 2, 3)]
    hurt = plan([node("gpu1", left)], recorded(whole))
    assert hurt["errors"] == []
    assert hurt["unfit"] == {"gpu1": "a100 at 0000:01:00.0 (/dev/nvidia0) is missing"}
    assert [(one["pci_address"], one["files"]) for one in hurt["devices"]["gpu1"]] == [
        ("0000:01:00.0", ["/dev/nvidia3"]),
        ("0000:02:00.0", ["/dev/nvidia0"]),
        ("0000:03:00.0", ["/dev/nvidia1"]),
        ("0000:04:00.0", ["/dev/nvidia2"]),
    ]
    again = plan([node("gpu1", left)], recorded(hurt))
    assert again["files"] == hurt["files"] and again["record"] == hurt["record"]
    assert plan([node("gpu1", gpus(4))], recorded(again))["files"] == whole["files"]


@given(present=st.sets(st.integers(0, 7)), moved=st.booleans())
def test_whatever_is_lost_no_two_devices_have_one_file(present, moved):
    whole = plan([node("gpu1", gpus(8))])
    left = [gpu(number, device_files=[f"/dev/nvidia{position if moved else number}"]) for position, number in enumerate(sorted(present))]
    hurt = plan([node("gpu1", left)], recorded(whole))
    assert fields(lines(hurt, "NodeName=")[0])["Gres"] == "gpu:a100:8"
    assert len({path for one in hurt["devices"]["gpu1"] for path in one["files"]}) == 8
    assert ("gpu1" in hurt["unfit"]) == (len(present) < 8)


def test_lost_mig_gpu_keeps_its_instances_apart_from_the_others():
    whole = plan([node("gpu1", [mig_gpu(0, ["1g.10gb"]), mig_gpu(1, ["1g.10gb"])])])
    left = mig_gpu(0, ["1g.10gb"], pci_address="0000:02:00.0")  # the second one, numbered as the first was
    hurt = plan([node("gpu1", [left])], recorded(whole))
    assert fields(lines(hurt, "NodeName=")[0])["Gres"] == "gpu:a100_1g.10gb:2"
    files = [path for one in hurt["devices"]["gpu1"] for path in one["files"]]
    assert len(files) == len(set(files))


def test_mig_layout_that_nobody_tells_this_time_stays_as_recorded():
    """As when nvidia-smi hangs: without it the driver's files show a whole GPU."""
    whole = plan([node("gpu1", [mig_gpu(0, ["1g.10gb", "2g.20gb"])])])
    silent = gpu(0, mig={"capable": None, "enabled": None, "devices": []}, health=[{"problem": "nvidia_smi_timeout", "message": "silence"}])
    now = plan([node("gpu1", [silent])], recorded(whole))
    assert (now["files"], now["record"], now["unfit"]) == (whole["files"], whole["record"], {})
    assert now["warnings"] == ["gpu1: silence"]


def test_mig_instance_that_is_gone_is_a_loss():
    whole = plan([node("gpu1", [mig_gpu(0, ["1g.10gb", "1g.10gb"])])])
    hurt = plan([node("gpu1", [mig_gpu(0, ["1g.10gb"])])], recorded(whole))
    assert fields(lines(hurt, "NodeName=")[0])["Gres"] == "gpu:a100_1g.10gb:2"
    assert "it has no a100_1g.10gb any more" in hurt["unfit"]["gpu1"]


def running(*lines):
    """What slurmctld has now: the partition batch, and jobs as squeue prints them."""
    return {"partitions": ["batch"], "jobs": slurm_jobs.summary("\n".join(lines))}


def replanned(nodes, whole, present, **changes):
    return slurm_plan.plan({**cluster(), **changes}, nodes, inventory_groups(nodes), recorded(whole), present)["errors"]


def test_node_that_leaves_with_jobs_on_it_is_refused():
    whole = plan([node("gpu1", gpus(1)), node("gpu2", gpus(1))])
    nodes = [node("gpu1", gpus(1))]
    jobs = running(*(f"{number}|ada|batch|gpu2" for number in (7, 8, 9, 10)))
    assert replanned(nodes, whole, jobs) == [
        "gpu2 runs jobs but is not in slurm_nodes any more, which would end jobs 7 of ada, 8 of ada, 9 of ada and 1 more: put it back and "
        "wait for them (playbook slurm_drain), or name gpu2 in slurm_cluster_end_jobs_in."
    ]
    assert replanned(nodes, whole, running("7|ada|batch|gpu1")) == []
    assert replanned(nodes, whole, jobs, end_jobs_in="gpu2") == [], "text, as from the command line"
    assert replanned(nodes, whole, {**jobs, "leaving": ["gpu2"]}) == [], "slurm_remove_node waits for them itself"


def test_partition_that_leaves_with_jobs_in_it_is_refused():
    """One letter missing in slurm_cluster_partitions ended every job of the cluster."""
    whole = plan([node("gpu1", gpus(1))])
    nodes = [node("gpu1", gpus(1))]
    present = {**running("7|ada|debug|gpu1", "8|bob|batch,debug|"), "partitions": ["batch", "debug"]}
    (sentence,) = replanned(nodes, whole, present)
    assert sentence == (
        "The partition debug is not in slurm_cluster_partitions any more, which would end jobs 7 of ada, 8 of bob: put it back and wait "
        "for them (scontrol update PartitionName=debug State=DRAIN), or name debug in slurm_cluster_end_jobs_in."
    )
    assert replanned(nodes, whole, present, end_jobs_in=["debug"]) == []
    assert replanned(nodes, whole, {**running("7|ada|batch|gpu1"), "partitions": ["batch", "debug"]}) == [], "an empty one may go"


def test_a_confirmation_that_is_left_over_is_refused():
    whole = plan([node("gpu1", gpus(1))])
    (sentence,) = replanned([node("gpu1", gpus(1))], whole, running(), end_jobs_in=["batch"])
    assert sentence.startswith("slurm_cluster_end_jobs_in names batch, a partition that stays: remove it there")


def test_a_cloud_node_that_goes_is_closed_first():
    """The record has members alone, slurmctld's configuration all nodes."""
    whole = plan([node("gpu1", gpus(1))])
    shapes = {name: {"sockets": "1"} for name in ("gpu1", "cloud7")}
    present = {**running(), "shapes": {"cloud7": shapes["cloud7"]}}
    nodes = [node("gpu1", gpus(1))]
    assert replanned(nodes, whole, present) == []
    found = slurm_plan.plan(cluster(), nodes, inventory_groups(nodes), recorded(whole), present)
    assert found["nodes_going"] == ["cloud7"]
    (sentence,) = replanned(nodes, whole, {**present, "jobs": None, "partitions": []})
    assert sentence.startswith("cloud7 is not in slurm_cluster_cloud_nodes any more, and slurmctld does not answer")


def test_required_gpus_are_those_that_are_there():
    """A lost one stays promised, and was counted."""
    whole = plan([node("gpu1", gpus(2))])
    (sentence,) = replanned([node("gpu1", gpus(1))], whole, running(), required_gpus=2)
    assert sentence.startswith("slurm_cluster_required_gpus is 2, but SLURM can give 1 GPUs to jobs.")
    assert replanned([node("gpu1", gpus(2))], whole, running(), required_gpus=2) == []


def test_nothing_is_taken_away_while_slurmctld_does_not_answer():
    whole = plan([node("gpu1", gpus(1)), node("gpu2", gpus(1))])
    nodes = [node("gpu1", gpus(1))]
    silent = {"partitions": ["batch", "debug"], "jobs": None}
    of_node, of_partition = replanned(nodes, whole, silent)
    assert "it is not known whether it runs jobs: start slurmctld, or put gpu2 back" in of_node
    assert "nobody knows whether jobs are in it: start slurmctld, or put debug back" in of_partition
    assert replanned(nodes, whole, silent, end_jobs_in=["gpu2", "debug"]) == []


def test_gpus_that_change_under_a_job_are_refused():
    whole = plan([node("gpu1", gpus(2))])
    nodes = [node("gpu1", gpus(1))]
    present = running("7|ada|batch|gpu1")
    (sentence,) = replanned(nodes, whole, present, accept_hardware=["gpu1"])
    assert sentence.startswith("Node gpu1 would change from gpu:a100:2 to gpu:a100:1 while job 7 of ada is on it, and SLURM may end that: ")
    assert replanned(nodes, whole, present, accept_hardware=["gpu1"], end_jobs_in=["gpu1"]) == []
    assert replanned(nodes, whole, present) == [], "a lost device stays promised, so nothing changes"
    assert replanned(nodes, whole, running(), accept_hardware=["gpu1"]) == []


def test_first_gpu_of_a_cluster_restarts_every_slurmd():
    """Its GresPlugins are read once: a cluster without a GPU that got its first one was stuck."""
    assert plan([node("cpu1", [])])["gres_kinds"] == []
    assert plan([node("cpu1", []), node("gpu1", gpus(1))])["gres_kinds"] == ["gpu"]


def test_device_in_another_slot_is_a_loss_and_a_device():
    whole = plan([node("gpu1", gpus(1))])
    hurt = plan([node("gpu1", [gpu(0, pci_address="0000:c1:00.0")])], recorded(whole))
    assert hurt["unfit"] == {"gpu1": "a100 at 0000:01:00.0 (/dev/nvidia0) is missing"}
    assert fields(lines(hurt, "NodeName=")[0])["Gres"] == "gpu:a100:2"


def test_accepted_hardware_replaces_the_record():
    whole = plan([node("gpu1", gpus(4))])
    smaller = plan([node("gpu1", gpus(3))], recorded(whole), accept_hardware=["gpu1"])
    assert smaller["unfit"] == {}
    assert fields(lines(smaller, "NodeName=")[0])["Gres"] == "gpu:a100:3"
    assert len(recorded(smaller)["gpu1"]) == 3
    assert plan([node("gpu1", gpus(3))], recorded(smaller))["files"] == smaller["files"]


def test_sick_device_drains_its_node_but_a_hung_tool_does_not():
    problem = {"problem": "ecc_uncorrectable", "message": "3 uncorrectable memory errors"}
    tool = {"problem": "nvidia_smi_timeout", "message": "nvidia-smi gave no answer"}
    found = plan([node("gpu1", [gpu(0, health=[problem]), gpu(1)]), node("gpu2", [gpu(0, health=[tool])])])
    assert found["unfit"] == {"gpu1": "a100 at 0000:01:00.0 (/dev/nvidia0): 3 uncorrectable memory errors"}
    assert found["warnings"] == ["gpu2: nvidia-smi gave no answer"]


def test_no_probe_goes_to_a_node_that_is_unfit():
    whole = plan([node("gpu1", gpus(1)), node("gpu2", gpus(1, type="t4"))])
    hurt = plan([node("gpu1"), node("gpu2", gpus(1, type="t4"))], recorded(whole))
    assert [probe["gres_type"] for probe in whole["probes"]] == [None, "a100", "t4"]
    assert [probe["gres_type"] for probe in hurt["probes"]] == [None, "t4"]


def test_node_that_left_the_inventory_leaves_the_record():
    whole = plan([node("gpu1", gpus(1)), node("gpu2", gpus(1))])
    assert list(recorded(plan([node("gpu2", gpus(1))], recorded(whole)))) == ["gpu2"]


NODES = [
    node("gpu1", gpus(8)),
    node("gpu2", [mig_gpu(0, ["1g.10gb", "3g.40gb"]), gpu(1)]),
    node("gpu3", [amd(0), amd(1)]),
    node("gpu4", [gpu(0, type=None), gpu(1, driver="nouveau")]),
    node("gpu11", gpus(8)),
    node("cpu1"),
]


def test_record_is_stable():
    first = plan(NODES)
    second = plan(NODES, recorded(first))
    assert second == first
    empty = [dict(one, accelerators=[]) for one in NODES]
    assert plan(empty, recorded(first))["files"] == first["files"], "all that was promised can be configured from the record alone"
    assert plan(empty, recorded(first))["record"] == first["record"]


def test_order_of_the_inventory_makes_no_difference():
    first = plan(NODES)
    for seed in range(5):
        shuffled = random.Random(seed).sample(NODES, len(NODES))
        assert plan(shuffled) == first


def test_input_is_left_as_it_is():
    before = json.dumps(NODES)
    plan(NODES, recorded(plan(NODES)))
    assert json.dumps(NODES) == before


# --- settings ---


def test_settings_of_the_site_override_defaults_in_any_letter_case():
    found = settings(
        plan([node("gpu1")], settings={"returntoservice": 1, "MaxJobCount": 20000, "PrivateData": ["jobs", "usage"], "UsePAM": True})
    )
    assert found["returntoservice"] == "1" and "ReturnToService" not in found
    assert (found["MaxJobCount"], found["PrivateData"], found["UsePAM"]) == ("20000", "jobs,usage", "YES")
    assert found["EnforcePartLimits"] == "ALL"


def test_lists_that_both_need_are_merged():
    theirs = {"slurmctldparameters": ["max_dbd_msg_action=exit", "enable_configless"], "AccountingStorageTRES": "license/matlab,gres/gpu"}
    found = settings(plan([node("gpu1", gpus(1))], settings=theirs))
    assert found["SlurmctldParameters"] == "enable_configless,max_dbd_msg_action=exit"
    assert found["AccountingStorageTRES"] == "gres/gpu,gres/gpu:a100,license/matlab"
    assert (
        settings(plan([node("cpu1")], settings={"AccountingStorageTRES": ["license/matlab"]}))["AccountingStorageTRES"] == "license/matlab"
    )


def test_controller_database_and_cgroup():
    found = plan([node("gpu1")], cgroup_settings={"AllowedRAMSpace": 98, "ConstrainSwapSpace": True})
    ours = settings(found)
    assert (ours["SlurmctldHost"], ours["AccountingStorageHost"], ours["ClusterName"]) == ("head(10.255.0.1)", "10.255.0.2", "physics")
    assert settings(found, "cgroup.conf") == {
        "ConstrainCores": "yes",
        "ConstrainDevices": "yes",
        "ConstrainRAMSpace": "yes",
        "AllowedRAMSpace": "98",
        "ConstrainSwapSpace": "YES",
    }


def test_copies_are_the_digests_of_the_files():
    found = plan([node("gpu1", gpus(1))])
    assert found["copies"] == {
        f"/var/lib/slurm/slurmd/conf-cache/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in found["files"].items()
    }
    assert set(found["files"]) == {"slurm.conf", "gres.conf", "cgroup.conf"}


@pytest.mark.parametrize("name", sorted(slurm_settings.OURS))
def test_what_the_collection_sets_is_refused_in_any_letter_case(name):
    for spelled in (name, name.upper(), name.title()):
        (sentence,) = slurm_settings.reserved_settings({spelled: "x", "MaxJobCount": 5}, {})
        assert sentence.startswith(f"slurm_cluster_settings sets {spelled}, which the collection sets itself (") and sentence.endswith(
            "remove it there."
        )


@pytest.mark.parametrize("name", ["ConstrainDevices", "CONSTRAINCORES", "constrainramspace"])
def test_confinement_cannot_be_switched_off(name):
    (sentence,) = slurm_settings.reserved_settings({}, {name: False, "AllowedRAMSpace": 98})
    assert sentence == f"slurm_cluster_cgroup_settings sets {name}=False, but GPUs, cores and memory are always confined: remove it there."


BAD_VALUES = [
    "60\nSlurmUser=root",
    "60\rSlurmUser=root",
    "60 SlurmUser=root",
    "60\tSlurmUser=root",
    "60\u2028SlurmUser=root",
    "60\u00a0SlurmUser=root",
    "60 # comment",
    "60#",
    "60\\",
    "60\x00",
    '"open',
    '"two" "words"',
    '"line\nbreak"',
    "",
    None,
    {},
    [],
    ["a", None],
    ["a", "b\nSlurmUser=root"],
    ["a", ["b", {}]],
    {"a": "b"},
]


@pytest.mark.parametrize("value", BAD_VALUES, ids=repr)
def test_value_that_would_be_more_than_one_setting_is_refused(value):
    for variable, found in [
        ("slurm_cluster_settings", slurm_settings.reserved_settings({"MessageTimeout": value}, {})),
        ("slurm_cluster_cgroup_settings", slurm_settings.reserved_settings({}, {"MessageTimeout": value})),
        (
            "slurm_cluster_node_settings of gpu1",
            slurm_settings.line_settings_errors("slurm_cluster_node_settings of gpu1", {"MessageTimeout": value}, {}),
        ),
    ]:
        (sentence,) = found
        assert sentence.startswith(f"{variable} gives MessageTimeout a value that SLURM can't read: ") and "\n" not in sentence


@pytest.mark.parametrize("value", ["60", 60, 1.5, True, "a,b=c", ["a", 1, False], '"two words"', "/path/%h", "(1,2)", "größe"])
def test_ordinary_values_are_allowed(value):
    assert slurm_settings.reserved_settings({"JobCompLoc": value}, {"AllowedRAMSpace": value}) == []


@pytest.mark.parametrize("key", ["", "Max Jobs", "Max\nJobs", "MaxJobs=1", "#", "größe", 5, None, True, ("a", "b")], ids=repr)
def test_key_that_is_no_setting_is_refused(key):
    (sentence,) = slurm_settings.reserved_settings({key: "x"}, {})
    assert sentence == f"slurm_cluster_settings has {key!r}, which is no name of a setting."


@pytest.mark.parametrize("wrong", [None, [], ["MaxJobCount"], "MaxJobCount=5", 5, True])
def test_settings_that_are_no_dictionary_are_refused(wrong):
    assert slurm_settings.reserved_settings(wrong, {}) == ["slurm_cluster_settings must be a dictionary of settings and their values."]
    assert slurm_settings.reserved_settings({}, wrong) == [
        "slurm_cluster_cgroup_settings must be a dictionary of settings and their values."
    ]


@given(
    st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3), st.none()), max_size=3)
)
def test_allowed_settings_never_add_a_line(extra):
    plain = plan([node("gpu1")])["files"]["slurm.conf"].splitlines()
    if not slurm_settings.reserved_settings(extra, {}):
        found = plan([node("gpu1")], settings=extra)["files"]["slurm.conf"].splitlines()
        assert len(found) <= len(plain) + len(extra)


# --- cost ---


def test_cost_is_linear_in_the_nodes():
    def seconds(count):
        nodes = [node(f"gpu{number}", gpus(8)) for number in range(count)]
        partitions = [{"name": "batch", "default": True}, {"name": "a100", "gpu_types": ["a100"]}]
        gc.collect()
        gc.disable()  # the collector looks at all objects of the test run, ours or not
        try:
            began = time.process_time()
            assert plan(nodes, recorded={}, partitions=partitions)["errors"] == []
            return time.process_time() - began
        finally:
            gc.enable()

    small = min(seconds(1000), seconds(1000))
    large = min(seconds(5000), seconds(5000))  # as the small one: whatever else runs counts in neither
    print(f"1,000 nodes of 8 GPUs: {small:.2f} s; 5,000: {large:.2f} s")
    assert large < 8 * small, "five times the nodes"
    assert large < 10


def test_health_check_is_configured_where_the_role_installs_it():
    variables = pathlib.Path(__file__).resolve().parents[4].joinpath("roles/slurm_node/vars/main.yml").read_text(encoding="utf-8")
    assert f"__slurm_node_health: {slurm_conf.HEALTH_PROGRAM}\n" in variables
    assert slurm_conf.TASK_PROLOG == "/usr/local/libexec/deephdc/slurm_task_prolog"
    assert "__slurm_node_programs: /usr/local/libexec/deephdc\n" in variables


def test_key_of_rest_tokens_has_one_path():
    roles = pathlib.Path(__file__).resolve().parents[4] / "roles"
    for file in ("slurm_rest/tasks/key.yml", "slurm_database/templates/slurmdbd.conf.j2", "slurm_database/tasks/service.yml"):
        assert slurm_conf.JWT_KEY in (roles / file).read_text(encoding="utf-8"), file


def test_the_units_of_a_node_are_computed_once(monkeypatch):
    """However many partitions it is in, and whatever is made of it."""
    seen = []

    def counted(accelerators):
        seen.append(accelerators)
        return units(accelerators)

    for module in (slurm_gres, slurm_planned_nodes):
        monkeypatch.setattr(module, "units", counted)
    nodes = [node(f"gpu{number}", gpus(2), gpu_sharing="shard:2") for number in range(5)]
    partitions = [{"name": "all"}, {"name": "a100", "gpu_types": ["a100"]}, {"name": "shared", "gpu_sharing": "shard:2"}]
    assert plan(nodes, partitions=partitions)["errors"] == []
    assert len(seen) == len(nodes)
