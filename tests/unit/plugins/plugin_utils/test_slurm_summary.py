# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The last words of a run."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._slurm import summary
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu

CONSOLE = gpu(0, kind="console", driver="ast", model="ASPEED Graphics Family", device_files=[])


def test_a_cluster_with_gpus():
    offers = {"gpu1": {"gpu:a100": 2}, "gpu2": {"gpu:a100": 1, "gpu:t4": 1}, "cpu1": {}}
    assert summary.lines("example", offers, {"login": "192.0.2.11"}, []) == [
        "The cluster example has 3 nodes and 4 GPUs (3 a100, 1 t4).",
        "Users log in on login (192.0.2.11). A first job there: srun --gres=gpu:1 nvidia-smi -L",
        "What users need to know: docs/users.md of the collection.",
    ]


def test_a_cluster_without_gpus_says_what_is_on_the_bus_last():
    """It stood at line 68 of 461."""
    nodes = [
        {"name": "n1", "accelerators": [CONSOLE, gpu(1, driver=None, device_files=[]), gpu(2, driver=None, device_files=[])]},
        {"name": "n2", "accelerators": []},
    ]
    sentence = summary.without_gpus(nodes)
    assert sentence == (
        "No node has a GPU that SLURM can schedule: if there should be one, look at it with the module gpu_facts. The nodes have n1: "
        "ASPEED Graphics Family (graphics that can't compute), 2 x NVIDIA A100-SXM4-40GB (no driver); n2: no graphics and no accelerator."
    )
    found = summary.lines("example", {"n1": {}}, {}, [sentence])
    assert found[:2] == ["The cluster example has 1 node and no GPU.", sentence]
    assert "no login host (group slurm_logins). A first job on a controller: srun hostname" in found[2]


@pytest.mark.parametrize(
    ("offers", "words"), [([], "no GPU"), ([{"gpu:t4": 1}], "1 GPU (1 t4)"), ([{"gpu:a100_1g.10gb": 7}], "7 GPUs (7 a100_1g.10gb)")]
)
def test_counts(offers, words):
    assert summary.gpus_of(offers) == words
