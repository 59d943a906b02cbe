#!/usr/bin/python3 -I
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A hook of podman's that adds GPUs to a container's configuration.

It reads the configuration and prints it with the GPUs of the job that podman runs in.
"""

import json
import sys

sys.path.append("/usr/local/lib/deephdc")
from container_gpu import devices, nvidia_libraries


def with_gpus(container: dict, gpus: list, libraries: dict) -> dict:
    """Devices and libraries as mounts, except those that the user named.

    A container without a GPU is left as it is.
    """
    there = {mount["destination"] for mount in container["mounts"]}
    mounts = [(path, path, []) for path in gpus] + [(file, path, ["ro", "nodev"]) for path, file in libraries.items()]
    container["mounts"] += [
        {"type": "bind", "source": source, "destination": path, "options": ["bind", "rprivate", "nosuid", *options]}
        for source, path, options in mounts
        if path not in there
    ]
    return container


if __name__ == "__main__":
    configuration = json.load(sys.stdin)
    json.dump(with_gpus(configuration, devices(), nvidia_libraries(configuration["root"]["path"])), sys.stdout)
