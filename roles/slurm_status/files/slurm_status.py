# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the state of a SLURM cluster from SLURM's own commands.

It is the one source of numbers for all that is published. As a program it prints the status as JSON.
SLURM's text formats are the same from 22.05 on, other than its JSON. Units: memory in MiB, times in seconds.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import typing as t

# Seconds for each command: a controller that hangs must not make the publishing pile up.
TIMEOUT = 20.0

# States of a node's base state that mean no job can start there now, whatever its flags are.
UNUSABLE_FLAGS = ("DRAIN", "FAIL", "MAINT", "NOT_RESPONDING", "INVALID", "REBOOT", "POWERING_DOWN", "PLANNED")

Record = t.Dict[str, t.Any]


class Unreadable(Exception):
    """One sentence: why SLURM did not answer."""


def run(*words: str) -> str:
    """Output of a command; raises Unreadable."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Unreadable(f"'{' '.join(words)}' did not end in {TIMEOUT:g} s") from None
    except OSError as error:
        raise Unreadable(f"'{words[0]}' can't be run: {error.strerror}") from None
    if done.returncode != 0:
        raise Unreadable(f"'{' '.join(words)}' failed: {' '.join((done.stderr or done.stdout).split())}")
    return done.stdout


def fields(line: str) -> dict[str, str]:
    """The words KEY=VALUE of a line of `scontrol --oneliner`.

    A value may have blanks, as reasons do.
    """
    return {key: value.strip() for key, value in re.findall(r"(?:^|\s)([A-Z]\w*)=(.*?)(?=\s+[A-Z]\w*=|\s*$)", line)}


def number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0


def seconds(value: str | None) -> int | None:
    """Return a time limit of SLURM in seconds, None if there is no limit.

    The forms are minutes, [hours:]minutes:seconds or days-hours[:minutes[:seconds]].
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", value or "")
    if not match:
        return None
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    units = {1: [60], 2: [60, 1], 3: [3600, 60, 1]}[len(parts)] if days is None else [3600, 60, 1]
    return int(days or 0) * 86400 + sum(part * unit for part, unit in zip(parts, units))


def gres(total: str, used: str) -> list[Record]:
    """Return generic resources of a node: name, type, total and used.

    They are read from its fields Gres and GresUsed.
    """
    found: dict[tuple[str, str], Record] = {}
    for key, text in (("total", total), ("used", used)):
        for part in re.sub(r"\([^)]*\)", "", text).split(","):
            words = part.split(":")
            if len(words) < 2 or not words[-1].isdigit():
                continue
            name, kind = words[0], words[1] if len(words) > 2 else ""
            entry = found.setdefault((name, kind), {"name": name, "type": kind, "total": 0, "used": 0})
            entry[key] += int(words[-1])
    return sorted(found.values(), key=lambda entry: (entry["name"], entry["type"]))


def nodes(output: str) -> list[Record]:
    """From `scontrol --oneliner --details show nodes`."""
    found = []
    for line in output.splitlines():
        own = fields(line)
        if "NodeName" not in own:
            continue
        state, *flags = own.get("State", "UNKNOWN").rstrip("*~#!%$@^-").split("+")
        reason = re.sub(r"\s*\[\S+@\S+\]$", "", own.get("Reason", ""))
        found.append(
            {
                "name": own["NodeName"],
                "state": state.lower(),
                "flags": sorted(flag.lower() for flag in flags),
                "usable": state in ("IDLE", "MIXED", "ALLOCATED") and not any(f in flag for flag in flags for f in UNUSABLE_FLAGS),
                "reason": reason,
                "partitions": [name for name in own.get("Partitions", "").split(",") if name],
                "cpus": {"total": number(own.get("CPUTot")), "used": number(own.get("CPUAlloc"))},
                "sockets": number(own.get("Sockets")) or 1,
                "memory_mib": {"total": number(own.get("RealMemory")), "used": number(own.get("AllocMem"))},
                "gres": gres(own.get("Gres", ""), own.get("GresUsed", "")),
                "architecture": own.get("Arch", ""),
                "system": own.get("OS", ""),
                "version": own.get("Version", ""),
            }
        )
    return found


