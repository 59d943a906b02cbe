# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Write the state of a SLURM cluster as Prometheus metrics.

usage: slurm_metrics.py FILE

The metrics are for the textfile collector of the node exporter.
"""

from __future__ import annotations

import sys
from collections import Counter

from prometheus_text import Metrics, publish
from slurm_status import Record, status

JOB_STATES = ("pending", "running", "suspended", "completing")


def metrics(seen: Record) -> Metrics:
    text = Metrics()
    text.add("slurm_up", "gauge", "Whether slurmctld answers.", int(seen["up"]))
    text.add("slurm_status_timestamp_seconds", "gauge", "When SLURM was asked.", seen["time"])
    if not seen["up"]:  # absent, not zero: nothing is known of nodes and jobs
        return text
    text.add("slurm_info", "gauge", "Name and release of the cluster.", 1, cluster=seen["cluster"], version=seen["version"])
    for node in seen["nodes"]:
        name = node["name"]
        text.add(
            "slurm_node_usable", "gauge", "Whether jobs can start on the node now.", int(node["usable"]), node=name, state=node["state"]
        )
        text.add("slurm_node_cpus", "gauge", "CPUs of the node.", node["cpus"]["total"], node=name)
        text.add("slurm_node_cpus_allocated", "gauge", "CPUs that jobs have.", node["cpus"]["used"], node=name)
        text.add("slurm_node_memory_bytes", "gauge", "Memory that can be scheduled.", node["memory_mib"]["total"] << 20, node=name)
        text.add("slurm_node_memory_allocated_bytes", "gauge", "Memory that jobs have.", node["memory_mib"]["used"] << 20, node=name)
        for gres in node["gres"]:
            labels = {"node": name, "gres": gres["name"], "type": gres["type"]}
            text.add("slurm_node_gres", "gauge", "Generic resources of the node, such as GPUs.", gres["total"], **labels)
            text.add("slurm_node_gres_allocated", "gauge", "Generic resources that jobs have.", gres["used"], **labels)
    counts: Counter[tuple[str, str]] = Counter()
    cpus: Counter[str] = Counter()
    gpus: Counter[str] = Counter()
    account_jobs: Counter[tuple[str, str]] = Counter()
    for group in seen["jobs"]:
        counts[group["partition"], group["state"]] += group["count"]
        account_jobs[group["account"], group["state"]] += group["count"]
        cpus[group["account"]] += group["cpus"]
        gpus[group["account"]] += group["gpus"]
    for partition in seen["partitions"]:
        name = partition["name"]
        text.add(
            "slurm_partition_up", "gauge", "Whether the partition takes and starts jobs.", int(partition["state"] == "up"), partition=name
        )
        if partition["max_time_s"] is not None:
            text.add("slurm_partition_max_time_seconds", "gauge", "Longest job of the partition.", partition["max_time_s"], partition=name)
        for state in JOB_STATES:
            text.add("slurm_partition_jobs", "gauge", "Jobs by partition and state.", counts[name, state], partition=name, state=state)
    for (account, state), count in sorted(account_jobs.items()):
        text.add("slurm_account_jobs", "gauge", "Jobs by account and state.", count, account=account, state=state)
    for account in sorted(cpus):
        text.add("slurm_account_cpus_allocated", "gauge", "CPUs that the account's jobs have.", cpus[account], account=account)
        text.add("slurm_account_gpus_allocated", "gauge", "GPUs that the account's jobs have.", gpus[account], account=account)
    scheduler = seen["scheduler"]
    for key, name, what in (
        ("threads", "slurm_controller_threads", "Threads of slurmctld that serve requests."),
        ("agent_queue", "slurm_controller_agent_queue", "Messages to nodes that slurmctld has not sent yet."),
        ("database_queue", "slurm_controller_database_queue", "Accounting records that slurmctld keeps until slurmdbd takes them."),
    ):
        if key in scheduler:
            text.add(name, "gauge", what, scheduler[key])
    if "last_cycle_us" in scheduler:
        what = "Duration of the last scheduling cycle."
        text.add("slurm_controller_last_cycle_seconds", "gauge", what, scheduler["last_cycle_us"] / 1e6)
    for key in ("submitted", "started", "completed", "canceled", "failed"):
        if f"jobs_{key}" in scheduler:
            what = f"Jobs {key} since slurmctld started or midnight (UTC)."
            text.add(f"slurm_jobs_{key}_total", "counter", what, scheduler[f"jobs_{key}"])
    return text


if __name__ == "__main__":
    now = status()
    publish(metrics(now), sys.argv[1])
    if now["error"]:
        sys.exit(f"slurmctld does not answer, only slurm_up 0 was written: {now['error']}")
