# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Flags of Mesos agents."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._mesos import agent as mesos_agent
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu


def test_all_gpus_are_offered_by_their_nvml_index():
    assert mesos_agent.resources([gpu(1), gpu(0)]) == {"resources": "gpus:2", "nvidia_gpu_devices": "0,1"}


def test_what_nvml_does_not_see_is_not_numbered():
    accelerators = [gpu(0, driver="vfio-pci", device_files=["/dev/vfio/7"]), gpu(1), amd(2), gpu(3)]
    assert mesos_agent.resources(accelerators) == {"resources": "gpus:2", "nvidia_gpu_devices": "0,1"}


def test_what_nvml_sees_but_mesos_can_not_offer_keeps_its_number():
    accelerators = [gpu(0, device_files=[]), mig_gpu(1, ["1g.10gb"]), gpu(2)]
    assert mesos_agent.resources(accelerators) == {"resources": "gpus:1", "nvidia_gpu_devices": "2"}


@pytest.mark.parametrize("accelerators", [[], [amd(0)], [mig_gpu(0, ["1g.10gb"])], [gpu(0, kind="console")]])
def test_nothing_to_offer(accelerators):
    assert mesos_agent.resources(accelerators) == {}
    assert mesos_agent.attributes(accelerators) == ""


def test_attributes_of_equal_gpus():
    accelerators = [gpu(number, memory_mib=40960, driver_version="550.163.01") for number in (0, 1)]
    assert mesos_agent.attributes(accelerators) == (
        "gpu_vendor:nvidia;gpu_model:NVIDIA_A100-SXM4-40GB;gpu_memory_mib:40960;gpu_driver_version:550.163.01;gpus_a100:2"
    )


def test_attributes_say_nothing_that_is_true_of_one_gpu_only():
    assert mesos_agent.attributes([gpu(0), gpu(1, type="t4", model="Tesla T4")]) == "gpu_vendor:nvidia;gpus_a100:1;gpus_t4:1"


@pytest.mark.parametrize("function", [mesos_agent.resources, mesos_agent.attributes])
@pytest.mark.parametrize("wrong", [None, "a100", {"kind": "gpu"}, ["a100"]])
def test_wrong_input(function, wrong):
    with pytest.raises(ValueError, match="list of dictionaries"):
        function(wrong)