def partitions(output: str) -> list[Record]:
    """From `scontrol --oneliner show partitions`."""
    found = []
    for line in output.splitlines():
        own = fields(line)
        if "PartitionName" not in own:
            continue
        found.append(
            {
                "name": own["PartitionName"],
                "state": own.get("State", "").lower(),
                "default": own.get("Default") == "YES",
                "max_time_s": seconds(own.get("MaxTime")),
                "default_time_s": seconds(own.get("DefaultTime")),
                "max_nodes": number(own.get("MaxNodes")) or None,
                "accounts": [] if own.get("AllowAccounts", "ALL") == "ALL" else own["AllowAccounts"].split(","),
                "qos": [] if own.get("AllowQos", "ALL") == "ALL" else own["AllowQos"].split(","),
            }
        )
    return found


def jobs(output: str) -> list[Record]:
    """Count jobs by state, partition and account, from the output of `squeue`.

    Its fields are ended by '|'.
    """
    found: dict[tuple[str, str, str], Record] = {}
    for line in output.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) < 4:
            continue
        state, partition, account, tres = words[:4]
        key = (state.lower(), partition, account)
        entry = found.setdefault(key, {"state": key[0], "partition": partition, "account": account, "count": 0, "cpus": 0, "gpus": 0})
        entry["count"] += 1
        if state in ("RUNNING", "SUSPENDED", "COMPLETING"):
            given = dict(word.split("=", 1) for word in tres.split(",") if "=" in word)
            entry["cpus"] += number(given.get("cpu"))
            entry["gpus"] += number(given.get("gres/gpu"))
    return [found[key] for key in sorted(found)]


SCHEDULER = {
    "Server thread count": "threads",
    "Agent queue size": "agent_queue",
    "DBD Agent queue size": "database_queue",
    "Jobs submitted": "jobs_submitted",
    "Jobs started": "jobs_started",
    "Jobs completed": "jobs_completed",
    "Jobs canceled": "jobs_canceled",
    "Jobs failed": "jobs_failed",
}


def scheduler(output: str) -> Record:
    """From `sdiag`; its job counters begin again at midnight (UTC) and with slurmctld."""
    found: Record = {}
    for line in output.splitlines():
        key, _colon, value = line.strip().partition(":")
        if key in SCHEDULER and SCHEDULER[key] not in found and value.strip().isdigit():
            found[SCHEDULER[key]] = int(value)
        if key == "Last cycle" and "last_cycle_us" not in found and value.strip().isdigit():
            found["last_cycle_us"] = int(value)
    return found


def setting(output: str, name: str) -> str:
    """One setting from slurm.conf or `scontrol show config`."""
    match = re.search(rf"^{name}\s*=\s*(.*?)\s*$", output, re.MULTILINE)
    return match.group(1) if match else ""


def configured_name() -> str:
    """The cluster's name from the file, which is there when slurmctld is not."""
    try:
        with open("/etc/slurm/slurm.conf", encoding="utf-8") as file:
            return setting(file.read(), "ClusterName")
    except OSError:
        return ""


def status() -> Record:
    """The whole cluster.

    If slurmctld does not answer, it has up false and an error (a sentence), and nothing else.
    """
    found: Record = {"time": int(time.time()), "up": True, "error": "", "cluster": configured_name(), "version": ""}
    found.update({"nodes": [], "partitions": [], "jobs": [], "scheduler": {}})
    try:
        found["version"] = setting(run("scontrol", "show", "config"), "SLURM_VERSION")
        found["nodes"] = nodes(run("scontrol", "--oneliner", "--details", "--all", "show", "nodes"))
        found["partitions"] = partitions(run("scontrol", "--oneliner", "--all", "show", "partitions"))
        found["jobs"] = jobs(run("squeue", "--all", "--noheader", "--array", "--Format=State:|,Partition:|,Account:|,tres-alloc:|"))
        found["scheduler"] = scheduler(run("sdiag"))
    except Unreadable as error:  # half a status would be read as a loss
        found.update({"up": False, "error": str(error), "nodes": [], "partitions": [], "jobs": [], "scheduler": {}})
    return found


if __name__ == "__main__":
    json.dump(status(), sys.stdout, indent=1)
    print()
