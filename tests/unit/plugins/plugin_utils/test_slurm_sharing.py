# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""How the GPUs of a SLURM node are shared."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import gres as slurm_gres
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import partitions as slurm_partitions
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import plan as slurm_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import sharing as slurm_sharing
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, mig_gpu
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.slurm_examples import cluster, gpus, inventory_groups, node


def plan(nodes, busy=(), before=None, groups=None, **changes):
    present = {"partitions": [], "jobs": slurm_jobs.summary("".join(f"7|ada|batch|{name}\n" for name in busy))}
    return slurm_plan.plan(cluster(**changes), nodes, groups or inventory_groups(nodes), {}, present, before)


def lines(found, start, file="slurm.conf"):
    return [line for line in found["files"][file].splitlines() if line.startswith(start)]


def test_a_node_is_exclusive_unless_it_says_otherwise():
    found = plan([node("gpu1", gpus(2))])
    assert found["sharing"] == {"gpu1": "exclusive"}
    assert lines(found, "GresTypes=") == ["GresTypes=gpu"]
    assert lines(found, "TaskProlog=") == []


def test_node_and_partition_say_how():
    nodes = [node("gpu1", gpus(2), gpu_sharing="shard:4"), node("gpu2", gpus(1)), node("gpu3", gpus(1)), node("cpu1")]
    partitions = [{"name": "all"}, {"name": "small", "group": "small", "gpu_sharing": "mps"}]
    found = plan(nodes, partitions=partitions, groups=inventory_groups(nodes, small=["gpu2"]))
    assert found["errors"] == []
    assert found["sharing"] == {"cpu1": "exclusive", "gpu1": "shard:4", "gpu2": "mps", "gpu3": "exclusive"}
    gres = {line.split()[0]: word for line in lines(found, "NodeName=") for word in line.split() if word.startswith("Gres=")}
    assert gres == {
        "NodeName=gpu1": "Gres=gpu:a100:2,shard:8",
        "NodeName=gpu2": "Gres=gpu:a100:1,mps:100",
        "NodeName=gpu3": "Gres=gpu:a100:1",
    }
    assert lines(found, "NodeName=gpu2 Name=mps", "gres.conf") == ["NodeName=gpu2 Name=mps Count=100 Flags=all_sharing"]
    assert lines(found, "GresTypes=") == ["GresTypes=gpu,mps,shard"]
    assert lines(found, "AccountingStorageTRES=") == ["AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/mps,gres/shard"]
    assert lines(found, "TaskProlog=") == ["TaskProlog=/usr/local/libexec/deephdc/slurm_task_prolog"]
    assert json.loads(found["record"].splitlines()[-1])["sharing"] == found["sharing"]


PARTITIONS = [{"name": "a", "gpu_sharing": "mps"}, {"name": "b", "gpu_sharing": "shard:2"}]


@pytest.mark.parametrize(
    ("nodes", "partitions", "sentence"),
    [
        (
            [node("gpu1", gpus(1))],
            PARTITIONS,
            "gpu1 is to share its GPUs as mps by partition a and shard:2 by partition b: "
            "a node shares its GPUs in one way, correct one of them.",
        ),
        (
            [node("gpu1", gpus(1), gpu_sharing="exclusive")],
            PARTITIONS[:1],
            "gpu1 is to share its GPUs as exclusive by slurm_cluster_gpu_sharing of the host and mps by partition a: "
            "a node shares its GPUs in one way, correct one of them.",
        ),
        (
            [node("gpu1", [mig_gpu(0, ["1g.10gb"])], gpu_sharing="shard:2")],
            [{"name": "a"}],
            "gpu1 can't share its GPUs as shard:2: the one at 0000:01:00.0 is divided into MIG instances, "
            "which SLURM gives to one job each; leave such a node exclusive.",
        ),
        (
            [node("gpu1", [*gpus(1), *gpus(2, type="t4")[1:]], gpu_sharing="shard:2")],
            [{"name": "a"}],
            "gpu1 can't share its GPUs as shard:2: it has several types (a100, t4), among which SLURM mixes up "
            "what is shared and what is given away as a whole; leave such a node exclusive.",
        ),
        (
            [node("gpu1", [amd(0)], gpu_sharing="mps")],
            [{"name": "a"}],
            "gpu1 can't share its GPUs as mps: the one at 0000:01:00.0 is not NVIDIA's; use shard:N there.",
        ),
    ],
)
def test_contradictions_stop_the_run(nodes, partitions, sentence):
    found = plan(nodes, partitions=partitions)
    assert found["errors"] == [sentence]
    assert found["files"] == {}


def test_a_busy_node_keeps_its_sharing():
    nodes = [node("gpu1", gpus(1), gpu_sharing="shard:2"), node("gpu2", gpus(1))]
    assert plan(nodes, busy=["gpu2"], before={"gpu1": "exclusive", "gpu2": "exclusive"})["errors"] == []
    assert plan(nodes, busy=["gpu1"], before={"gpu2": "exclusive"})["errors"] == [], "a new node has no jobs of ours"
    (error,) = plan(nodes, busy=["gpu1"], before={"gpu1": "exclusive"})["errors"]
    assert error.startswith("gpu1 runs jobs, so the sharing of its GPUs can't be changed from exclusive to shard:2 now: drain it")


def test_a_sites_task_prolog_and_mps_exclude_each_other():
    settings = {"TaskProlog": "/site/prolog"}
    assert plan([node("gpu1", gpus(1))], settings=settings)["errors"] == []
    (error,) = plan([node("gpu1", gpus(1), gpu_sharing="mps")], settings=settings)["errors"]
    assert "slurm_cluster_settings sets TaskProlog" in error


NO_SHARING = ["shared", "shard", "shard:0", "shard: 4", "shard:99999", "shard:04", "shard:\u0664", "mps:50", 4, True, ["mps"]]


@pytest.mark.parametrize("value", NO_SHARING)
def test_what_is_no_sharing_is_refused_with_the_forms_there_are(value):
    assert slurm_sharing.node_errors("gpu1", value) == [
        f"slurm_cluster_gpu_sharing of gpu1 is {value!r}: write exclusive, mps, or shard:N with N jobs per GPU, such as shard:4."
    ]
    assert "partition a has the gpu_sharing" in slurm_partitions.value_errors({"name": "a", "gpu_sharing": value})[0]


@pytest.mark.parametrize("value", [*NO_SHARING, None])
def test_what_is_no_sharing_for_the_check_is_none_for_gres(value):
    """One rule: what the inventory may not say, no line of slurm.conf says."""
    assert not slurm_sharing.is_sharing(value)
    with pytest.raises(ValueError, match="The sharing must be exclusive, mps, or shard:N"):
        slurm_gres.gres_of(gpus(1), value)


@pytest.mark.parametrize("value", [None, "exclusive", "mps", "shard:1", "shard:16", "shard:9999"])
def test_what_is_one_is_not(value):
    assert slurm_sharing.node_errors("gpu1", value) == slurm_partitions.value_errors({"name": "a", "gpu_sharing": value}) == []


def test_what_a_node_registered_is_remembered_as_long_as_it_shares():
    files = plan([node("gpu1", gpus(1), gpu_sharing="shard:4"), node("gpu2", gpus(1))])["share_files"]
    assert files["gpu1"] == {"path": "/var/lib/deephdc/slurm_sharing/gpu1", "content": "# Made by deephdc.accelerators\nshard:4\n"}
    assert files["gpu2"] == {"path": "/var/lib/deephdc/slurm_sharing/gpu2", "state": "absent"}
