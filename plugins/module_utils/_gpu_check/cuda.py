# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A small computation on one NVIDIA GPU, by CUDA's driver interface.

The library belongs to the driver, so no toolkit is needed.
Names and types of the functions: CUDA Driver API reference, https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import ctypes
import typing as t

COMPUTED = "computed"
# Another process has the GPU exclusively, or all of its memory: the GPU works, but not for this check.
BUSY = "busy"
_TAKEN = ("CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_OUT_OF_MEMORY")

_NUMBERS = 1 << 20
_THREADS = 256

# The driver compiles it for the GPU: each number is multiplied by itself.
_PROGRAM = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry square(.param .u64 numbers, .param .u32 count)
{
    .reg .pred %outside;
    .reg .b32 %count, %block, %size, %thread, %index, %number;
    .reg .b64 %numbers, %offset, %place;
    ld.param.u64 %numbers, [numbers];
    ld.param.u32 %count, [count];
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.s32 %index, %block, %size, %thread;
    setp.ge.u32 %outside, %index, %count;
    @%outside bra END;
    cvta.to.global.u64 %place, %numbers;
    mul.wide.u32 %offset, %index, 4;
    add.s64 %place, %place, %offset;
    ld.global.u32 %number, [%place];
    mul.lo.u32 %number, %number, %number;
    st.global.u32 [%place], %number;
END:
    ret;
}
"""


class _Failed(Exception):
    """A function of the library did not succeed."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(name, words)
        self.name, self.words = name, words


def library() -> t.Any:
    """The driver's library; None where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def compute(address: str) -> str:
    """Square a million numbers on the GPU at a PCI address.

    Return COMPUTED, BUSY, or what went wrong, in the library's words.
    """
    cuda = library()
    try:
        _call(cuda, "cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        _call(cuda, "cuDeviceGetByPCIBusId", ctypes.byref(device), address.encode("ascii"))
        _call(cuda, "cuCtxCreate_v2", ctypes.byref(context), 0, device)
        try:
            return COMPUTED if _squares(cuda) else "its results are wrong"
        finally:
            cuda.cuCtxDestroy_v2(context)
    except _Failed as reason:
        return BUSY if reason.name in _TAKEN else reason.words


def _squares(cuda: t.Any) -> bool:
    module, function, memory, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint32(_NUMBERS)
    numbers = (ctypes.c_uint32 * _NUMBERS)(*range(_NUMBERS))
    _call(cuda, "cuModuleLoadData", ctypes.byref(module), _PROGRAM)
    _call(cuda, "cuModuleGetFunction", ctypes.byref(function), module, b"square")
    _call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(numbers)))
    _call(cuda, "cuMemcpyHtoD_v2", memory, numbers, ctypes.c_size_t(ctypes.sizeof(numbers)))
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(count))
    _call(cuda, "cuLaunchKernel", function, _NUMBERS // _THREADS, 1, 1, _THREADS, 1, 1, 0, None, arguments, None)
    _call(cuda, "cuCtxSynchronize")
    _call(cuda, "cuMemcpyDtoH_v2", numbers, memory, ctypes.c_size_t(ctypes.sizeof(numbers)))
    return all(number == index * index & 0xFFFFFFFF for index, number in enumerate(numbers))


def _call(cuda: t.Any, function: str, *arguments: t.Any) -> None:
    code = getattr(cuda, function)(*arguments)
    if code:
        name, words = ctypes.c_char_p(), ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(name))
        cuda.cuGetErrorString(code, ctypes.byref(words))
        error = (name.value or b"error %d" % code).decode()
        raise _Failed(error, f"{function} says {error}, {(words.value or b'unknown').decode()}")
