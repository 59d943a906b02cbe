# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's documents: /proc files and the answers of nvidia-smi."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import nvidia, nvidia_smi


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.81  Wed Aug 17 22:24:07 PDT 2016\nGCC version:  gcc 4.8.5\n", "384.81"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n", "550.163.01"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build  (a@b)\n", "595.91.07"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build", "540.4.0"),
        ("nonsense", None),
    ],
)
def test_kernel_module_version(tmp_path, text, expected):
    file = tmp_path / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert nvidia.kernel_module_version(str(tmp_path)) == expected


def test_uuid_that_the_driver_does_not_know_yet(tmp_path):
    file = tmp_path / "proc/driver/nvidia/gpus/0000:41:00.0/information"
    file.parent.mkdir(parents=True)
    file.write_text("Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 3\n")
    assert nvidia.proc_information(str(tmp_path)) == {"0000:41:00.0": {"model": "NVIDIA L4", "uuid": None, "minor": 3, "excluded": False}}


def test_old_schema_counts_double_bit_errors():
    _version, gpus = nvidia_smi.parse_document(
        '<nvidia_smi_log><gpu id="00000000:05:00.0"><ecc_errors><volatile><single_bit><total>7</total></single_bit>'
        "<double_bit><device_memory>1</device_memory><total>1</total></double_bit></volatile></ecc_errors></gpu></nvidia_smi_log>"
    )
    assert gpus["0000:05:00.0"]["problems"] == [("ecc_errors", "1 uncorrected ECC error(s) since the driver was loaded")]


def test_an_old_document_without_mig_says_nothing_about_it():
    _version, gpus = nvidia_smi.parse_document('<nvidia_smi_log><gpu id="0000:05:00.0"><serial>N/A</serial></gpu></nvidia_smi_log>')
    assert gpus["0000:05:00.0"]["mig_capable"] is None and gpus["0000:05:00.0"]["mig_enabled"] is None
    assert gpus["0000:05:00.0"]["serial"] is None


def test_warnings_around_the_document():
    text = "WARNING: before\n<?xml version='1.0' ?><nvidia_smi_log><driver_version>1.2</driver_version></nvidia_smi_log>\nWARNING: after\n"
    assert nvidia_smi.parse_document(text) == ("1.2", {})


def test_list_of_mig_devices():
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)\n  MIG 1g.5gb      Device  0: (UUID: MIG-x)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)\n  MIG 1c.3g.20gb  Device  0: (UUID: MIG-y)\n"
        "  MIG 1g.10gb+me Device 12: (UUID: MIG-z)\n"
    )
    assert nvidia_smi.parse_list(text) == {
        ("GPU-a", 0): ("1g.5gb", "MIG-x"),
        ("GPU-b", 0): ("1c.3g.20gb", "MIG-y"),
        ("GPU-b", 12): ("1g.10gb+me", "MIG-z"),
    }


def test_failing_list_keeps_the_instances(simulate, commands, nvidia_smi):
    nvidia_smi("a100_mig.xml", listing="none")
    answer = nvidia.query_smi(nvidia.TimeBudget(10))
    assert [problem for problem, _text, _address in answer["problems"]] == ["nvidia_smi_warning"]
    devices = answer["gpus"]["0000:41:00.0"]["mig_devices"]
    assert [(device["gpu_instance_id"], device["profile"]) for device in devices] == [(7, None), (8, None), (1, None)]


def test_a_gpu_that_a_message_calls_for_a_reset_is_a_problem_of_its_own(simulate, commands):
    commands("nvidia-smi", "echo 'Unable to determine the device handle for GPU0000:41:00.0: GPU requires reset'; exit 255")
    answer = nvidia.query_smi(nvidia.TimeBudget(10))
    assert ("reset_required", "0000:41:00.0") in [(problem, address) for problem, _reason, address in answer["problems"]]
