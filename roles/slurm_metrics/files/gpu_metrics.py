# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write the state of a node's GPUs as Prometheus metrics.

usage: gpu_metrics.py FILE [DEVICES]

The metrics are for the textfile collector of the node exporter.
DEVICES lists what SLURM schedules here, a line "type PCI-address file" for each (/etc/slurm/gpu_devices).
What the GPU itself measures comes from nvidia-smi, where there is one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

from prometheus_text import Metrics, publish

# Seconds: nvidia-smi hangs when a GPU does.
TIMEOUT = 20.0
ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
DEVICES = "/etc/slurm/gpu_devices"

# Field of nvidia-smi's query, metric, its kind, what it is, factor to the base unit.
READINGS = (
    ("utilization.gpu", "gpu_utilization_ratio", "gauge", "Part of the time in which a kernel ran.", 0.01),
    ("memory.used", "gpu_memory_used_bytes", "gauge", "Memory in use.", 1 << 20),
    ("memory.total", "gpu_memory_bytes", "gauge", "Memory of the GPU.", 1 << 20),
    ("temperature.gpu", "gpu_temperature_celsius", "gauge", "Temperature of the GPU.", 1),
    ("power.draw", "gpu_power_watts", "gauge", "Power draw.", 1),
    (
        "ecc.errors.uncorrected.volatile.total",
        "gpu_ecc_uncorrected_errors",
        "gauge",
        "Uncorrected memory errors since the driver was loaded.",
        1,
    ),
)


def is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def scheduled(lines: list[str]) -> list[tuple[str, str, str]]:
    """Type, PCI address and file of each device that SLURM schedules."""
    found = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            kind, address, file = line.split()[:3]
            found.append((kind, address, file))
    return found


def read(query: str) -> tuple[list[list[str]], bool]:
    """Rows of nvidia-smi, and whether it answered without an error.

    One lost GPU makes it end with an error after the readings of all others. A command that hangs in the driver does not end by
    SIGKILL either, so its end is not waited for; and it writes into a file, as a pipe would be waited for as long.
    """
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL, start_new_session=True)
        except OSError:
            return [], False
        try:
            code = process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return [], False
        printed.seek(0)
        rows = [[word.strip() for word in line.split(",")] for line in printed if line.strip()]
    width = query.count(",") + 1
    return [row for row in rows if len(row) == width and ADDRESS.fullmatch(row[0])], code == 0


def address_of(bus_id: str) -> str:
    """nvidia-smi's 00000000:41:00.0 as the kernel writes it."""
    return bus_id.lower()[-12:]


def metrics(devices: list[tuple[str, str, str]]) -> Metrics:
    text = Metrics()
    text.add("gpu_status_timestamp_seconds", "gauge", "When the GPUs were looked at.", int(time.time()))
    for kind, address, file in devices:
        what = "Whether the file of a device that SLURM schedules is there."
        text.add("gpu_device_present", "gauge", what, int(is_device(file)), type=kind, pci_address=address, file=file)
    if not shutil.which("nvidia-smi"):
        return text
    rows, complete = read(",".join(["pci.bus_id", *(field for field, *_rest in READINGS)]))
    text.add("gpu_reader_up", "gauge", "Whether nvidia-smi answers without an error.", int(complete), reader="nvidia-smi")
    for row in rows:
        for (_field, name, kind, what, factor), value in zip(READINGS, row[1:]):
            try:
                text.add(name, kind, what, float(value) * factor, pci_address=address_of(row[0]))
            except ValueError:
                continue  # "[N/A]": this GPU does not measure it
    return text


if __name__ == "__main__":
    with open(sys.argv[2] if len(sys.argv) > 2 else DEVICES, encoding="utf-8") as listed:
        present = scheduled(listed.readlines())
    publish(metrics(present), sys.argv[1])
