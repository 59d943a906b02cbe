# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What a container gets of its host's GPUs.

It gets the GPUs that the calling job may open, and NVIDIA's libraries and tools for them.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import subprocess

GPUS = ("/dev/nvidia[0-9]*", "/dev/dri/renderD*")
# What programs open beside a GPU; MIG instances are opened through a capability each.
COMPANIONS = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-caps/*", "/dev/kfd")

# Where the loader of a container's distribution looks: Debian's family, then Red Hat's.
FOLDERS = (f"/usr/lib/{os.uname().machine}-linux-gnu", "/usr/lib64")

# The host's libraries that belong to its kernel driver, so that no image can bring them. "(libc6)" alone is a 32 bit one.
LIBRARY = re.compile(r"^\s*(lib(?:cuda|cudadebugger|nvcuvid|nvidia-[a-z-]+)\.so\S*) \(libc6,[^)]*\) => (/\S+)$", re.MULTILINE)
TOOLS = ("nvidia-smi",)


def lets_in(path: str) -> bool:
    """Return whether the job may open a device.

    ENXIO is a device that the job may open and that no driver serves.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.ENXIO
    return True


def opened(patterns: tuple[str, ...]) -> list[str]:
    return [path for pattern in patterns for path in sorted(glob.glob(pattern)) if lets_in(path)]


def devices() -> list[str]:
    """Device files for a container: none at all without a GPU."""
    gpus = opened(GPUS)
    return gpus + opened(COMPANIONS) if gpus else []


def libraries(root: str, cache: str | None = None) -> dict[str, str]:
    """Path in the container to file on the host.

    Empty where the image's loader would not look for such libraries.
    """
    folder = next((name for name in FOLDERS if os.path.isdir(root + name)), None)
    if folder is None:
        return {}
    if cache is None:
        cache = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False).stdout
    # Distributions lead to the driver that is chosen by links, which lead nowhere in a container.
    found = {f"{folder}/{name}": os.path.realpath(path) for name, path in LIBRARY.findall(cache)}
    for name in TOOLS if found else ():
        tool = shutil.which(name)
        if tool:
            found[f"/usr/bin/{name}"] = os.path.realpath(tool)
    return found


def nvidia_libraries(root: str) -> dict[str, str]:
    """The libraries for a container of this job: none where it has no NVIDIA GPU."""
    return libraries(root) if opened(GPUS[:1]) else {}
