# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca import gpus

T4 = {"kind": "gpu", "vendor": "nvidia", "model": "Tesla T4", "type": "t4"}
T400 = {"kind": "gpu", "vendor": "nvidia", "model": "NVIDIA T400 4GB", "type": "t400"}
# Without a driver: only PCI's ids are known.
A100 = {"kind": "gpu", "vendor": "nvidia", "model": None, "type": "a100"}
A10 = {"kind": "gpu", "vendor": "nvidia", "model": "NVIDIA A10", "type": "a10"}
RTX = {"kind": "gpu", "vendor": "nvidia", "model": "NVIDIA GeForce RTX 3090 Ti", "type": "rtx3090ti"}
MI = {"kind": "gpu", "vendor": "amd", "model": "AMD Instinct MI210", "type": "mi210"}
OTHER = {"kind": "coprocessor", "vendor": "intel", "model": "QAT", "type": "t4"}
ALL = [T4, T400, A100, A10, RTX, MI, OTHER]


@pytest.mark.parametrize(
    ("vendor", "model", "found"),
    [
        ("", "", [T4, T400, A100, A10, RTX, MI]),
        (None, None, [T4, T400, A100, A10, RTX, MI]),
        ("NVIDIA", "", [T4, T400, A100, A10, RTX]),
        ("NVIDIA Corporation", "mi210", []),
        ("AMD", "", [MI]),
        ("", "T4", [T4]),
        ("", "Tesla T4", [T4]),
        ("nvidia", "t400", [T400]),
        ("", "A10", [A10]),
        ("", "A100", [A100]),
        ("", "NVIDIA A100-SXM4-40GB", [A100]),
        # As openstack_objects publishes a host with both.
        ("", "a100,t4", [T4, A100]),
        ("", "GeForce RTX 3090 Ti", [RTX]),
        ("", "RTX 3090 Ti", [RTX]),
        ("", "RTX 3090", [RTX]),
        ("", "RTX3090Ti", [RTX]),
        ("", "H100", []),
        # No pattern.
        ("", ".*", []),
        ("(", "", []),
    ],
)
def test_gpus_are_found_by_the_words_of_their_names(vendor, model, found):
    assert gpus.of_model(ALL, vendor, model) == found


def test_nothing_is_found_in_nothing():
    assert gpus.of_model(None, "NVIDIA", "T4") == [] and gpus.of_model([{"kind": "gpu"}], "", "T4") == []
