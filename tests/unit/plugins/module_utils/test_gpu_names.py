# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Short scheduler types from ids and from marketing names, the driver's and those of pci.ids."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu import vendors
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu.names import short_type
from hypothesis import given
from hypothesis import strategies as st

NVIDIA, AMD, INTEL = (vendor.pci_id for vendor in vendors.VENDORS)


@pytest.mark.parametrize(
    ("vendor_id", "model", "expected"),
    [
        (NVIDIA, "NVIDIA A100-SXM4-80GB", "a100"),
        (NVIDIA, "NVIDIA A100 80GB PCIe", "a100"),
        (NVIDIA, "A100 SXM4 40GB", "a100"),
        (NVIDIA, "GRID A100-10C", "a100"),
        (NVIDIA, "NVIDIA A100X", "a100x"),
        (NVIDIA, "NVIDIA H100 80GB HBM3", "h100"),
        (NVIDIA, "NVIDIA H100 NVL", "h100"),
        (NVIDIA, "NVIDIA H200", "h200"),
        (NVIDIA, "NVIDIA GH200 480GB", "gh200"),
        (NVIDIA, "NVIDIA B200", "b200"),
        (NVIDIA, "NVIDIA GB200", "gb200"),
        (NVIDIA, "NVIDIA L40S", "l40s"),
        (NVIDIA, "NVIDIA L4", "l4"),
        (NVIDIA, "NVIDIA A2 / A16", "a2"),
        (NVIDIA, "NVIDIA A10G", "a10g"),
        (NVIDIA, "Tesla T4", "t4"),
        (NVIDIA, "Tesla V100-SXM2-16GB", "v100"),
        (NVIDIA, "Tesla V100S-PCIE-32GB", "v100s"),
        (NVIDIA, "Tesla P100-PCIE-16GB", "p100"),
        (NVIDIA, "Tesla K80", "k80"),
        (NVIDIA, "NVIDIA GeForce RTX 3090", "rtx3090"),
        (NVIDIA, "NVIDIA GeForce RTX 3090 Ti", "rtx3090ti"),
        (NVIDIA, "GeForce RTX 4090 D", "rtx4090d"),
        (NVIDIA, "NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070ti_super"),
        (NVIDIA, "GeForce RTX 2080 Ti Rev. A", "rtx2080ti"),
        (NVIDIA, "GeForce RTX 3070 Mobile / Max-Q", "rtx3070"),
        (NVIDIA, "NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"),
        (NVIDIA, "NVIDIA RTX 6000 Ada Generation", "rtx6000_ada"),
        (NVIDIA, "NVIDIA RTX 4000 SFF Ada Generation", "rtx4000_ada"),
        (NVIDIA, "Quadro RTX 6000/8000", "rtx6000"),
        (NVIDIA, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
        (NVIDIA, "NVIDIA RTX A6000", "a6000"),
        (NVIDIA, "NVIDIA TITAN RTX", "titan_rtx"),
        (NVIDIA, "NVIDIA TITAN V", "titan_v"),
        (NVIDIA, "PG503-216", "pg503_216"),
        (AMD, "AMD Instinct MI100", "mi100"),
        (AMD, "Instinct MI250X/MI250", "mi250x"),
        (AMD, "AMD INSTINCT MI250 (MCM) OAM AC MBA", "mi250"),
        (AMD, "AMD Instinct MI300X", "mi300x"),
        (AMD, "AMD Instinct MI300A", "mi300a"),
        (AMD, "Radeon RX 7900 XT/7900 XTX", "rx7900xt"),
        (AMD, "Radeon PRO W6800", "w6800"),
        (INTEL, "Data Center GPU Max 1550", "max1550"),
        (INTEL, "Intel(R) Data Center GPU Flex 170", "flex170"),
        (INTEL, "Arc A770", "arc_a770"),
        ("1a03", "ASPEED Graphics Family", "aspeed_graphics_family"),
        ("1da3", None, "1da3_ffff"),
        (None, "", "none_ffff"),
        (NVIDIA, "™", "10de_ffff"),
    ],
)
def test_type_of_a_marketing_name(vendor_id, model, expected):
    assert short_type(vendor_id, "ffff", model) == expected


def test_known_ids_win_over_names():
    assert short_type("10de", "20b2", None) == short_type("10de", "20b2", "Graphics Device") == "a100"


@given(st.sampled_from([NVIDIA, AMD, INTEL, "1a03"]), st.text())
def test_every_name_gives_a_type_that_gres_accepts(vendor_id, model):
    assert re.fullmatch(r"[a-z0-9_]+", short_type(vendor_id, "ffff", model))
