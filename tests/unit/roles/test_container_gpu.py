# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the role container_gpu installs, and the hook of the role podman."""

from __future__ import annotations

import errno
import importlib.util
import os
from pathlib import Path

import pytest

# What names alone would not show: scripts/narrow.py.
READS = ("roles/container_gpu/files", "roles/podman/files")
ROLES = Path(__file__).resolve().parents[3] / "roles"


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gpu():
    return load(ROLES / "container_gpu/files/container_gpu.py")


@pytest.fixture
def hook(monkeypatch, gpu):
    monkeypatch.setitem(__import__("sys").modules, "container_gpu", gpu)
    return load(ROLES / "podman/files/podman_gpu.py")


def test_libraries_lie_where_the_images_loader_looks(gpu, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.550.1").touch()
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.550.1")
    cache = "\n".join(
        [
            f"\tlibcuda.so.1 (libc6,x86-64) => {tmp_path}/libcuda.so.1",
            "\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1",
            "\tlibnvidia-ptxjitcompiler.so.1 (libc6,x86-64) => /usr/lib/other/libnvidia-ptxjitcompiler.so.1",
            "\tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /usr/lib/x86_64-linux-gnu/libc.so.6",
        ]
    )
    image = tmp_path / "image"
    (image / "usr/lib64").mkdir(parents=True)
    found = gpu.libraries(str(image), cache)
    found.pop("/usr/bin/nvidia-smi", None)
    assert found == {
        "/usr/lib64/libcuda.so.1": f"{tmp_path}/libcuda.so.550.1",
        "/usr/lib64/libnvidia-ptxjitcompiler.so.1": "/usr/lib/other/libnvidia-ptxjitcompiler.so.1",
    }
    # Of two folders the one that Debian's family looks in.
    debian = f"usr/lib/{os.uname().machine}-linux-gnu"
    (image / debian).mkdir(parents=True)
    assert f"/{debian}/libcuda.so.1" in gpu.libraries(str(image), cache)


def test_an_image_without_such_a_loader_gets_no_libraries(gpu, tmp_path: Path) -> None:
    assert gpu.libraries(str(tmp_path), "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/libcuda.so.1") == {}


@pytest.mark.parametrize(("error", "granted"), [(None, True), (errno.ENXIO, True), (errno.EPERM, False), (errno.EACCES, False)])
def test_a_device_is_granted_if_it_opens_or_only_lacks_its_driver(gpu, monkeypatch, error: int | None, granted: bool) -> None:
    def opening(_path: str, _flags: int) -> int:
        if error is not None:
            raise OSError(error, "")
        return os.dup(0)

    monkeypatch.setattr(gpu.os, "open", opening)
    assert gpu.lets_in("/dev/nvidia0") is granted


def test_the_hook_adds_devices_and_libraries_but_not_twice(hook) -> None:
    container = {"mounts": [{"destination": "/dev/nvidia0", "source": "/dev/nvidia0"}]}
    mounts = hook.with_gpus(container, ["/dev/nvidia0", "/dev/nvidiactl"], {"/usr/lib64/libcuda.so.1": "/lib/libcuda.so.550"})["mounts"]
    assert [(mount["source"], mount["destination"]) for mount in mounts] == [
        ("/dev/nvidia0", "/dev/nvidia0"),
        ("/dev/nvidiactl", "/dev/nvidiactl"),
        ("/lib/libcuda.so.550", "/usr/lib64/libcuda.so.1"),
    ]
    assert "ro" in mounts[2]["options"]
    assert hook.with_gpus({"mounts": []}, [], {}) == {"mounts": []}
