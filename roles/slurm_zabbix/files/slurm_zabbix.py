# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Push the state of a SLURM cluster to Zabbix, by its own zabbix_sender.

usage: slurm_zabbix.py CONFIGURATION

The items are those of the template slurm_zabbix_template.yaml. GPU types are discovered: Zabbix makes the items of a new type
a moment after it first got it, and refuses values until then.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from slurm_status import Record, status

TIMEOUT = 60.0


def values(seen: Record) -> dict[str, str]:
    """Item keys and values; of a slurmctld that does not answer only that it does not."""
    found: dict[str, object] = {"slurm.up": int(seen["up"]), "slurm.error": seen["error"]}
    if not seen["up"]:
        return {key: str(value) for key, value in found.items()}
    nodes = seen["nodes"]
    gpus: dict[str, list[int]] = {}
    for gres in (gres for node in nodes for gres in node["gres"] if gres["name"] == "gpu"):
        counts = gpus.setdefault(gres["type"] or "gpu", [0, 0])
        counts[0] += gres["total"]
        counts[1] += gres["used"]
    found.update(
        {
            "slurm.version": seen["version"],
            "slurm.nodes.total": len(nodes),
            "slurm.nodes.unusable": sum(not node["usable"] for node in nodes),
            "slurm.cpus.total": sum(node["cpus"]["total"] for node in nodes),
            "slurm.cpus.used": sum(node["cpus"]["used"] for node in nodes),
            "slurm.gpus.total": sum(total for total, _used in gpus.values()),
            "slurm.gpus.used": sum(used for _total, used in gpus.values()),
            "slurm.jobs.running": sum(group["count"] for group in seen["jobs"] if group["state"] == "running"),
            "slurm.jobs.pending": sum(group["count"] for group in seen["jobs"] if group["state"] == "pending"),
            "slurm.database.queue": seen["scheduler"].get("database_queue", 0),
            "slurm.gpu.discovery": json.dumps([{"{#TYPE}": gpu_type} for gpu_type in sorted(gpus)]),
        }
    )
    for gpu_type, (total, used) in sorted(gpus.items()):
        found[f"slurm.gpu.total[{gpu_type}]"] = total
        found[f"slurm.gpu.used[{gpu_type}]"] = used
    return {key: str(value) for key, value in found.items()}


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def send(found: dict[str, str], configuration: str) -> str:
    """Hand the values to zabbix_sender; return a sentence if that fails, or nothing."""
    lines = "".join(f"- {quoted(key)} {quoted(value)}\n" for key, value in found.items())
    command = ["zabbix_sender", "--config", configuration, "--input-file", "-"]
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"Zabbix did not take the values in {TIMEOUT:g} s: is its server up, and its port open?"
    said = " ".join((done.stdout + done.stderr).split())
    print(said)
    counted = re.search(r"processed: (\d+)", said)
    if not counted:
        return f"Zabbix did not take the values: {said}"
    if counted.group(1) == "0":
        return "Zabbix took none of the values: is there a host of the name that slurm_zabbix_host has, with the template linked to it?"
    return ""


if __name__ == "__main__":
    now = status()
    problem = send(values(now), sys.argv[1])
    if problem or now["error"]:
        sys.exit(problem or f"slurmctld does not answer, Zabbix was told so: {now['error']}")
