# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""SLURM's generic resources: every usable device in, exactly one gres out."""

from __future__ import annotations

import collections
import re
import time

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import facts as gpu_facts
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import hostlist
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu
from hypothesis import given
from hypothesis import strategies as st


def node(name, *accelerators):
    return {"name": name, "accelerators": list(accelerators)}


UNUSABLE = [
    ({"driver": None, "device_files": []}, "no kernel driver"),
    ({"driver": None, "device_files": None}, "no kernel driver"),
    ({"driver": "nouveau", "device_files": ["/dev/dri/renderD128"]}, "nouveau"),
    ({"driver": "NovaCore", "device_files": ["/dev/dri/renderD128"]}, "nova"),
    ({"driver": "radeon", "device_files": ["/dev/dri/renderD128"]}, "radeon"),
    ({"driver": "vfio-pci", "device_files": ["/dev/vfio/12"]}, "virtual machines"),
    ({"driver": "pci-stub"}, "pci-stub"),
    ({"device_files": []}, "no device file"),
    ({"sriov": {"total_vfs": 16, "num_vfs": 4, "is_vf": False}}, "divided into 4"),
    ({"sriov": {"total_vfs": None, "num_vfs": None, "is_vf": True}}, "virtual function"),
    ({"health": [{"problem": "fallen_off_bus", "message": "0000:02:00.0: it does not answer."}]}, "fallen off the bus"),
    ({"mig": {"capable": True, "enabled": True, "devices": []}}, "no MIG instance"),
    ({"mig": {"capable": True, "enabled": True, "devices": None}}, "no MIG instance"),
    (
        {"mig": {"capable": True, "enabled": True, "devices": [{"uuid": "MIG-1", "profile": "1g.10gb", "device_files": None}]}},
        "nvidia-caps",
    ),
]


@pytest.mark.parametrize(
    "accelerators, sharing, gres",
    [
        ([], "exclusive", ""),
        ([], "shard:4", ""),
        ([gpu(0), gpu(1)], "exclusive", "gpu:a100:2"),
        ([gpu(0, type="t4"), gpu(1), gpu(2)], "exclusive", "gpu:a100:2,gpu:t4:1"),
        ([gpu(0), gpu(1, kind="console")], "exclusive", "gpu:a100:1"),
        ([gpu(0), gpu(1)], "shard:8", "gpu:a100:2,shard:16"),
        ([gpu(0), gpu(1)], "mps", "gpu:a100:2,mps:200"),
        ([mig_gpu(0, ["1g.10gb", "1g.10gb", "3g.40gb"]), gpu(1)], "exclusive", "gpu:a100:1,gpu:a100_1g.10gb:2,gpu:a100_3g.40gb:1"),
        ([mig_gpu(0, ["1g.10gb"]), gpu(1)], "shard:8", "gpu:a100:1,gpu:a100_1g.10gb:1"),
        ([mig_gpu(0, ["1g.10gb+me"])], "exclusive", "gpu:a100_1g.10gb_me:1"),
        ([gpu(0, mig={"capable": True, "enabled": False, "devices": []})], "exclusive", "gpu:a100:1"),
        ([gpu(0, sriov={"total_vfs": 16, "num_vfs": 0, "is_vf": False})], "exclusive", "gpu:a100:1"),
        ([amd(0), amd(1)], "exclusive", "gpu:mi300x:2"),
        ([gpu(0, type=None)], "exclusive", "gpu:gpu_nvidia_20b0:1"),
        ([gpu(0, type=None, vendor="other", vendor_id="1da3", device_id="1060")], "exclusive", "gpu:gpu_1da3_1060:1"),
        ([{"kind": "gpu", "driver": "nvidia", "device_files": ["/dev/nvidia0"]}], "exclusive", "gpu:gpu:1"),
    ],
)
def test_gres_of_a_node_line(accelerators, sharing, gres):
    assert slurm_gres.gres_of(accelerators, sharing) == gres


@pytest.mark.parametrize("changes, words", UNUSABLE)
def test_a_device_no_job_can_use_is_left_out_with_the_reason(changes, words):
    broken = gpu(1, **changes)
    assert slurm_gres.schedulable([gpu(0), broken]) == [gpu(0)]
    assert slurm_gres.gres_of([gpu(0), broken]) == "gpu:a100:1"
    (entry,) = slurm_gres.unschedulable([gpu(0), broken])
    assert entry["pci_address"] == broken["pci_address"]
    assert entry["model"] == broken["model"]
    assert words in entry["reason"]
    assert re.fullmatch(r"NVIDIA A100-SXM4-40GB at 0000:02:00\.0 can't be scheduled: .+\.", entry["reason"])


