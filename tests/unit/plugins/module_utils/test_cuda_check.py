# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The computation on a GPU, with an object in the place of the driver's library."""

from __future__ import annotations

import pytest
from ansible_collections.deephdc.accelerators.plugins.module_utils._gpu_check import cuda as gpu_check_cuda

NAMES = {2: b"CUDA_ERROR_OUT_OF_MEMORY", 46: b"CUDA_ERROR_DEVICE_UNAVAILABLE", 999: b"CUDA_ERROR_UNKNOWN"}


class Cuda:
    """CUDA's driver interface: functions that succeed unless a test sets another result, and a memory."""

    def __init__(self, fails=None, forgets=False):
        self.fails, self.forgets, self.called, self.memory = fails or {}, forgets, [], []

    def __getattr__(self, name):
        if name.startswith("do_"):
            return lambda *_arguments: None

        def function(*arguments):
            self.called.append(name)
            getattr(self, f"do_{name}")(*arguments)
            return self.fails.get(name, 0)

        return function

    def do_cuGetErrorName(self, code, told):
        told._obj.value = NAMES.get(code)

    def do_cuGetErrorString(self, code, told):
        told._obj.value = b"some words" if code in NAMES else None

    def do_cuMemcpyHtoD_v2(self, _memory, numbers, _bytes):
        self.memory = list(numbers)

    def do_cuLaunchKernel(self, *_arguments):
        self.memory = [number * number & 0xFFFFFFFF for number in self.memory]

    def do_cuMemcpyDtoH_v2(self, numbers, _memory, _bytes):
        numbers[:] = [0] * len(numbers) if self.forgets else self.memory


@pytest.fixture
def computed(monkeypatch):
    def run(cuda):
        monkeypatch.setattr(gpu_check_cuda, "library", lambda: cuda)
        monkeypatch.setattr(gpu_check_cuda, "_NUMBERS", 1 << 12)
        return gpu_check_cuda.compute("0000:41:00.0")

    return run


def test_computed(computed):
    cuda = Cuda()
    assert computed(cuda) == "computed"
    assert cuda.called[-1] == "cuCtxDestroy_v2"


def test_wrong_results(computed):
    assert computed(Cuda(forgets=True)) == "its results are wrong"


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ({"cuInit": 999}, "cuInit says CUDA_ERROR_UNKNOWN, some words"),
        ({"cuLaunchKernel": 7}, "cuLaunchKernel says error 7, unknown"),
        ({"cuCtxCreate_v2": 46}, "busy"),
        ({"cuMemAlloc_v2": 2}, "busy"),
    ],
)
def test_failures(computed, fails, told):
    cuda = Cuda(fails)
    assert computed(cuda) == told
    assert ("cuCtxDestroy_v2" in cuda.called) == (next(iter(fails)) in ("cuLaunchKernel", "cuMemAlloc_v2"))
