# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Configuration of the NVIDIA device plugin."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import device_plugin
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu


def test_whole_gpus():
    assert device_plugin.device_plugin_config([gpu(0), gpu(1)]) == {"version": "v1", "flags": {"migStrategy": "none"}}


def test_mig_instances_are_resources_of_their_own():
    config = device_plugin.device_plugin_config([mig_gpu(0, ["1g.10gb", "1g.10gb+me", "3g.40gb"]), gpu(1)], replicas=2)
    assert config["flags"] == {"migStrategy": "mixed"}
    assert config["sharing"]["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/gpu", "replicas": 2},
        {"name": "nvidia.com/mig-1g.10gb", "replicas": 2},
        {"name": "nvidia.com/mig-1g.10gb.me", "replicas": 2},
        {"name": "nvidia.com/mig-3g.40gb", "replicas": 2},
    ]


@pytest.mark.parametrize("accelerators", [[], [amd(0)], [gpu(0, driver="nouveau")]])
def test_nothing_to_share(accelerators):
    assert device_plugin.device_plugin_config(accelerators, replicas=4) == {"version": "v1", "flags": {"migStrategy": "none"}}


@pytest.mark.parametrize("replicas", [0, -1, "4", True, None])
def test_replicas_must_be_a_whole_number(replicas):
    with pytest.raises(ValueError, match="whole number"):
        device_plugin.device_plugin_config([gpu(0)], replicas)


def test_wrong_input():
    with pytest.raises(ValueError, match="list of dictionaries"):
        device_plugin.device_plugin_config("a100")


def test_resources_are_counted_by_name():
    accelerators = [mig_gpu(1, ["3g.40gb", "1g.10gb+me", "1g.10gb+me"]), gpu(0), amd(2), gpu(3, driver="nouveau"), gpu(4)]
    assert list(device_plugin.resources(accelerators).items()) == [
        ("nvidia.com/gpu", 2),
        ("nvidia.com/mig-1g.10gb.me", 2),
        ("nvidia.com/mig-3g.40gb", 1),
    ]