def test_console_graphics_are_neither_scheduled_nor_complained_about():
    console = gpu(0, kind="console", driver="ast", device_files=["/dev/dri/card0"])
    assert slurm_gres.schedulable([console]) == []
    assert slurm_gres.unschedulable([console]) == []


def test_a_mig_instance_without_files_is_named_and_the_others_are_used():
    half = mig_gpu(0, ["1g.10gb", "1g.10gb"])
    half["mig"]["devices"][1]["device_files"].pop()
    assert slurm_gres.gres_of([half]) == "gpu:a100_1g.10gb:1"
    (entry,) = slurm_gres.unschedulable([half])
    assert "MIG-0-1" in entry["reason"]


def test_the_text_of_gres_conf():
    eight = [gpu(number) for number in range(8)]
    nodes = [
        node("gpu2", *eight),
        node("cpu1"),
        node("gpu1", *eight),
        {**node("mixed", gpu(0), gpu(1, type="t4"), gpu(2)), "sharing": "mps"},
        {**node("mig", mig_gpu(0, ["1g.10gb", "3g.40gb"]), gpu(1)), "sharing": "shard:2"},
        {**node("amd", amd(0), amd(1)), "sharing": "shard:2"},
    ]
    text = slurm_gres.gres_conf(nodes)
    assert text == (
        "AutoDetect=off\n"
        "NodeName=amd Name=gpu Type=mi300x File=/dev/dri/renderD[128-129] Flags=amd_gpu_env\n"
        "NodeName=amd Name=shard Count=4\n"
        "NodeName=gpu[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"
        "NodeName=mig Name=gpu Type=a100_1g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap0,/dev/nvidia-caps/nvidia-cap1\n"
        "NodeName=mig Name=gpu Type=a100_3g.40gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap2,/dev/nvidia-caps/nvidia-cap3\n"
        "NodeName=mig Name=gpu Type=a100 File=/dev/nvidia1\n"
        "NodeName=mixed Name=gpu Type=a100 File=/dev/nvidia0\n"
        "NodeName=mixed Name=gpu Type=t4 File=/dev/nvidia1\n"
        "NodeName=mixed Name=gpu Type=a100 File=/dev/nvidia2\n"
        "NodeName=mixed Name=mps Count=300 Flags=all_sharing\n"
    )


def test_a_cluster_without_gpus_still_turns_autodetection_off():
    assert slurm_gres.gres_conf([node("cpu1")]) == "AutoDetect=off\n"
    assert slurm_gres.gres_conf([]) == "AutoDetect=off\n"
    assert slurm_gres.tres_of([{**node("cpu1"), "sharing": "shard:4"}]) == []


def test_devices_are_in_the_order_of_their_pci_addresses():
    first = gpu(1, pci_address="0000:41:00.0")
    second = gpu(0, pci_address="0000:c1:00.0")
    last = gpu(2, pci_address="10000:01:00.0")
    assert "File=/dev/nvidia[1,0,2]\n" in slurm_gres.gres_conf([node("gpu1", last, second, first)])
    assert [entry["pci_address"] for entry in slurm_gres.device_index([last, second, first])] == [
        "0000:41:00.0",
        "0000:c1:00.0",
        "10000:01:00.0",
    ]


def test_gpus_of_two_vendors_on_a_node_have_equal_flags_because_slurmd_dies_otherwise():
    assert "Flags" not in slurm_gres.gres_conf([node("gpu1", gpu(0), amd(1))])
    assert slurm_gres.gres_conf([node("gpu1", amd(0), amd(1, type="mi100"))]).count(" Flags=amd_gpu_env\n") == 2


def test_device_index_names_each_gres():
    assert slurm_gres.device_index([mig_gpu(0, ["1g.10gb"]), gpu(1)]) == [
        {
            "gres_type": "a100_1g.10gb",
            "files": ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap0", "/dev/nvidia-caps/nvidia-cap1"],
            "pci_address": "0000:01:00.0",
            "uuid": "MIG-0-0",
        },
        {"gres_type": "a100", "files": ["/dev/nvidia1"], "pci_address": "0000:02:00.0", "uuid": "GPU-1"},
    ]


