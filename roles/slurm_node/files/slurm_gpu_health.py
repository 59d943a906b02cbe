#!/usr/bin/python3 -B
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Drains this node, naming the device, when a scheduled GPU is gone or sick.

slurmd runs it at every HealthCheckInterval, and systemd, with the seconds to wait for the devices, before slurmd starts.
It never resumes a node.
"""

import os
import socket
import sys
import time

import slurm_gpus

# Only the image of cloud nodes has it: it finds out which devices this node has.
CLOUD_DEVICES = "/usr/local/libexec/deephdc/slurm_cloud_devices"


def main():
    if os.path.exists(CLOUD_DEVICES):
        slurm_gpus.run([CLOUD_DEVICES, *sys.argv[1:]], 30)
    patience = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    deadline = time.monotonic() + patience
    while True:
        wrong, silent = slurm_gpus.looked_at(list(slurm_gpus.scheduled().values()))
        if not wrong or time.monotonic() >= deadline:
            break
        time.sleep(1)
    wrong += slurm_gpus.silent_too_long(silent)
    if not wrong:
        return
    # Before slurmd runs, its copy of the configuration is the one of its last run.
    if not any(os.path.exists(path) for path in ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")):
        os.environ["SLURM_CONF"] = "/var/lib/slurm/slurmd/conf-cache/slurm.conf"
    slurm_gpus.drain(socket.gethostname().split(".")[0], slurm_gpus.MARK + "; ".join(wrong))


if __name__ == "__main__":
    main()
