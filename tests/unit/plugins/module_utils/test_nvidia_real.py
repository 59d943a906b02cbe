# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a real H100 with driver 580.159.04 answered; serial and UUIDs are replaced."""

from __future__ import annotations

import ast
import pathlib

from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import nvidia_smi
from ansible_collections.deephdc.accelerators.plugins.module_utils._nvidia_driver.mig import Profile, profiles

ROOT = pathlib.Path(__file__).resolve().parents[4]
ANSWERS = ROOT / "tests/data/nvidia_smi"
UUID = "GPU-00000000-1111-2222-3333-444444444444"


def answer(name: str) -> str:
    return (ANSWERS / f"h100_driver580{name}").read_text(encoding="utf-8")


def test_the_document_is_read():
    version, gpus = nvidia_smi.parse_document(answer(".xml"))
    assert version == "580.159.04"
    assert list(gpus) == ["0000:00:06.0"]
    facts = gpus["0000:00:06.0"]
    assert (facts["uuid"], facts["memory_mib"], facts["ecc"], facts["minor"]) == (UUID, 81559, True, 0)
    assert (facts["problems"], facts["says_recovery"]) == ([], True)
    assert (facts["mig_capable"], facts["mig_enabled"], facts["mig_devices"]) == (True, False, [])


def test_the_list_is_read():
    assert nvidia_smi.parse_list(answer("_list.txt")) == {}, "it has no MIG device"


def real_profiles() -> list[Profile]:
    return profiles(answer("_profiles.txt"), answer("_places.txt"))


def test_the_profiles_are_read():
    found = {profile.name: profile for profile in real_profiles()}
    assert found["1g.10gb"] == Profile("1g.10gb", 7, 9.75, (0, 1, 2, 3, 4, 5, 6), 1)
    assert found["7g.80gb"] == Profile("7g.80gb", 1, 79.25, (0,), 8)
    assert len(found) == 7


def test_the_stand_in_has_the_real_profiles():
    """Names, numbers, memory and places are those of the real card."""
    python = ast.parse((ROOT / "tests/stand_ins/nvidia-smi-mig").read_text(encoding="utf-8"))
    (table,) = (ast.literal_eval(node.value) for node in python.body if isinstance(node, ast.Assign) and node.targets[0].id == "PROFILES")
    assert [Profile(row[0], row[2], float(row[3]), tuple(row[7]), row[8]) for row in table] == real_profiles()