def test_types_and_tres_of_a_cluster():
    nodes = [node("n1", gpu(0, type="t4")), node("n2", gpu(0), gpu(1)), node("n3")]
    assert slurm_gres.types_of(nodes) == ["a100", "t4"]
    assert slurm_gres.tres_of(nodes) == ["gres/gpu", "gres/gpu:a100", "gres/gpu:t4"]
    shared = [{**nodes[0], "sharing": "shard:2"}, {**nodes[1], "sharing": "mps"}]
    assert slurm_gres.tres_of(shared) == ["gres/gpu", "gres/gpu:a100", "gres/gpu:t4", "gres/mps", "gres/shard"]
    assert slurm_gres.tres_of([{**node("n1", mig_gpu(0, ["1g.10gb"])), "sharing": "shard:2"}]) == ["gres/gpu", "gres/gpu:a100_1g.10gb"]


@pytest.mark.parametrize(
    "nodes, words",
    [
        ("gpu1", "list of dictionaries"),
        (["gpu1"], "list of dictionaries"),
        ([{"accelerators": []}], "no name"),
        ([node("n1"), node("n1")], "Two nodes have the name 'n1'"),
        ([{"name": "n1", "accelerators": None}], "Node 'n1': The accelerators must be a list"),
        ([{"name": "n1", "accelerators": ["a100"]}], "Node 'n1': The accelerators must be a list"),
        (
            [node("n1", gpu(0), gpu(1, device_files=["/dev/nvidia0"]))],
            "Node 'n1': The accelerators at 0000:01:00.0 and 0000:02:00.0 have the same device file",
        ),
        ([node("n 1", gpu(0))], "can't stand in a host list"),
    ],
)
def test_wrong_input_is_refused_by_name(nodes, words):
    with pytest.raises(ValueError, match=words):
        slurm_gres.gres_conf(nodes)


@pytest.mark.parametrize("sharing", ["shard", "shard:0", "shard:-1", "shard:x", "mps:3", 4, None])
def test_a_sharing_that_does_not_exist_is_refused(sharing):
    with pytest.raises(ValueError, match="The sharing must be exclusive, mps, or shard:N"):
        slurm_gres.gres_of([gpu(0)], sharing)


def test_what_gpu_facts_reads_from_a_host(simulate):
    root = simulate({"type": "a100", "count": 2}, {"type": "t4", "driver": "vfio-pci"}, {"type": "mi300x"})
    accelerators = gpu_facts.gather(str(root), pci_ids_paths=())
    assert slurm_gres.gres_of(accelerators) == "gpu:a100:2,gpu:mi300x:1"
    assert [entry["model"] for entry in slurm_gres.unschedulable(accelerators)] == [accelerators[2]["model"]]


def test_what_gpu_facts_reads_from_a_host_with_mig(simulate, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="a100_mig_list.txt")
    instances = [{"gpu_instance_id": number, "compute_instance_id": 0} for number in (7, 8, 1)]
    root = simulate(
        {"type": "a100", "pci_address": "0000:41:00.0", "mig_devices": instances}, {"type": "a100", "pci_address": "0000:81:00.0"}
    )
    for minor in (12, 13, 21, 22, 30, 31):
        root.write(f"dev/nvidia-caps/nvidia-cap{minor}", "")
    accelerators = gpu_facts.gather(str(root), pci_ids_paths=())
    assert slurm_gres.gres_of(accelerators) == "gpu:a100:1,gpu:a100_1g.10gb:2,gpu:a100_3g.40gb:1"
    assert slurm_gres.gres_conf([node("gpu1", *accelerators)]).count("MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap") == 3


# --- properties -----------------------------------------------------------------------------------------------------

PROFILES = st.sampled_from(["1g.10gb", "1g.10gb+me", "2g.20gb", "1c.3g.40gb"])
WORKING = st.sampled_from([{}, {"type": "t4"}, {"type": None}, {"sriov": {"total_vfs": 4, "num_vfs": 0, "is_vf": False}}])
BROKEN = st.sampled_from([changes for changes, _words in UNUSABLE] + [{"kind": "console"}])


def host_of(plan):
    build = {
        "whole": lambda number, detail: gpu(number, **detail),
        "mig": mig_gpu,
        "amd": lambda number, detail: amd(number),
    }
    return [build[kind](number, detail) for number, (kind, detail) in enumerate(plan)]


