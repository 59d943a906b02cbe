# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Which driver supports which GPU; the ids and chips are those of pci.ids."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver import generations as nvidia


@pytest.mark.parametrize(
    ("device_id", "name"),
    [
        ("0fa0", "kepler"),
        ("1040", "fermi"),
        ("102d", "kepler"),  # K80
        ("1436", "maxwell"),
        ("15c2", "pascal"),
        ("1617", "maxwell"),
        ("1725", "pascal"),
        ("17fd", "maxwell"),
        ("1b38", "pascal"),  # P40
        ("1d56", "pascal"),
        ("1db6", "volta"),  # V100
        ("1eb8", "turing"),  # T4
        ("20b2", "ampere"),  # A100
        ("2182", "turing"),  # GTX 1660 Ti, between two of Ampere
        ("2236", "ampere"),  # A10
        ("2330", "hopper"),  # H100
        ("2414", "ampere"),  # RTX 3060 Ti, behind Hopper
        ("26b5", "ada"),  # L40
        ("2901", "blackwell"),  # B200
        ("3182", "blackwell"),  # B300
    ],
)
def test_generation_of_a_device(device_id, name):
    assert nvidia.generation_of(device_id).name == name


@pytest.mark.parametrize("device_id", ["0001", "0a20", "06e0", "ffff"])
def test_an_unknown_device_is_not_judged(device_id):
    assert nvidia.generation_of(device_id) is None


@pytest.mark.parametrize(
    ("generation", "branch", "error"),
    [
        ("kepler", 470, ""),
        ("kepler", 535, "is of the generation kepler, which branch 470 was the last to drive"),
        ("volta", 580, ""),
        ("volta", 590, "is of the generation volta, which branch 580 was the last to drive"),
        ("blackwell", 550, "is of the generation blackwell, which branch 570 and newer ones drive"),
        ("turing", 590, ""),
    ],
)
def test_branches_that_drive_a_generation(generation, branch, error):
    assert nvidia.branch_error(nvidia.GENERATIONS[generation], branch) == error


@pytest.mark.parametrize(
    ("device_ids", "branch", "modules"),
    [
        (["20b2"], 535, "proprietary"),
        (["20b2"], 580, "open"),
        (["1db6", "20b2"], 580, "proprietary"),
        (["1eb8"], 510, "proprietary"),
        (["2901"], 570, "open"),
        (["2330"], 550, "proprietary"),
        (["2342"], 550, "open"),  # Grace Hopper
        ([], 580, "open"),
    ],
)
def test_suggested_modules(device_ids, branch, modules):
    assert nvidia.suggested_modules([nvidia.generation_of(device) for device in device_ids], branch) == modules


@pytest.mark.parametrize(("version", "branch"), [("550.163.01-2", 550), ("1:580.65.06-1", 580), ("535", 535), ("", 0), ("none", 0)])
def test_branch_of_a_version(version, branch):
    assert nvidia.branch_of(version) == branch
