# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Accelerators in GLUE 2.1 and TOSCA."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._information import glue2
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import amd, gpu, mig_gpu

HOST = "urn:ogf:ExecutionEnvironment:example.org:gpu1"


def test_one_entity_for_each_model():
    entities = glue2.accelerator_environments([gpu(0, memory_mib=40960), gpu(1, memory_mib=40960), amd(2)], HOST)
    assert [(entity["Name"], entity["Vendor"], entity["PhysicalAccelerators"]) for entity in entities] == [
        ("a100", "NVIDIA", 2),
        ("mi300x", "AMD", 1),
    ]
    assert entities[0]["Memory"] == 40960
    assert len({entity["ID"] for entity in entities}) == 2
    assert all(entity["ID"].startswith(HOST) for entity in entities)


def test_memory_sizes_of_one_type_are_different_entities():
    entities = glue2.accelerator_environments([gpu(0, memory_mib=40960), gpu(1, memory_mib=81920)], HOST)
    assert {entity["ID"] for entity in entities} == {HOST + ":a100:40960", HOST + ":a100:81920"}


def test_mig_instances_are_logical_accelerators():
    (entity,) = glue2.accelerator_environments([mig_gpu(0, ["1g.10gb", "3g.40gb"]), gpu(1)], HOST)
    assert (entity["PhysicalAccelerators"], entity["LogicalAccelerators"]) == (2, 3)


def test_unknown_facts_are_absent():
    (entity,) = glue2.accelerator_environments([gpu(0, model=None, vendor="other")], HOST)
    assert not {"Vendor", "Model", "Memory"} & set(entity)


def test_only_usable_accelerators_are_published():
    assert glue2.accelerator_environments([gpu(0, driver=None), gpu(1, kind="console")], HOST) == []
    assert glue2.gpu_capability([gpu(0, driver=None)]) == {"host": {"num_gpus": 0}, "os": {"gpu_driver": False}}


def test_tosca_properties_hold_for_all_gpus():
    assert glue2.gpu_capability([gpu(0), gpu(1)]) == {
        "host": {"num_gpus": 2, "gpu_vendor": "NVIDIA", "gpu_model": "NVIDIA A100-SXM4-40GB"},
        "os": {"gpu_driver": True},
    }
    assert glue2.gpu_capability([gpu(0), gpu(1, model="Tesla T4")])["host"] == {"num_gpus": 2, "gpu_vendor": "NVIDIA"}


@pytest.mark.parametrize("resource", ["", None, 1])
def test_the_host_needs_an_id(resource):
    with pytest.raises(ValueError, match="id of the execution environment"):
        glue2.accelerator_environments([gpu(0)], resource)


@pytest.mark.parametrize("function", [glue2.gpu_capability, lambda wrong: glue2.accelerator_environments(wrong, HOST)])
def test_wrong_input(function):
    with pytest.raises(ValueError, match="list of dictionaries"):
        function("a100")