DEVICES = st.one_of(
    st.tuples(st.just("whole"), st.one_of(WORKING, BROKEN)),
    st.tuples(st.just("mig"), st.lists(PROFILES, max_size=7)),
    st.tuples(st.just("amd"), st.none()),
)
HOSTS = st.lists(DEVICES, max_size=12).map(host_of)


def usable(accelerators):
    """What a host offers, counted another way than the code does: by the facts each entry was built with."""
    total = 0
    for entry in accelerators:
        works = entry["kind"] != "console" and not entry.get("health") and entry["driver"] in ("nvidia", "amdgpu") and entry["device_files"]
        sriov = entry["sriov"] or {}
        if works and not sriov.get("num_vfs") and not sriov.get("is_vf"):
            mig = entry["mig"] or {}
            total += (
                len([device for device in mig.get("devices") or [] if len(device["device_files"] or []) == 2]) if mig.get("enabled") else 1
            )
    return total


def counts_of_gres(gres):
    return {entry.split(":")[1]: int(entry.split(":")[2]) for entry in gres.split(",") if entry.startswith("gpu:")}


def devices_in(text, name):
    """(type, files) of each device that gres.conf gives to a node, read as SLURM reads it."""
    devices = []
    for line in text.splitlines()[1:]:
        fields = dict(field.split("=", 1) for field in line.split())
        if name not in hostlist.expand(fields["NodeName"]) or fields["Name"] != "gpu":
            continue
        if "MultipleFiles" in fields:
            devices.append((fields["Type"], tuple(fields["MultipleFiles"].split(","))))
        else:
            devices.extend((fields["Type"], (path,)) for path in hostlist.expand(fields["File"]))
    return devices


@given(HOSTS)
def test_every_usable_device_is_exactly_one_gres(accelerators):
    counts = counts_of_gres(slurm_gres.gres_of(accelerators))
    devices = devices_in(slurm_gres.gres_conf([node("gpu1", *accelerators)]), "gpu1")
    assert sum(counts.values()) == len(devices) == usable(accelerators)
    assert collections.Counter(gres_type for gres_type, _files in devices) == counts
    assert devices == [(entry["gres_type"], tuple(entry["files"])) for entry in slurm_gres.device_index(accelerators)]


@given(HOSTS)
def test_no_file_is_in_two_gres(accelerators):
    devices = devices_in(slurm_gres.gres_conf([node("gpu1", *accelerators)]), "gpu1")
    # MIG instances share the file of their GPU, never one of their capability files.
    own = [path for _gres_type, files in devices for path in (files[1:] if len(files) > 1 else files)]
    assert len(own) == len(set(own))
    shared = {files[0] for _gres_type, files in devices if len(files) > 1}
    assert not shared & set(own)


@given(HOSTS)
def test_every_gpu_is_scheduled_or_explained(accelerators):
    named = {entry["pci_address"] for entry in slurm_gres.unschedulable(accelerators)}
    scheduled = {entry["pci_address"] for entry in slurm_gres.schedulable(accelerators)}
    candidates = {entry["pci_address"] for entry in accelerators if entry["kind"] != "console"}
    assert named | scheduled == candidates
    assert not named & scheduled


@given(st.lists(HOSTS, max_size=5), st.sampled_from(["exclusive", "shard:3", "mps"]), st.randoms(use_true_random=False))
def test_order_of_nodes_and_devices_does_not_matter(hosts, sharing, random):
    nodes = [{**node(f"gpu{number}", *accelerators), "sharing": sharing} for number, accelerators in enumerate(hosts)]
    shuffled = [{**entry, "accelerators": random.sample(entry["accelerators"], len(entry["accelerators"]))} for entry in nodes]
    random.shuffle(shuffled)
    assert slurm_gres.gres_conf(nodes) == slurm_gres.gres_conf(shuffled)
    assert slurm_gres.tres_of(nodes) == slurm_gres.tres_of(shuffled)


@given(HOSTS)
def test_a_gres_type_has_only_characters_slurm_takes(accelerators):
    for gres_type in slurm_gres.types_of([node("gpu1", *accelerators)]):
        assert re.fullmatch(r"[a-z0-9_.-]+", gres_type)


def test_5000_nodes_of_8_gpus_take_at_most_two_seconds():
    nodes = [node(f"gpu{number}", *[gpu(position) for position in range(8)]) for number in range(5000)]
    start = time.process_time()
    text = slurm_gres.gres_conf(nodes)
    assert time.process_time() - start <= 2
    assert text == "AutoDetect=off\nNodeName=gpu[0-4999] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"
